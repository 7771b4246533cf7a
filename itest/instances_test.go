package itest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

const quietDefinitions = `revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    good_for: 100ms
`

// TestI1_ASecondProcessCannotAppend: while one process leads, another with the
// same scope stands by; a process that was stopped and wakes after it was
// deposed appends nothing more.
func TestI1_ASecondProcessCannotAppend(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	a := r.start("a")
	first := r.leads(0)
	r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)

	b := r.start("b")
	b.AwaitOutput(t, "standing by", 60*time.Second)
	r.rotate()
	r.awaitEvent(events.TypeRevoked, 0, 60*time.Second)
	log, _ := r.read()
	for _, e := range log {
		if e.Epoch != first {
			t.Fatalf("%s at %d is of epoch %d while %d leads", e.Type(), e.Seq, e.Epoch, first)
		}
	}

	// Stopped in the middle of its work: the other one takes over.
	a.Signal(syscall.SIGSTOP)
	second := r.leads(first)
	before := r.messages()
	a.Signal(syscall.SIGCONT)
	a.AwaitOutput(t, "deposed", 60*time.Second)
	a.AwaitOutput(t, "standing by", 60*time.Second)
	r.rotate()
	r.awaitEvent(events.TypeInstalled, log[len(log)-1].Seq, 60*time.Second)
	log, p := r.read()
	opened := uint64(0)
	for _, e := range log {
		if e.Type() == events.TypeOpened && e.Epoch == second {
			opened = e.Seq
		}
		if opened > 0 && e.Epoch != second {
			t.Errorf("I1: %s of epoch %d at %d, after epoch %d was opened at %d", e.Type(), e.Epoch, e.Seq, second, opened)
		}
	}
	if opened == 0 || r.messages() <= before {
		t.Errorf("epoch %d was not seen to be opened and to work", second)
	}
	if n, _ := p.Skipped(); n != 0 {
		t.Errorf("%d events do not count", n)
	}
}

// TestE5_TheStateDirectoryIsLocked: a second process on the same state directory
// is refused and told why.
func TestE5_TheStateDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	r.start("a")
	r.leads(0)
	out, err := exec.Command(r.prog, "serve", "--config", filepath.Join(r.dir, "a.yaml")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "state-a") || !strings.Contains(string(out), "in use") {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestE18_ReleasedOnSIGTERM: a planned stop hands the scope over at once, and
// nothing is acquired for it.
func TestE18_ReleasedOnSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	a := r.start("a")
	first := r.leads(0)
	r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	b := r.start("b")
	b.AwaitOutput(t, "standing by", 60*time.Second)
	if err := a.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Fatal(err)
	}
	if code := a.State().ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	r.leads(first)
	log, _ := r.read()
	var released, opened *events.Event
	for i := range log {
		switch log[i].Type() {
		case events.TypeReleased:
			released = &log[i]
		case events.TypeOpened:
			opened = &log[i]
		}
	}
	if released == nil || opened.Seq != released.Seq+1 || opened.Data.(*events.Opened).How != events.HowReleased {
		t.Fatalf("released: %+v, opened: %+v", released, opened)
	}
	if n := count(log, events.TypeRequested, 0); n != 1 {
		t.Errorf("%d acquisitions, 1 was needed", n)
	}
}
