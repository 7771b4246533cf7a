package service

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/service/config"
)

// idleTerm is a term of a scope without names, whose loop does not run.
func idleTerm(t *testing.T) *term {
	t.Helper()
	tm := &term{
		scope: &scope{svc: &Service{cfg: &config.Config{}, clock: newClock()}, name: "prod"}, projection: projector.New("prod", nil), agenda: newAgenda(),
		queue: make(chan *request, queueLength), dirty: map[string]bool{}, changed: map[string]bool{}, handing: map[string]bool{}, log: slog.New(slog.DiscardHandler),
	}
	tm.documents = newDocuments(tm)
	tm.work = newWork(context.Background(), tm)
	t.Cleanup(tm.work.stop)
	return tm
}

// TestSettleLooksAtWhatChanged: not at all names that wait to be looked at, which
// at the beginning of a term are all there are.
func TestSettleLooksAtWhatChanged(t *testing.T) {
	t.Parallel()
	tm := idleTerm(t)
	for i := range 1000 {
		name := fmt.Sprint("name-", i)
		tm.dirty[name] = true
		tm.views.show(name, &view{}) // who is looked at loses it, being no name of the state's
	}
	tm.change("name-7")
	batch := []request{{command: leasecore.Tick{Name: "name-8"}}}
	tm.settle(batch, make([]decided, 1))
	left := 0
	tm.views.byName.each(func(string, *view) { left++ })
	if left != 998 || tm.views.get("name-7") != nil || tm.views.get("name-8") != nil {
		t.Errorf("%d of 1000 names were looked at, only name-7 and name-8 had to be", 1000-left)
	}
	if len(tm.changed) > 0 {
		t.Errorf("%d names would be looked at again", len(tm.changed))
	}
}

// TestGatherLeavesRoomForAll: a term that begins with many names hears what its
// effects and its callers say meanwhile, and looks at what is due.
func TestGatherLeavesRoomForAll(t *testing.T) {
	t.Parallel()
	tm := idleTerm(t)
	for i := range 10 * batchCommands {
		tm.dirty[fmt.Sprint("new-", i)] = true
		tm.agenda.set(fmt.Sprint("due-", i), tm.svc.clock.Now(), true)
	}
	for range queueLength {
		tm.queue <- &request{command: leasecore.Rotate{Name: "asked"}}
	}
	kinds := map[string]int{}
	batch := tm.gather()
	for _, r := range batch {
		switch c := r.command.(type) {
		case leasecore.Rotate:
			kinds["asked"]++
		case leasecore.Tick:
			kinds[c.Name[:3]]++
		}
	}
	if len(batch) != batchCommands || kinds["asked"] < batchCommands/4 || kinds["new"] < batchCommands/4 || kinds["due"] < batchCommands/4 {
		t.Errorf("a batch of %d has %v", len(batch), kinds)
	}
}

// TestWholeIsWhatTheLogHas of each request: it is answered, the next one may have
// begun, and what comes after that is decided again.
func TestWholeIsWhatTheLogHas(t *testing.T) {
	t.Parallel()
	results := []decided{{0, 0, nil}, {0, 2, nil}, {2, 2, nil}, {2, 3, nil}, {3, 6, nil}, {6, 6, nil}}
	for in, want := range []struct {
		whole int
		begun bool
	}{{1, false}, {1, true}, {3, false}, {4, false}, {4, true}, {4, true}, {6, false}} {
		batch := make([]request, len(results))
		if got := whole(batch, results, in); got != want.whole {
			t.Errorf("with %d events in the log %d requests are whole, not %d", in, got, want.whole)
		}
		for i := range batch {
			if begun := want.begun && i == want.whole; batch[i].begun != begun {
				t.Errorf("with %d events in the log request %d has begun: %t", in, i, batch[i].begun)
			}
		}
	}
}
