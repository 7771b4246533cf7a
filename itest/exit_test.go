package itest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
)

// TestE17_ExitCodes: 0 for a clean stop and for being fenced where that ends the
// process, 78 refused, 2 configuration, 1 anything else.
func TestE17_ExitCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(r.prog, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		r.printed(fmt.Sprint(args), out)
		return string(out), cmd.ProcessState.ExitCode()
	}

	r.write("bad.yaml", "nats: {}\n")
	if out, code := run("serve", "--config", filepath.Join(r.dir, "bad.yaml")); code != 2 {
		t.Errorf("configuration: %d\n%s", code, out)
	}

	a := r.start("a", "LEASESVC_EXIT_ON_FENCE=true")
	first := r.leads(0)
	r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	if out, code := run("serve", "--config", filepath.Join(r.dir, "a.yaml")); code != 1 || !strings.Contains(out, "in use") {
		t.Errorf("a state directory in use: %d\n%s", code, out)
	}

	b := r.start("b")
	b.AwaitOutput(t, "standing by", 60*time.Second)
	a.Signal(syscall.SIGSTOP)
	second := r.leads(first)
	a.Signal(syscall.SIGCONT)
	select {
	case <-a.Exited():
	case <-time.After(60 * time.Second):
		t.Fatal("fenced, and it goes on")
	}
	if code := a.State().ExitCode(); code != 0 {
		t.Errorf("fenced: %d", code)
	}
	if want := fmt.Sprintf("fenced by epoch %d of ", second); !strings.Contains(a.LogTail(), want) {
		t.Errorf("it does not say %q:\n%s", want, a.LogTail())
	}

	if err := b.End(syscall.SIGTERM, 60*time.Second); err != nil || b.State().ExitCode() != 0 {
		t.Errorf("SIGTERM: %v, %s", err, b.State())
	}

	// Another project owns the bucket: refused, for good.
	dir, err := epochkv.OpenStateDir(filepath.Join(r.dir, "state-other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	cells, err := epochkv.Open(context.Background(), r.nats.JS(t), epochkv.Config{State: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := cells.ClaimProject(context.Background(), "their-project"); err != nil {
		t.Fatal(err)
	}
	r.extra = "project: our-project\n"
	c := r.start("c")
	select {
	case <-c.Exited():
	case <-time.After(60 * time.Second):
		t.Fatal("refused, and it goes on")
	}
	if code := c.State().ExitCode(); code != 78 || !strings.Contains(c.LogTail(), "their-project") {
		t.Errorf("refused: %d\n%s", code, c.LogTail())
	}
}

// TestE19_ReadingTakesNoLease: commands that only read move no token and write
// no event.
func TestE19_ReadingTakesNoLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	in := r.start("a")
	r.leads(0)
	r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	if err := in.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Fatal(err)
	}
	// Nobody holds anything now: whatever moves is the readers'.
	js := r.nats.JS(t)
	last := func(stream string) uint64 {
		s, err := js.Stream(context.Background(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	streams := []string{"LEASESVC", "KV_" + epochkv.DefaultBucket, "KV_leasesvc_sealed"}
	before := map[string]uint64{}
	for _, s := range streams {
		before[s] = last(s)
	}
	for _, args := range [][]string{
		{"events", "--scope", scope}, {"events", "--output", "json"}, {"status", "--scope", scope}, {"leases", "--scope", scope}, {"get", "orders", "--scope", scope},
	} {
		cmd := exec.Command(r.prog, append(args, "--server", r.nats.URL())...)
		out, err := cmd.CombinedOutput()
		r.printed(fmt.Sprint(args), out)
		if args[0] == "events" && (err != nil || !strings.Contains(string(out), "installed")) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for _, s := range streams {
		if now := last(s); now != before[s] {
			t.Errorf("%s moved from %d to %d", s, before[s], now)
		}
	}
}
