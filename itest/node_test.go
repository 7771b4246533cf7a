package itest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/itest/secrettest"
)

// node is a run of the consumer in nodeconsumer.
type node struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}

	mu   sync.Mutex
	said []string
}

func startNode(t *testing.T, settings map[string]any) *node {
	t.Helper()
	if _, err := os.Stat("nodeconsumer/node_modules/nats"); err != nil {
		t.Fatalf("%v: scripts/install-test-deps installs what the test needs", err)
	}
	n := &node{cmd: exec.CommandContext(context.Background(), "node", "consumer.mjs"), ended: make(chan struct{})}
	n.cmd.Dir = "nodeconsumer"
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	n.cmd.Stderr = os.Stderr
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("%v: scripts/install-test-deps installs what the test needs", err)
	}
	go func() {
		defer close(n.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n.mu.Lock()
			n.said = append(n.said, lines.Text())
			n.mu.Unlock()
		}
		_ = n.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.ended
		if err := secrettest.Print("the consumer in node", []byte(n.all())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the consumer said:\n%s", n.all())
		}
	})
	line, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	n.tell(t, string(line))
	return n
}

func (n *node) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(n.stdin, line); err != nil {
		t.Fatal(err)
	}
}

func (n *node) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.said, "\n")
}

func (n *node) await(t *testing.T, says string) {
	t.Helper()
	await(t, 60*time.Second, "the consumer to say "+says, func() bool { return strings.Contains(n.all(), says) })
}

// TestProtocolInNode: a consumer that was written from docs/protocol.md alone, in
// another language, takes part in hand-overs: it registers, says yes and no,
// follows and goes back, and leaves.
func TestProtocolInNode(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	t.Cleanup(func() { admin.Close() })
	r := newRig(t, startVaultFor, "1h", "2h")
	host, port, _ := strings.Cut(srv.Addr(), ":")
	r.vault.database(t, map[string]any{"plugin_name": "redis-database-plugin", "host": host, "port": port,
		"username": srv.Superuser(), "password": srv.Password()}, `["~*", "&*", "+@all"]`)
	app := r.identity("node")
	r.write("definitions.yaml", fmt.Sprintf(`revision: 1
leases:
  orders:
    path: database/creds/app
    kind: redis
    consumers: [{name: node, key: %s}]
    good_for: 100ms
`, app.public))
	service := r.start("a")
	r.leads(0)
	n := startNode(t, map[string]any{"nats": r.nats.URL(), "scope": scope, "name": "orders", "consumer": "node", "instance": "node-0",
		"seed": app.seed, "service_key": r.keys.Public(), "redis": map[string]any{"host": host, "port": srv.Port()}})
	n.await(t, `"registered"`)

	// Without a verifier nothing is installed that the consumer has not proven.
	installed := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	user := func(lease uint64) (public string) {
		log, _ := r.read()
		for _, e := range log {
			if d, ok := e.Data.(*events.Acquired); ok && e.Lease == lease {
				public = d.Public["username"]
			}
		}
		return public
	}
	connections := func(lease uint64) int {
		list, err := admin.ClientList(within(t, 60*time.Second)).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(list, " user="+user(lease)+" ")
	}
	followed := func(installed events.Event) {
		t.Helper()
		n.await(t, fmt.Sprintf(`"did":"follow","n":%d,"lease":%d,"verdict":"confirmed"`, installed.Seq, installed.Lease))
		if c := connections(installed.Lease); c != 1 {
			t.Errorf("%d connections with lease %d after it was followed", c, installed.Lease)
		}
	}
	followed(installed)
	for range 3 {
		before := installed
		r.rotate()
		installed = r.awaitEvent(events.TypeInstalled, before.Seq, 60*time.Second)
		followed(installed)
		r.awaitEvent(events.TypeRevoked, installed.Seq, 60*time.Second)
		if c := connections(before.Lease); c != 0 {
			t.Errorf("%d connections with lease %d after it was revoked", c, before.Lease)
		}
	}

	n.tell(t, "no")
	n.await(t, `"told":"no"`)
	r.rotate()
	back := r.awaitEvent(events.TypeRolledBack, installed.Seq, 60*time.Second)
	n.await(t, `"verdict":"no","reason":"not in the middle of a job"`)
	n.await(t, `"did":"revert"`)
	if c := connections(installed.Lease); c != 1 {
		t.Errorf("%d connections with lease %d after the way back", c, installed.Lease)
	}
	n.tell(t, "yes")
	n.await(t, `"told":"yes"`)
	r.rotate()
	installed = r.awaitEvent(events.TypeInstalled, back.Seq, 60*time.Second)
	followed(installed)

	n.tell(t, "end")
	n.await(t, `"left"`)
	left := r.awaitEvent(events.TypeLeft, installed.Seq, 60*time.Second)
	if d := left.Data.(*events.Left); d.Reason != events.LeftByItself {
		t.Errorf("it left: %+v", d)
	}
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}
	r.noSecretAnywhere()
}
