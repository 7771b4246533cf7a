package deploy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
)

// openBao is the program of a real OpenBao, "" where there is none.
func openBao() string {
	if p := os.Getenv("LEASESVC_TEST_BAO"); p != "" {
		return p
	}
	p, _ := exec.LookPath("bao")
	return p
}

// TestTheWholeWithoutContainers runs what docker-compose.yml runs, with its scripts,
// configurations and commands, on servers of this machine in the place of containers:
// the demo works on all three servers through rotations and the death of the instance
// that leads, and nothing it does fails.
func TestTheWholeWithoutContainers(t *testing.T) {
	bao := openBao()
	if bao == "" {
		t.Log("no OpenBao (LEASESVC_TEST_BAO, or bao on the PATH): the scripts, the demo and the service are tested apart from each other only")
		return
	}
	s := newStack(t, bao)
	one := s.serve("1")
	s.await(60*time.Second, "the health check of the compose file to pass", func() bool { return s.holder() != "" })
	first := s.holder()
	two := s.serve("2")
	demo := s.demo()

	seen := map[string][]string{}
	all := func(n int) func() bool {
		return func() bool {
			seen = identities(t, demo.Log())
			return len(seen["postgresql"]) >= n && len(seen["rabbitmq"]) >= n && len(seen["redis"]) >= n
		}
	}
	s.await(90*time.Second, "the demo to be somebody everywhere", all(1))
	if err := s.ask("doctor"); err != nil {
		t.Errorf("doctor: %v", err)
	}
	s.rotate()
	s.await(90*time.Second, "the demo to be somebody else", all(2))
	s.dashboard()

	one.Kill()
	s.await(90*time.Second, "the other one to lead", func() bool { h := s.holder(); return h != "" && h != first })
	s.rotate()
	s.await(120*time.Second, "the demo to follow the other one", all(3))

	if err := demo.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Errorf("ending the demo: %v", err)
	}
	if code := demo.State().ExitCode(); code != 0 {
		t.Errorf("the demo ends with %d", code)
	}
	log := read(t, demo.Log())
	if strings.Contains(log, "FAILED") {
		t.Errorf("something failed:\n%s", log)
	}
	s.noSecretIn(demo.Log(), one.Log(), two.Log())
	t.Logf("the demo was %v", seen)
}

// identities are whom the demo says that it was, in turn.
func identities(t *testing.T, log string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^[0-9:]{8} (\w+) +I am ([^:]+):`).FindAllStringSubmatch(read(t, log), -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

// stack is what the compose file has, without containers.
type stack struct {
	t            *testing.T
	dir, secrets string
	program      string
	replace      *strings.Replacer
	config       string
	environment  []string // of the demo
	passwords    []string // of the servers' administrators
	pages        []string // the addresses of the instances' pages
}

func newStack(t *testing.T, bao string) *stack {
	t.Helper()
	s := &stack{t: t, dir: t.TempDir(), secrets: t.TempDir(), program: proctest.Build(t, "github.com/leasesvc/leasesvc/cmd/leasesvc")}
	keys(t, s.secrets)
	postgres, rabbit, redis := pgtest.Start(t), rabbittest.Start(t), redistest.Start(t)
	s.passwords = []string{postgres.Password(), rabbit.Password(), redis.Password()}
	s.orders(postgres.DSN())
	s.vhost(rabbit.ManagementURL(), rabbit.Administrator(), rabbit.Password())
	address, root := s.openBao(bao)

	t.Setenv("SERVER_NAME", "nats-1")
	t.Setenv("NATS_PASSWORD", read(t, filepath.Join(s.secrets, "nats-password")))
	conf, err := server.ProcessConfigFile("nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	cluster := natstest.Cluster(t, 3, natstest.SyncAlways(), func(o *server.Options) { o.Users = conf.Users })

	host, port, err := net.SplitHostPort(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	script(t, "openbao/setup.sh", withPrograms(t, map[string]string{"bao": bao}),
		"SECRETS="+s.secrets, "BAO_ADDR="+address, "BAO_TOKEN="+root, "TTL=5m", "MAX_TTL=10m",
		"POSTGRES_ADDRESS="+postgres.Addr(), "POSTGRES_USER="+postgres.Superuser(), "POSTGRES_PASSWORD="+postgres.Password(),
		"RABBITMQ_URL="+rabbit.ManagementURL(), "RABBITMQ_USER="+rabbit.Administrator(), "RABBITMQ_PASSWORD="+rabbit.Password(),
		"REDIS_HOST="+host, "REDIS_PORT="+port, "REDIS_USER="+redis.Superuser(), "REDIS_PASSWORD="+redis.Password())

	s.replace = strings.NewReplacer(
		"nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222", cluster.URL(),
		"http://openbao:8200", address, "@postgres:5432", "@"+postgres.Addr(), "rabbitmq:5672", rabbit.Addr(), "redis:6379", redis.Addr(),
		"host=postgres ", "host=127.0.0.1 port="+strconv.Itoa(postgres.Port())+" ",
		"/secrets/", s.secrets+"/")
	s.config = filepath.Join(s.secrets, "leasesvc", "leasesvc.yaml")
	s.rewrite(filepath.Join(s.secrets, "leasesvc", "definitions.yaml"))
	for name, value := range readCompose(t).Services["demo"].Environment {
		s.environment = append(s.environment, name+"="+s.replace.Replace(value))
	}
	return s
}

// rewrite has a file name the servers of this machine.
func (s *stack) rewrite(path string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(s.replace.Replace(read(s.t, path))+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// orders makes the database that the image of PostgreSQL makes from its environment
// and its script.
func (s *stack) orders(dsn string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	exec := func(database, sql string) {
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			s.t.Fatal(err)
		}
		if database != "" {
			cfg.Database = database
		}
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			s.t.Fatal(err)
		}
	}
	exec("", "CREATE DATABASE orders")
	exec("orders", read(s.t, "postgres/orders.sql"))
}

// vhost makes the virtual host that the image of RabbitMQ makes from its environment.
func (s *stack) vhost(management, user, password string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, management+"/api/vhosts/orders", strings.NewReader("{}"))
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		s.t.Fatalf("making the virtual host: %d", resp.StatusCode)
	}
}

// listen gives a free address.
func (s *stack) listen() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// openBao starts the server as the compose file does.
func (s *stack) openBao(program string) (address, root string) {
	s.t.Helper()
	listen := s.listen()
	root = "root-" + rand.Text()
	args := append(slices.Clone(readCompose(s.t).Services["openbao"].Command), "-dev-no-store-token")
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "BAO_DEV_ROOT_TOKEN_ID=" + root, "BAO_DEV_LISTEN_ADDRESS=" + listen}
	s.run(cmd, "openbao.log")
	return "http://" + listen, root
}

// run starts a process that ends with the test.
func (s *stack) run(cmd *exec.Cmd, log string) *proctest.Process {
	s.t.Helper()
	p, err := proctest.Start(cmd, filepath.Join(s.dir, log), syscall.SIGKILL)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := p.End(syscall.SIGTERM, 60*time.Second); err != nil {
			s.t.Errorf("ending %s: %v", log, err)
		}
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", log, tail(read(s.t, p.Log())))
		}
	})
	return p
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// serve starts an instance as the compose file does.
func (s *stack) serve(name string) *proctest.Process {
	s.t.Helper()
	own := strings.TrimSuffix(s.config, ".yaml") + "-" + name + ".yaml"
	address := s.listen()
	s.pages = append(s.pages, address)
	text := strings.NewReplacer("/var/lib/leasesvc", filepath.Join(s.dir, "state-"+name), "0.0.0.0:8250", address).Replace(s.replace.Replace(read(s.t, s.config)))
	if err := os.WriteFile(own, []byte(text+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.run(exec.Command(s.program, "serve", "--config", own), "leasesvc-"+name+".log")
}

// command runs the service's program on the configuration of the first instance.
func (s *stack) command(args ...string) (string, error) {
	own := strings.TrimSuffix(s.config, ".yaml") + "-1.yaml"
	cmd := exec.CommandContext(s.t.Context(), s.program, append(args, "--config", own)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, out.String())
	}
	return out.String(), err
}

func (s *stack) ask(args ...string) error {
	_, err := s.command(args...)
	return err
}

// holder tells who leads by the health check of the compose file, "" while nobody does.
func (s *stack) holder() string {
	out, err := s.command("status", "--output", "json")
	if err != nil {
		return ""
	}
	var status struct{ Holder string }
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return status.Holder
}

// noSecretIn looks for what the scripts made, and for the administrators' passwords.
func (s *stack) noSecretIn(logs ...string) {
	s.t.Helper()
	secrets := slices.Clone(s.passwords)
	for _, name := range []string{"nats-password", "http-token", "seal.key", "demo.nk", "vault-token"} {
		secrets = append(secrets, read(s.t, filepath.Join(s.secrets, name)))
	}
	for _, log := range logs {
		text := read(s.t, log)
		for i, secret := range secrets {
			if secret == "" || strings.Contains(text, secret) {
				s.t.Errorf("secret %d is empty, or stands in %s", i, filepath.Base(log))
			}
		}
	}
}

// rotate asks for successors of all leases.
func (s *stack) rotate() {
	s.t.Helper()
	for _, name := range []string{"orders-db", "orders-mq", "orders-cache"} {
		s.await(60*time.Second, "rotate "+name, func() bool { return s.ask("rotate", name) == nil })
	}
}

// dashboard has Prometheus scrape both instances as it does in the compose file, and
// asks what each panel would: it is understood, and most of them show something.
func (s *stack) dashboard() {
	s.t.Helper()
	dir := s.t.TempDir()
	config := strings.NewReplacer("leasesvc-1:8250", s.pages[0], "leasesvc-2:8250", s.pages[1], "15s", "1s", "/secrets/", s.secrets+"/").
		Replace(read(s.t, "prometheus/prometheus.yaml"))
	for name, text := range map[string]string{"prometheus.yaml": config, "alerts.yaml": read(s.t, "prometheus/alerts.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	address := s.listen()
	s.run(exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address), "prometheus.log")
	query := func(expr string) (n int, err error) {
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return 0, err
		}
		if answer.Status != "success" {
			return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
		}
		return len(answer.Data.Result), nil
	}
	s.await(60*time.Second, "Prometheus to have scraped both instances three times", func() bool {
		n, err := query(`count_over_time(up{job="leasesvc"}[1m]) >= 3 and up == 1`)
		return err == nil && n == 2
	})
	var empty []string
	all := readDashboard(s.t).expressions()
	for _, expr := range all {
		n, err := query(strings.NewReplacer("$scope", ".*", "$__rate_interval", "1m").Replace(expr))
		if err != nil {
			s.t.Errorf("%s: %v", expr, err)
		}
		if n == 0 {
			empty = append(empty, expr)
		}
	}
	if len(empty) > len(all)/4 {
		s.t.Errorf("%d of %d expressions of the dashboard give nothing: %q", len(empty), len(all), empty)
	}
	s.t.Logf("%d of %d expressions of the dashboard give nothing here: %q", len(empty), len(all), empty)

	if n, err := query(`ALERTS{alertstate="firing", severity="critical"}`); n != 0 || err != nil {
		s.t.Errorf("%d critical alerts in a system that is well (%v)", n, err)
	}
}

func (s *stack) demo() *proctest.Process {
	s.t.Helper()
	cmd := exec.Command(proctest.Build(s.t, "github.com/leasesvc/leasesvc/deploy/demo"))
	cmd.Env = s.environment
	return s.run(cmd, "demo.log")
}

func (s *stack) await(within time.Duration, what string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(within); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within %s", what, within)
		}
	}
}
