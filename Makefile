# What a person does often. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The tools' versions are part of the project: two people get the same findings.
STATICCHECK_VERSION := v0.8.2
GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.9.0

STATICCHECK := bin/staticcheck-$(STATICCHECK_VERSION)
GOLANGCI    := bin/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK := bin/govulncheck-$(GOVULNCHECK_VERSION)

# PKG narrows test, vet and bench: make test PKG=./handover/...
PKG ?= ./...
# ARGS goes to what `make demo` runs: make demo ARGS='--rotate-every 3s'
ARGS ?=
# Of one package's tests; the longest run real servers for minutes.
TEST_TIMEOUT ?= 20m
# They go first, so that none is left to run alone in the end.
LONGEST := ./itest ./service ./cmd/leasesvc ./itest/cluster
FUZZ_TIME ?= 10s

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: help
help: ## list what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/leasesvc, and check that everything else compiles (needs Go)
	go build ./...
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/leasesvc

.PHONY: demo
demo: ## run the whole system on this terminal, nothing to set up (needs Go)
	go run ./cmd/leasesvc dev $(ARGS)

.PHONY: test
test: deps ## install what the tests need, then run all tests with the race detector
	LEASESVC_TEST_SHORT=1 CGO_ENABLED=1 scripts/in-memory go test -race -timeout $(TEST_TIMEOUT) $(if $(filter ./...,$(PKG)),$(LONGEST)) $(PKG)
	go test -tags nextrelease ./events ./leasecore ./projector ./audit

.PHONY: test-quick
test-quick: ## the tests that need no PostgreSQL and no browser, without the race detector (needs Go and promtool)
	go test -timeout $(TEST_TIMEOUT) $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -v -e '/itest' -e chromedp | cut -d ' ' -f 1)

.PHONY: deps
deps: ## install what the tests need (Debian, as root or with sudo)
	@scripts/install-test-deps

.PHONY: check
check: format-check vet staticcheck lint vulnerabilities test ## everything that must hold before a commit

.PHONY: format
format: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt

.PHONY: format-check
format-check:
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './bin/*')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (make format):"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet $(PKG)
	go vet -tags nextrelease $(PKG)

.PHONY: staticcheck
staticcheck: $(STATICCHECK) ## staticcheck
	$(STATICCHECK) $(PKG)

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint with .golangci.yml (the first time builds it: minutes)
	$(GOLANGCI) config verify
	$(GOLANGCI) run $(PKG)

.PHONY: vulnerabilities
vulnerabilities: $(GOVULNCHECK) ## look our modules up in Go's vulnerability database
	scripts/vulnerabilities $(GOVULNCHECK)

BENCH := go test ./bench -run '^TestBench$$' -count 1 -v

.PHONY: bench
bench: ## the whole table beside the raw engine, into bench/out/full.json (under 10 minutes)
	$(BENCH) -timeout 15m -bench.size full -bench.out $(CURDIR)/bench/out/full.json
	go test ./bench/handover -run '^$$' -bench Overhead -benchtime 250x -timeout 10m -v -handover.out $(CURDIR)/bench/out/full.json
	go test ./bench/handover -run '^$$' -bench Thousand -timeout 10m -v -handover.out $(CURDIR)/bench/out/full.json
	go test ./bench/failover -count 1 -v -timeout 10m -failover.rounds 2 -failover.out $(CURDIR)/bench/out/full.json

.PHONY: bench-short
bench-short: ## append, replay, get and memory for each lease, into bench/out/short.json (a minute)
	$(BENCH) -timeout 5m -bench.size short -bench.out $(CURDIR)/bench/out/short.json

.PHONY: bench-micro
bench-micro: ## every package's own benchmarks, for profiles (PKG narrows it)
	go test -run '^$$' -bench . -benchmem -timeout 60m -p 1 $(PKG)

.PHONY: bench-handover
bench-handover: ## what a hand-over costs beyond Vault and consumer (p50, p99), and hand-overs a second with 1,000 consumers
	go test ./bench/handover -run '^$$' -bench Overhead -benchtime 250x -timeout 30m
	go test ./bench/handover -run '^$$' -bench Thousand -timeout 30m

.PHONY: bench-failover
bench-failover: ## how long a scope is without a holder: 30 takeovers of each kind on 3 NATS servers, into bench/out/failover.json (half an hour)
	go test ./bench/failover -count 1 -v -timeout 90m -failover.rounds 30 -failover.servers 5 -failover.out $(CURDIR)/bench/out/failover.json

.PHONY: web-bench
web-bench: ## the page with 10,000 leases and a million events, in Chromium (minutes)
	go test ./web -run '^$$' -bench Page -benchtime 1x -timeout 20m -v -web.names 10000 -web.events 1000000

.PHONY: screenshots
screenshots: ## pictures of the page, light and dark, desktop and phone, into bench/out/screenshots
	LEASESVC_SCREENSHOTS=$(CURDIR)/bench/out/screenshots go test ./web -count 1 -run Screenshots

.PHONY: cluster-long
cluster-long: ## kills, lost answers, stale appends and linearizability on 3 NATS servers, in full (half an hour)
	go test ./itest/cluster -count 1 -v -timeout 90m -cluster.kills 100 -cluster.appends 1000 -cluster.stale 1000000 -cluster.runs 30

.PHONY: fuzz-short
fuzz-short: ## every fuzz test for $FUZZ_TIME (10s)
	scripts/fuzz-short $(FUZZ_TIME)

# SEED replays one schedule of the simulator exactly.
SEED ?=

.PHONY: sim
sim: ## the simulator's short run: 20,000 schedules, every fault in every phase (a minute); SEED=N replays one
	go test ./sim -count 1 -run TestSim -timeout 5m -v $(if $(SEED),-seed $(SEED))

.PHONY: sim-long
sim-long: ## a million schedules (an hour)
	go test ./sim -count 1 -run TestSim -timeout 6h -v -schedules 1000000

.PHONY: sim-mutants
sim-mutants: ## plant faults in the simulator and in the core: each must be caught by the short run
	go test -tags mutants ./sim -count 1 -run Mutants -timeout 30m -v

MUTATE_ARGS ?=

.PHONY: mutate
mutate: ## mutation tests of leasecore and projector: at least 90 % killed (minutes)
	go run ./internal/mutate/cmd -min 90 -equivalent docs/mutation.md -skip '^TestArrows$$' $(MUTATE_ARGS) ./leasecore=./leasecore,./projector ./projector

.PHONY: spec
spec: ## check the model of the protocol: small bounds, every mutant (3 minutes; spin from Debian)
	spec/check

.PHONY: spec-long
spec-long: ## check the model with the larger bounds
	spec/check -long

.PHONY: golden
golden: ## rewrite golden files and scenarios' printed state; read the difference
	scripts/golden

.PHONY: compose-check
compose-check: ## check docker-compose.yml and what it mounts (needs docker compose)
	docker compose config --quiet

.PHONY: clean
clean: ## remove what was built; the tools in bin/ stay (make clean-tools)
	rm -rf bin/leasesvc state coverage.*
	find . -name '*.test' -type f -delete

.PHONY: clean-tools
clean-tools: ## remove the pinned tools too
	rm -rf bin

# A tool's file is named after its version, so a new version is a new target.
# install-tool: $(1) package, $(2) version, $(3) the command's name
define install-tool
	@echo "building $(3) $(2)"
	@GOBIN=$(CURDIR)/bin/.new go install $(1)@$(2)
	@rm -f bin/$(3)-*
	@mv bin/.new/$(3) $@
	@rmdir bin/.new
endef

$(STATICCHECK):
	$(call install-tool,honnef.co/go/tools/cmd/staticcheck,$(STATICCHECK_VERSION),staticcheck)

$(GOLANGCI):
	$(call install-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_VERSION),golangci-lint)

$(GOVULNCHECK):
	$(call install-tool,golang.org/x/vuln/cmd/govulncheck,$(GOVULNCHECK_VERSION),govulncheck)
