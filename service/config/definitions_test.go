package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
)

func parseDefs(t *testing.T, src string, opts ...config.Option) *config.Definitions {
	t.Helper()
	defs, err := config.ParseDefinitions("d.yaml", []byte(src), []string{"main"}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return defs
}

func TestDefaultsOfADefinition(t *testing.T) {
	defs := parseDefs(t, "revision: 3\nleases:\n  a: {path: kv/a}\n")
	want := events.DefaultDefinition()
	want.Vault, want.Path = "main", "kv/a"
	if got := defs.Leases["a"]; !got.Equal(&want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if at := defs.Position("a"); at != (config.Position{Line: 3, Column: 3}) {
		t.Errorf("position %v", at)
	}
	for lease, want := range map[string]string{"a": "d.yaml:3:3: leases.a: no", "": "d.yaml:1:1: revision: no"} {
		if got := defs.Refuse(lease, "no").Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDefaultsGoUnderALease(t *testing.T) {
	// The defaults stand last in the file: their place makes no difference.
	defs := parseDefs(t, `
revision: 1
leases:
  a: {path: kv/a}
  b: {path: kv/b, good_for: 0.25, require: [x], consumers: []}
defaults:
  good_for: 1m
  retire_after: 2h30m
  require: [z, y]
  consumers: [{name: app, key: `+keyA+`}]
`)
	a, b := defs.Leases["a"], defs.Leases["b"]
	if a.GoodFor.String() != "60" || a.RetireAfter.String() != "9000" || fmt.Sprint(a.Require) != "[y z]" || len(a.Consumers) != 1 {
		t.Errorf("a is %+v", a)
	}
	if b.GoodFor.String() != "0.25" || b.RetireAfter.String() != "9000" || fmt.Sprint(b.Require) != "[x]" || len(b.Consumers) != 0 {
		t.Errorf("b is %+v", b)
	}
}

func TestDigestIsCanonical(t *testing.T) {
	same := []string{
		"revision: 1\nleases:\n  a: {path: kv/a, require: [x, y], good_for: 30s}\n  b: {path: kv/b}\n",
		"revision: 2\ndefaults: {retire_after: 3600}\nleases:\n  b: {vault: main, path: kv/b}\n  a:\n    require: [y, x]\n    path: kv/a\n    good_for: 30.000\n",
	}
	first := parseDefs(t, same[0]).Digest()
	if !strings.HasPrefix(first, "sha256:") || len(first) != 7+64 {
		t.Errorf("digest %q", first)
	}
	if got := parseDefs(t, same[1]).Digest(); got != first {
		t.Errorf("the same definitions have the digests %s and %s", first, got)
	}
	for _, other := range []string{
		"revision: 1\nleases:\n  a: {path: kv/a, require: [x, y], good_for: 31s}\n  b: {path: kv/b}\n",
		"revision: 1\nleases:\n  a: {path: kv/a, require: [x], good_for: 30s}\n  b: {path: kv/b}\n",
		"revision: 1\nleases:\n  a: {path: kv/a, require: [x, y], good_for: 30s}\n",
		"revision: 1\nleases: {}\n",
	} {
		if parseDefs(t, other).Digest() == first {
			t.Errorf("other definitions have the same digest:\n%s", other)
		}
	}
}

func TestInsecureConsumersNeedNoKey(t *testing.T) {
	const src = "revision: 1\nleases: {a: {path: kv/a, consumers: [{name: app}]}}\n"
	if _, err := config.ParseDefinitions("d.yaml", []byte(src), []string{"main"}); err == nil || !strings.Contains(err.Error(), "d.yaml:2:38: leases.a.consumers[0].key: is missing") {
		t.Errorf("got %v", err)
	}
	parseDefs(t, src, config.InsecureConsumers(true))
}

func TestVaultMustBeNamedBesideOthers(t *testing.T) {
	const src = "revision: 1\nleases: {a: {path: kv/a}}\n"
	_, err := config.ParseDefinitions("d.yaml", []byte(src), []string{"main", "other"})
	if err == nil || !strings.Contains(err.Error(), "known: main, other") {
		t.Errorf("got %v", err)
	}
}

func TestCheckVerifierHookIsAsked(t *testing.T) {
	const src = `revision: 1
leases:
  a:
    path: kv/a
    kind: postgresql
    verifier: {kind: postgresql, dsn: "host=db user={{username}} password='{{password}}'"}
`
	asked := 0
	_, err := config.ParseDefinitions("d.yaml", []byte(src), []string{"main"}, config.CheckVerifier(func(v events.Verifier) error {
		asked++
		if v.Kind != "postgresql" || !strings.HasPrefix(v.DSN, "host=db") {
			t.Errorf("asked about %q, %q", v.Kind, v.DSN)
		}
		return errors.New("the hook says no")
	}))
	if asked != 1 || err == nil || !strings.Contains(err.Error(), "d.yaml:6:39: leases.a.verifier.dsn: the hook says no") {
		t.Errorf("asked %d times, got %v", asked, err)
	}
}

func TestDSNTemplates(t *testing.T) {
	const good, own = "", "password of its own"
	for dsn, want := range map[string]string{
		"postgres://{{username}}:{{password}}@127.0.0.1:5432/app":                   good,
		"postgresql://{{username}}:{{password}}@a:1,b:2/app?sslmode=verify-full":    good,
		"postgres://{{username}}:{{password}}@/app?host=/run/postgresql":            good,
		"postgres://a/app?user={{username}}&password={{password}}":                  good,
		"host=db port=5432 user={{username}} password={{password}} dbname='my app'": good,
		"host = db user = '{{username}}' password = '{{password}}'":                 good,
		"postgres://{{username}}:S3cret@127.0.0.1/app":                              own,
		"postgres://{{username}}:S3cret{{password}}@127.0.0.1/app":                  own,
		"postgres://{{username}}:{{password}}@a/app?password=S3cret":                own,
		"postgres://{{username}}:{{password}}@a/app?PASSWORD=S3cret":                own,
		"postgres://{{username}}:{{password}}@a/app?sslpassword=S3cret":             own,
		"postgres://{{username}}:{{password}}@a/app?p%61ssword=S3cret":              own,
		"host=db user={{username}} password=S3cret":                                 own,
		`host=db user={{username}} password='S3cret \' x'`:                          own,
		"host=db user={{username}} password={{password}} password = S3cret":         own,
		"host=db user=S3cret password={{password}}":                                 "user of its own",
		"host={{username}} user={{username}} password={{password}}":                 "write the host out",
		"host=db user={{username}}":                                                 "has no password",
		"postgres://a/app":                                                          "has no user",
		"postgres://{{username}}:{{password}}@/app":                                 "has no host",
		"mysql://{{username}}:{{password}}@a/app":                                   "scheme is not postgres",
		"postgres://{{username}}:{{password}}@a/app?service=S3cret":                 "service or password file",
		"postgres://{{ username }}:{{password}}@a/app":                              "no placeholder",
		"postgres://{{username}}:{{password}}@a:S3cret/app":                         "is not a URL",
		"S3cret":       "neither a URL nor",
		"host='S3cret": "quote that is not closed",
		"postgres://{{username}}:{{password}}@a/app#S3cret": "fragment",
	} {
		src := fmt.Sprintf("revision: 1\nleases: {a: {path: kv/a, kind: postgresql, verifier: {kind: postgresql, dsn: %q}}}\n", dsn)
		_, err := config.ParseDefinitions("d.yaml", []byte(src), []string{"main"})
		switch {
		case want == good && err != nil:
			t.Errorf("%s: %v", dsn, err)
		case want != good && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", dsn, err, want)
		case err != nil && strings.Contains(err.Error(), "S3cret"):
			t.Errorf("the error repeats the template: %v", err)
		}
	}
}

func TestDurations(t *testing.T) {
	for in, want := range map[string]string{
		"30s": "30", "59m60s": "3600", "0h30m": "1800", "500ms": "0.5", "0.5s": "0.5", "0.5h": "1800", "30": "30", "0.5": "0.5",
		"2m0.000000001s": "120.000000001", `"30s"`: "30", "1500000us": "1.5", "1500000µs": "1.5", "0.1": "0.1", "30.000": "30",
	} {
		defs := parseDefs(t, "revision: 1\nleases: {a: {path: kv/a, prepare_timeout: "+in+"}}\n")
		if got := defs.Leases["a"].PrepareTimeout.String(); got != want {
			t.Errorf("%s is %s seconds, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`"30"`: "without a unit", "-5s": "negative", "-5": "negative", "1d": "24h, 168h", "5 s": "not a duration", "s": "not a duration",
		"1h 30m": "not a duration", "0": "out of range", "2h": "out of range", "9999999999h": "out of range", "0.5ns": "finer than a nanosecond",
		"true": "a truth value where", "[30s]": "a list where", "1e3": "not a duration", "0x10": "not a duration", ".inf": "not a duration",
		"12:30": "not a duration", "1_000": "not a duration", `""`: "not a duration", strings.Repeat("1s", 40): "not a duration", "0.0000000001": "not a duration",
	} {
		_, err := config.ParseDefinitions("d.yaml", []byte("revision: 1\nleases: {a: {path: kv/a, prepare_timeout: "+in+"}}\n"), []string{"main"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "d.yaml:2:43: leases.a.prepare_timeout: ") {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

// A hundred thousand leases are what the service is built for; a parser that
// takes quadratic time, or a stack frame per key, would show here.
func TestManyLeases(t *testing.T) {
	const count = 100_000
	var src strings.Builder
	src.WriteString("revision: 1\nleases:\n")
	for i := range count {
		fmt.Fprintf(&src, "  l%d:\n    path: database/creds/r%d\n    kind: postgresql\n    good_for: 30s\n", i, i)
	}
	began := time.Now()
	defs := parseDefs(t, src.String())
	took := time.Since(began)
	t.Logf("%d leases, %d KiB: %v", count, src.Len()>>10, took)
	if len(defs.Leases) != count {
		t.Fatalf("%d leases were read", len(defs.Leases))
	}
	if took > 2*time.Minute { // with the race detector, on a busy machine
		t.Errorf("took %v", took)
	}
}

// What an attacker or an accident can put into 16 MiB must end in an error,
// not in a stack overflow or a day of work.
func TestHostileFilesAreBounded(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for what, src := range map[string]string{
		"billion laughs": bomb,
		"deep flow list": strings.Repeat("[", 1<<20),
		"many keys":      strings.Repeat("a:\n", 1<<18),
		"many marks":     strings.Repeat("[", config.MaxFile),
		"many items":     "a: [" + strings.Repeat("a,", config.MaxFile/2-8) + "]",
		"many keys here": "{" + strings.Repeat("a,", config.MaxFile/2-8) + "}",
		"many tags":      strings.Repeat("!a ", config.MaxFile/3),
		"many documents": strings.Repeat("---\n", 1<<19),
		"many words":     "[[" + strings.Repeat("a\n ", 1<<20),
		"deep flow map":  strings.Repeat("{a: ", 1<<18),
		"deep dashes":    strings.Repeat("- ", 1<<19),
		"long key":       strings.Repeat("k", 1<<20) + ": 1",
		"open quote":     `a: "` + strings.Repeat("x", 1<<20),
	} {
		_, err := config.Parse("x.yaml", []byte(src))
		if err == nil || len(err.Error()) > 20_000 {
			t.Errorf("%s: got %.200v", what, err)
		}
	}
}
