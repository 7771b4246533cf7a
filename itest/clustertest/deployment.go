package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/itest/secrettest"
	"github.com/leasesvc/leasesvc/service/api"
)

// Deployment is what instances of leasesvc run on and with.
type Deployment struct {
	*Cluster
	Keys *handover.Keys
	API  *api.Client
	// Accounts are those that the Vault has handed out.
	Accounts *devvault.Directory
	Scopes   []string

	t     testing.TB
	dir   string
	vault *devvault.Server
	extra string
}

// Options say what is deployed.
type Options struct {
	// Scopes are their names; empty: "prod".
	Scopes []string
	// Names are how many names each scope has: n0, n1, ...
	Names int
	// TTL and MaxTTL are those of the accounts, as "1h".
	TTL, MaxTTL string
	// KV has the names read a secret without lease instead of an account.
	KV bool
	// GoodFor is what an answer to a get promises; empty: 100ms.
	GoodFor string
	// Extra is more of the service file.
	Extra string
}

// Deploy sets a Vault and the files of a service up; it starts no instance.
func Deploy(t testing.TB, c *Cluster, o Options) *Deployment {
	t.Helper()
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"prod"}
	}
	d := &Deployment{Cluster: c, Accounts: &devvault.Directory{}, Scopes: o.Scopes, t: t, dir: t.TempDir(), extra: o.Extra}
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	if d.Keys, err = handover.NewKeys(seed); err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	secrettest.Secret("the seal key", seed.Reveal())
	d.write("seal.key", seed.Reveal())
	d.startVault(o)
	definitions := "revision: 1\nleases:\n"
	goodFor := cmp.Or(o.GoodFor, "100ms")
	for i := range o.Names {
		if o.KV {
			definitions += fmt.Sprintf("  n%d: {path: secret/data/shared, kind: kv, good_for: %s, poll: 1h}\n", i, goodFor)
		} else {
			definitions += fmt.Sprintf("  n%d: {path: database/creds/r, kind: postgresql, good_for: %s}\n", i, goodFor)
		}
	}
	d.write("definitions.yaml", definitions)
	d.API = api.NewClient(c.Conn(t))
	return d
}

func (d *Deployment) startVault(o Options) {
	d.t.Helper()
	var err error
	if d.vault, err = devvault.New(devvault.Config{Accounts: d.Accounts, Answered: secrettest.Answered}); err != nil {
		d.t.Fatalf("clustertest: %v", err)
	}
	if err := d.vault.Start("127.0.0.1:0"); err != nil {
		d.t.Fatalf("clustertest: %v", err)
	}
	d.t.Cleanup(d.vault.Close)
	for _, step := range []struct {
		path string
		body map[string]any
	}{
		{"sys/mounts/database", map[string]any{"type": "database"}},
		{"auth/token/roles/leasesvc", map[string]any{"orphan": true, "renewable": true}},
		{"database/config/db", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*"}},
		{"database/roles/r", map[string]any{"db_name": "db", "default_ttl": o.TTL, "max_ttl": o.MaxTTL}},
		{"secret/data/shared", map[string]any{"data": map[string]any{"api_key": "of-no-worth"}}},
	} {
		if _, err := d.vault.Do(context.Background(), "POST", step.path, step.body); err != nil {
			d.t.Fatalf("clustertest: setting devvault up: %v", err)
		}
	}
	secrettest.Secret("the root token", d.vault.RootToken().Reveal())
	d.write("token", d.vault.RootToken().Reveal())
}

func (d *Deployment) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatalf("clustertest: %v", err)
	}
}

// Instance is one leasesvc process after the other on one state directory.
type Instance struct {
	*proctest.Process
	Name string
	d    *Deployment
}

// Instance prepares an instance and starts it. It is ended at t's end.
func (d *Deployment) Instance(name string) *Instance {
	d.t.Helper()
	d.write(name+".yaml", fmt.Sprintf(`
nats: {url: %q, replicas: 3}
state_dir: state-%s
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token_file: token, guard_role: leasesvc}
insecure_consumers: true
%sscopes:
%s`, d.URL(), name, d.vault.URL(), d.extra, d.scopesYAML()))
	in := &Instance{Name: name, d: d}
	in.Start()
	d.t.Cleanup(func() {
		if in.Running() {
			in.Signal(syscall.SIGCONT)
			in.Kill()
		}
		if d.t.Failed() {
			d.t.Logf("%s said:\n%s", name, in.LogTail())
			in.keep()
		}
	})
	return in
}

// keep copies the output of a failed test to the directory that
// LEASESVC_TEST_KEEP names, if any.
func (in *Instance) keep() {
	dir := os.Getenv("LEASESVC_TEST_KEEP")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, in.Name+".log"), []byte(in.Output()), 0o600); err != nil {
		in.d.t.Logf("keeping the output of %s: %v", in.Name, err)
	}
}

func (d *Deployment) scopesYAML() string {
	var b strings.Builder
	for _, s := range d.Scopes {
		fmt.Fprintf(&b, "  %s: {definitions: definitions.yaml}\n", s)
	}
	return b.String()
}

// Start starts the instance again after it ended.
func (in *Instance) Start() {
	in.d.t.Helper()
	cmd := exec.Command(program(in.d.t, leasesvc), "serve", "--config", filepath.Join(in.d.dir, in.Name+".yaml"))
	p, err := proctest.Start(cmd, in.path(), syscall.SIGKILL)
	if err != nil {
		in.d.t.Fatalf("clustertest: %v", err)
	}
	in.Process = p
}

func (in *Instance) path() string { return filepath.Join(in.d.dir, in.Name+".log") }

// Running tells whether the process has not ended.
func (in *Instance) Running() bool {
	select {
	case <-in.Exited():
		return false
	default:
		return true
	}
}

// Output is all that the instance has said, over all its runs.
func (in *Instance) Output() string {
	in.d.t.Helper()
	b, err := os.ReadFile(in.path())
	if err != nil {
		in.d.t.Fatalf("clustertest: %v", err)
	}
	return string(b)
}

// AwaitSaid waits until the instance has said text n times.
func (in *Instance) AwaitSaid(text string, n int, within time.Duration) {
	in.d.t.Helper()
	Await(in.d.t, within, fmt.Sprintf("%s to say %q %d times", in.Name, text, n), func() bool {
		return strings.Count(in.Output(), text) >= n
	})
}

// Said counts how often the instance has said text.
func (in *Instance) Said(text string) int { return strings.Count(in.Output(), text) }

// Leads waits until a scope is led in an epoch above one, and tells by whom.
func (d *Deployment) Leads(scope string, above uint64, within time.Duration) (st api.Status) {
	d.t.Helper()
	Await(d.t, within, "scope "+scope+" to be led", func() bool {
		ctx, cancel := bounded(time.Second)
		defer cancel()
		var err error
		st, err = d.API.Status(ctx, scope)
		return err == nil && st.Epoch > above
	})
	return st
}

// Usable waits until every name of a scope has a committed credential.
func (d *Deployment) Usable(scope string, names int, within time.Duration) {
	d.t.Helper()
	Await(d.t, within, "every name of "+scope+" to be usable", func() bool {
		ctx, cancel := bounded(time.Second)
		defer cancel()
		st, err := d.API.Status(ctx, scope)
		return err == nil && st.Usable == names
	})
}

// ByHolder gives the instance whose holder id that is.
func ByHolder(holder string, all ...*Instance) *Instance {
	i := slices.IndexFunc(all, func(in *Instance) bool { return in.HolderID() == holder })
	if i < 0 {
		return nil
	}
	return all[i]
}

// HolderID is the id in the instance's state directory.
func (in *Instance) HolderID() string {
	in.d.t.Helper()
	return holderIn(in.d.t, filepath.Join(in.d.dir, "state-"+in.Name))
}
