package itest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/itest/secrettest"
)

// lifeDefinitions have every kind of credential: accounts with a verifier on three
// servers, a secret without lease, a certificate, a static role, one that can't be
// had since the login fails, and a document that shows some of them.
const lifeDefinitions = `revision: 1
defaults: {vault: main}
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    verifier: {kind: postgresql, dsn: "postgres://{{username}}:{{password}}@%s/postgres?sslmode=disable", timeout: 3s}
    consumers: [{name: app, key: %s}, {name: gate, key: %s}, {name: agent, key: %s}]
    prepare_timeout: 30s
    good_for: 100ms
  queue:
    path: rabbitmq/creds/app
    kind: rabbitmq
    verifier: {kind: rabbitmq, dsn: "amqp://{{username}}:{{password}}@%s/%%2F", timeout: 10s}
    good_for: 100ms
  cache:
    path: database/creds/app
    kind: redis
    verifier: {kind: redis, dsn: "redis://{{username}}:{{password}}@%s", timeout: 10s}
    good_for: 100ms
  mail: {path: secret/data/mail, kind: kv, poll: 1s, good_for: 100ms}
  web: {path: pki/issue/web, kind: pki, params: {common_name: web.example.com, ttl: 1h}, good_for: 100ms}
  batch: {path: database/static-creds/steady, kind: postgresql, poll: 1s, good_for: 100ms}
  lost: {vault: refusing, path: database/creds/orders, kind: postgresql}
documents:
  settings:
    db: {user: "lease://orders#username", password: "lease://orders#password"}
    mail: "lease://mail#password"
    plain: %s
`

// life is the deployment of TestI7_NothingSecretLeaves.
type life struct {
	*rig
	watch *secrettest.Watch
	runs  int // commands
}

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// know has a value of the test's own looked for.
func (l *life) know(what, value string) string {
	l.rig.secret(what, value)
	l.watch.Secret(what, value)
	return value
}

// setUp sets the Vault up with all that lifeDefinitions read.
func (l *life) setUp(rabbit *rabbittest.Server, redis *redistest.Server) {
	t, v := l.t, l.rig.vault
	host, port, _ := strings.Cut(redis.Addr(), ":")
	v.database(t, map[string]any{"plugin_name": "redis-database-plugin", "host": host, "port": port,
		"username": redis.Superuser(), "password": redis.Password()}, `["~*", "&*", "+@all"]`)
	v.must(t, "POST", "sys/mounts/rabbitmq", map[string]any{"type": "rabbitmq"})
	v.must(t, "POST", "rabbitmq/config/connection", map[string]any{"connection_uri": rabbit.ManagementURL(), "username": rabbit.Administrator(), "password": rabbit.Password()})
	v.must(t, "POST", "rabbitmq/config/lease", map[string]any{"ttl": "1h", "max_ttl": "2h"})
	v.must(t, "POST", "rabbitmq/roles/app", map[string]any{"vhosts": `{"/":{"configure":".*","write":".*","read":".*"}}`})
	v.must(t, "POST", "sys/mounts/pki", map[string]any{"type": "pki"})
	v.must(t, "POST", "pki/root/generate/internal", map[string]any{"common_name": "ca", "ttl": "700h", "key_type": "ec"})
	v.must(t, "POST", "pki/roles/web", map[string]any{"allow_any_name": true, "enforce_hostnames": false, "max_ttl": "2h", "key_type": "rsa", "key_bits": 2048})
	ctx := within(t, 60*time.Second)
	db, err := pgx.Connect(ctx, l.pg.DSN())
	l.must(err)
	defer func() { _ = db.Close(ctx) }()
	_, err = db.Exec(ctx, `CREATE ROLE steady LOGIN PASSWORD 'for now'`)
	l.must(err)
	v.must(t, "POST", "database/static-roles/steady", map[string]any{"db_name": "pg", "username": "steady", "rotation_period": "10m"})
	l.mail()
	v.must(t, "PUT", "sys/policies/acl/guarded", map[string]any{"policy": `path "*" { capabilities = ["read", "create", "update"] }`})
	v.must(t, "PUT", "sys/policies/acl/leasesvc", map[string]any{"policy": servicePolicy + `
path "secret/data/*"           { capabilities = ["read"] }
path "database/static-creds/*" { capabilities = ["read"] }
path "pki/issue/*"             { capabilities = ["create", "update"] }`})
	// A connection whose login is refused: its secret id is another one's.
	v.must(t, "POST", "sys/auth/approle", map[string]any{"type": "approle"})
	v.must(t, "POST", "auth/approle/role/x", map[string]any{"token_policies": "leasesvc"})
	role := v.must(t, "GET", "auth/approle/role/x/role-id", nil)["data"].(map[string]any)["role_id"]
	l.write("secret-id", l.know("the secret id that is refused", rand.Text()))
	l.guard = fmt.Sprintf(`}
  refusing: {address: %q, environment: false, login: {approle: {role_id: %q, secret_id_file: secret-id}}`, v.address, role)
}

// mail gives the secret without lease new values.
func (l *life) mail() {
	l.vault.must(l.t, "POST", "secret/data/mail", map[string]any{"data": map[string]any{"user": "user-" + rand.Text(), "password": rand.Text() + `/+"\<&`}})
}

// run runs a command whose output must hold no secret, and gives it.
func (l *life) run(stdin string, args ...string) string {
	l.t.Helper()
	cmd := exec.CommandContext(within(l.t, 2*time.Minute), l.prog, args...)
	cmd.Dir, cmd.Stdin = l.dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LEASESVC_SERVER="+l.nats.URL(), "LEASESVC_SERVICE_KEY="+l.keys.Public(), "LEASESVC_SCOPE="+scope)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
		l.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	l.runs++
	what := "leasesvc " + strings.Join(args, " ")
	l.printed(what, out)
	l.must(l.watch.Print(what, out))
	return string(out)
}

// commands runs every command that prints, in these forms, but get --reveal and its
// like, whose job it is to show a secret. running is an instance whose state
// directory is in use.
func (l *life) commands(user, running string, forms ...string) {
	l.t.Helper()
	for _, args := range [][]string{
		{"status"}, {"leases"}, {"explain", "orders", "--all"}, {"explain", "lost"}, {"at", "1s"}, {"who", user}, {"who", "orders/1"}, {"events"}, {"ledger"}, {"ledger", "--by", "consumer"},
		{"verify-log", "--seal-key", "seal.key", "--all"}, {"document", "list"}, {"document", "show", "settings"}, {"doctor", "--config", "a.yaml"},
		{"recover", "--config", "a.yaml"}, {"config", "check", "a.yaml"}, {"diff", "definitions.yaml", "--vault", "main", "--vault", "refusing"}, {"permissions"}, {"apply"}, {"rotate", "nosuch"}, {"get", "nosuch"}, {"get", "orders", "nosuch"},
	} {
		for _, form := range forms {
			if args[0] == "permissions" && form == "table" {
				form = "conf"
			}
			if out := l.run("", append(args, "--output", form)...); out == "" {
				l.t.Errorf("%v --output %s prints nothing", args, form)
			}
		}
	}
	for _, args := range [][]string{
		{"top", "--once"}, {"version"}, {"config", "example"}, {"config", "schema"}, {"completion", "bash"}, {"vault-policy", "--config", "a.yaml"}, {"nats-setup", "--config", "a.yaml", "--print"},
		{"run", "--document", "settings", "--lease", "mail", "--prefix", "X_", "--", "sh", "-c", `test -n "$X_DB_PASSWORD" && test -n "$X_PASSWORD" && echo it has them`},
		{"agent", "--config", "agent.yaml", "--check"}, {"serve", "--config", running + ".yaml"}, {"document", "get", "nosuch"}, {"run", "--lease", "nosuch", "--wait", "1s", "--", "true"},
		{"adopt", "mail", "--lease-id", "x", "--ttl", "1h", "--service-key", "XKEY"},
	} {
		if out := l.run("", args...); out == "" {
			l.t.Errorf("%v prints nothing", args)
		}
	}
}

// scraped are the pages, the API and the endpoints of an instance's HTTP address:
// those of any release; one that is not there answers 404.
var scraped = []string{
	"/", "/api/overview", "/api/timeline", "/api/timeline?scope=prod", "/api/name?scope=prod&name=orders", "/api/name?scope=prod&name=lost", "/api/name?scope=prod&name=nosuch", "/api/nosuch",
	"/livez", "/readyz", "/readyz/prod", "/readyz/nosuch", "/metrics", "/status", "/leases", "/events", "/events?scope=prod", "/api/status", "/api/v1/status", "/audit", "/ledger", "/api/ledger", "/debug/pprof/", "/debug/vars", "/debug/pprof/goroutine?debug=2",
}

var (
	pageURL  = regexp.MustCompile(`url"?[=:]"?(http://[0-9.:]+)`)
	pageLink = regexp.MustCompile(`(?:src|href)="(/?[^"#:]+)"`)
)

// scrape asks an instance for all that it has over HTTP.
func (l *life) scrape(in *instance) {
	l.t.Helper()
	said, err := os.ReadFile(in.Log())
	l.must(err)
	pages := pageURL.FindAllSubmatch(said, -1)
	if len(pages) == 0 {
		l.t.Fatalf("no page:\n%s", in.LogTail())
	}
	address := string(pages[len(pages)-1][1]) // of the last start
	get := func(ctx context.Context, path string) (int, []byte) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		l.must(err)
		req.Header.Set("Authorization", "Bearer "+l.know("a token that somebody shows in vain", rand.Text()))
		resp, err := http.DefaultClient.Do(req)
		l.must(err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil && ctx.Err() == nil {
			l.t.Errorf("%s: %v", path, err)
		}
		var head bytes.Buffer
		_ = resp.Header.Write(&head)
		l.must(l.watch.Print(path, append(head.Bytes(), body...)))
		return resp.StatusCode, body
	}
	paths, there := append([]string(nil), scraped...), 0
	ctx := within(l.t, 2*time.Minute)
	_, page := get(ctx, "/")
	for _, link := range pageLink.FindAllSubmatch(page, -1) {
		paths = append(paths, "/"+strings.TrimPrefix(string(link[1]), "/"))
	}
	silent := map[string]bool{"/": true, "/api/overview": true, "/metrics": true, "/livez": true, "/readyz": true, "/status": true, "/leases": true, "/events": true}
	for _, path := range paths {
		if status, body := get(ctx, path); status != http.StatusNotFound && len(body) > 0 { // a probe may say that something is not ready
			delete(silent, path)
			there++
		}
	}
	if len(silent) > 0 || there < 10 {
		l.t.Errorf("%d of %d addresses answer, and not: %v", there, len(paths), silent)
	}
	// What is told live, while something happens.
	live, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	var told sync.WaitGroup
	told.Go(func() {
		if _, body := get(live, "/api/live"); len(body) == 0 {
			l.t.Error("nothing is told live")
		}
	})
	l.rotated("cache")
	told.Wait()
}

// rotated rotates a name and waits for what is installed.
func (l *life) rotated(name string) (user string) {
	l.t.Helper()
	before := l.installed(name)
	await(l.t, 60*time.Second, "a rotation of "+name+" to begin", func() bool {
		_, err := l.api.Rotate(within(l.t, 60*time.Second), scope, name)
		return err == nil
	})
	return l.above(name, before)
}

// installed gives the last lease of a name that was installed.
func (l *life) installed(name string) (lease uint64) {
	l.t.Helper()
	log, _ := l.read()
	for _, e := range log {
		if e.Type() == events.TypeInstalled && e.Name == name {
			lease = e.Lease
		}
	}
	return lease
}

// above waits until a later lease of a name is installed, and gives its user.
func (l *life) above(name string, lease uint64) (user string) {
	l.t.Helper()
	l.awaitLog(120*time.Second, "a lease of "+name+" after "+fmt.Sprint(lease), func(log []events.Event) bool {
		users, found := map[uint64]string{}, false
		for _, e := range log {
			switch d := e.Data.(type) {
			case *events.Acquired:
				users[e.Lease] = d.Public["username"]
			case *events.Installed:
				if e.Name == name && e.Lease > lease {
					user, found = users[e.Lease], true
				}
			}
		}
		return found
	})
	return user
}

// TestI7_NothingSecretLeaves is a whole life on real servers, at the level debug and
// with crashes that dump what they have: none of what the Vault handed out, nor any
// key, is in what was printed, logged, dumped, kept, published, stored or scraped.
func TestI7_NothingSecretLeaves(t *testing.T) {
	t.Parallel()
	l := &life{watch: secrettest.New(t.TempDir())}
	l.rig = newRig(t, func(t *testing.T) *vaultServer {
		return startVaultTelling(t, func(path string, body []byte) {
			secrettest.Answered(path, body)
			l.watch.Answered(path, body)
		})
	}, "1h", "2h")
	rabbit, redis := rabbittest.Start(t), redistest.Start(t)
	l.know("RabbitMQ's password", rabbit.Password())
	l.know("Redis's password", redis.Password())
	l.setUp(rabbit, redis)
	app, door, helper := l.identity("app"), l.identity("gate"), l.identity("agent")
	plain := l.know("a plain value of a document", "plain-"+rand.Text())
	l.write("definitions.yaml", fmt.Sprintf(lifeDefinitions, l.pg.Addr(), app.public, door.public, helper.public, rabbit.Addr(), redis.Addr(), plain))

	// Two instances, each with a log of its own kind.
	instance := func(name, format string) *instance {
		l.extra = fmt.Sprintf("http: {listen: \"127.0.0.1:0\"}\nlog: {level: debug, format: %s}\n", format)
		return l.start(name, "GOTRACEBACK=all")
	}
	a := instance("a", "json")
	first := l.leads(0)
	b := instance("b", "text")
	b.AwaitOutput(t, "standing by", 60*time.Second)

	// An application, one that says no, and an agent.
	g := &gatekeeper{rig: l.rig}
	die := l.gate(door, g)
	client := l.connect(app)
	application := startApplication(l.rig, client)
	agent := l.agent(helper)
	for _, name := range []string{"orders", "queue", "cache", "mail", "web", "batch"} {
		l.above(name, 0)
	}
	l.awaitLog(60*time.Second, "the agent to take part", func(log []events.Event) bool { return count(log, events.TypeRegistered, 0) >= 3 })
	l.rotated("orders")
	l.rotated("queue")
	before := l.installed("mail")
	l.mail()
	l.above("mail", before)
	before = l.installed("web")
	_, err := l.api.Rotate(within(t, 60*time.Second), scope, "web")
	l.must(err)
	l.above("web", before)

	// What goes wrong says so, and no more than that.
	last := func() events.Event { log, _ := l.read(); return log[len(log)-1] }
	l.vault.role(t, nologinRole, "1h", "2h")
	at := last().Seq
	l.rotate()
	l.awaitEvent(events.TypeVerifyFailed, at, 120*time.Second)
	l.vault.role(t, loginRole, "1h", "2h")
	l.above("orders", l.installed("orders"))
	g.will(func(context.Context) error { return errors.New("not in the middle of a job") })
	at = last().Seq
	l.rotate()
	l.awaitEvent(events.TypeRolledBack, at, 120*time.Second)
	g.will(nil)
	user := l.rotated("orders")

	l.commands(user, "a", "table", "json", "yaml")
	l.scrape(a)
	adopted := `{"username": "elsewhere", "password": "` + l.know("the password of an adopted lease", rand.Text()) + `"}`
	l.run(adopted, "adopt", "mail", "--lease-id", "elsewhere/creds/1", "--ttl", "1h")
	l.run("", "document", "set", "settings", "plain="+l.know("a value that a document is set to", rand.Text()))
	l.run(l.know("a value from standard input", rand.Text()), "document", "set", "settings", "plain=-")
	l.run("", "reissue")
	l.run("", "revoke", "batch")

	// Crashes that print what every goroutine does.
	dumped := func(p *proctest.Process, sig syscall.Signal) {
		t.Helper()
		p.Signal(sig)
		select {
		case <-p.Exited():
		case <-time.After(60 * time.Second):
			t.Fatalf("%v does not end it", sig)
		}
		b, err := os.ReadFile(p.Log())
		if err != nil || !bytes.Contains(b, []byte("goroutine 1 ")) {
			t.Errorf("%v dumped nothing: %v", sig, err)
		}
	}
	dumped(a.Process, syscall.SIGQUIT)
	second := l.leads(first)
	a = instance("a", "text")
	a.AwaitOutput(t, "standing by", 60*time.Second)
	l.rotated("cache")
	dumped(b.Process, syscall.SIGABRT)
	third := l.leads(second)
	b = instance("b", "json")
	a.Kill()
	l.leads(third)
	l.scrape(b)
	l.commands(user, "b", "table")
	dumped(agent, syscall.SIGQUIT)
	die()
	application.end()
	client.Close()
	a = instance("a", "json")
	a.AwaitOutput(t, "standing by", 60*time.Second)
	l.run("", "step-down")
	l.leads(third + 1)
	l.run("", "shutdown", scope, "--revoke")
	for _, in := range []*proctest.Process{a.Process, b.Process} {
		if err := in.End(syscall.SIGTERM, 60*time.Second); err != nil {
			t.Error(err)
		}
	}
	l.look()
}

// agent runs an agent that writes a file and runs an application.
func (l *life) agent(who identity) *proctest.Process {
	l.t.Helper()
	l.must(os.Mkdir(filepath.Join(l.dir, "out"), 0o700))
	l.write("agent.seed", who.seed)
	l.write("agent.yaml", fmt.Sprintf(`
nats: {url: %q}
scope: %s
consumer: agent
instance: agent-0
seed_file: agent.seed
service_key: %s
refresh: 1s
log: {level: debug, format: json}
targets:
  settings: {document: settings, file: out/settings.json, hook: {shell: "echo told; echo told >&2", timeout: 20s}}
  app: {lease: orders, exec: {command: [sleep, "600"], ready_after: 200ms}}
`, l.nats.URL(), scope, l.keys.Public()))
	cmd := exec.Command(l.prog, "agent", "--config", filepath.Join(l.dir, "agent.yaml"))
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	p, err := proctest.Start(cmd, filepath.Join(l.dir, "agent.log"), syscall.SIGKILL)
	l.must(err)
	l.t.Cleanup(func() {
		select {
		case <-p.Exited():
		default:
			p.Kill()
		}
		if l.t.Failed() {
			l.t.Logf("the agent said:\n%s", p.LogTail())
		}
	})
	return p
}

// look looks for all that was handed out in all that was seen, makes sure that
// there was something to find and to look at, and that it would have been found.
func (l *life) look() {
	t := l.t
	for value, what := range l.secrets {
		l.watch.Secret(what, value)
	}
	l.show(l.watch)
	kinds := l.watch.Kinds()
	for what, least := range map[string]int{
		"a token given out at auth/token/create/leasesvc": 8, "password of database/creds/orders": 4, "password of rabbitmq/creds/app": 2, "password of database/creds/app": 2,
		"password of secret/data/mail": 2, "private_key of pki/issue/web": 2, "password of database/static-creds/steady": 1, "the seal key": 1, "a token given out at auth/token/create-orphan": 1, "the nkey of app": 1,
	} {
		if kinds[what] < least {
			t.Errorf("%d times %s, at least %d were to be", kinds[what], what, least)
		}
	}
	seen, err := os.ReadFile(l.traffic.path)
	l.must(err)
	for _, text := range []string{"lease.prod.orders.installed", "leasesvc.get.prod.", "$KV.leasesvc_sealed.", "leasesvc.c.prod.orders."} {
		if !bytes.Contains(seen, []byte(text)) {
			t.Errorf("what NATS carried has no %s", text)
		}
	}
	report, err := l.watch.Look()
	l.must(err)
	t.Logf("%d commands; %s", l.runs, report)
	for _, leak := range report.Leaks {
		t.Errorf("I7: %s", leak)
	}
	// The test of the test: the agent's file has three of them, as it was told to have.
	l.must(l.watch.File(filepath.Join(l.dir, "out", "settings.json")))
	planted, err := l.watch.Look()
	l.must(err)
	if more := len(planted.Leaks) - len(report.Leaks); more < 3 {
		t.Errorf("%d secrets are found in a file that has 3: %v", more, planted.Leaks)
	}
}
