package cluster

import (
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var appends = flag.Int("cluster.appends", 200, "how many appends TestP4_LostAnswers makes")

// TestP4_LostAnswers makes appends through a proxy that drops acknowledgements
// and nothing else, among them those of the openings that settle: none is stored
// twice, none is lost, and what Append says is so.
func TestP4_LostAnswers(t *testing.T) {
	c := clustertest.Start(t)
	var on atomic.Bool
	var n atomic.Int64
	proxy := clustertest.NewProxy(t, c.URLOf(0), func(f clustertest.Frame) clustertest.Verdict {
		if on.Load() && f.ToClient && strings.HasSuffix(f.Subject, ".final") && n.Add(1)%4 == 0 {
			return clustertest.Drop
		}
		return clustertest.Pass
	}, nil)
	l := openLog(t, proxy.URL(), journal.Config{Replicas: 3, AckWait: 150 * time.Millisecond})
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	landed, gone, reopened := map[string]bool{}, map[string]bool{}, 0
	on.Store(true)
	for i := range *appends {
		evs := retired("s", 1, 1+i%4)
		r, err := w.Append(within(t, 30*time.Second), evs)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Events {
			if e.Type() == events.TypeOpened {
				reopened++
			}
		}
		for _, e := range evs {
			if r.Landed {
				landed[e.ID] = true
			} else {
				gone[e.ID] = true
			}
		}
	}
	on.Store(false)
	at, openings := contents(t, l, "s")
	for id := range landed {
		if at[id] == 0 {
			t.Errorf("%s landed and is lost", id)
		}
	}
	for id := range gone {
		if at[id] != 0 {
			t.Errorf("%s was said to be gone and stands at %d", id, at[id])
		}
	}
	if len(at)-len(openings) != len(landed) || len(openings) != reopened+1 {
		t.Errorf("%d events and %d openings in the log, %d landed and %d reopened were told", len(at)-len(openings), len(openings), len(landed), reopened)
	}
	dropped := proxy.Count(clustertest.Drop)
	if dropped < *appends/5 {
		t.Errorf("only %d answers were lost", dropped)
	}
	t.Logf("%d appends, %d answers lost; %d events landed, %d did not, %d reopenings", *appends, dropped, len(landed), len(gone), reopened)
}
