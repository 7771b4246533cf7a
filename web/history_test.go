package web

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/projector"
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// muddle writes a random life of some names.
func muddle(seed uint64) *written {
	r := rand.New(rand.NewPCG(seed, 7))
	w := newWritten(start)
	w.open("prod", "h1", events.HowFresh)
	type name struct{ active, grace uint64 }
	names := map[string]*name{}
	for i := range 5 {
		n := fmt.Sprint("db-", i)
		names[n] = &name{}
		w.define("prod", n, "database/creds/"+n, "app")
		w.register("prod", n, "app", "inc-"+n)
	}
	for range 200 {
		w.pass(time.Duration(r.IntN(40)) * time.Second)
		who := fmt.Sprint("db-", r.IntN(5))
		n, path := names[who], "database/creds/"+who
		switch k := r.IntN(8); {
		case k == 0 && r.IntN(10) == 0:
			w.open("prod", "h2", events.HowQuiet)
		case k < 2 && n.grace == 0:
			n.grace, n.active = n.active, w.rotate("prod", who, path, n.active, "inc-"+who)
		case k == 2 && n.grace != 0:
			w.retire("prod", who, n.grace, events.RetiredReplaced)
			n.grace = 0
		case k == 3 && n.active != 0:
			w.revoke("prod", who, w.rollBack("prod", who, path, n.active, "inc-"+who, "no"))
		case k == 4:
			no := w.request("prod", who, path, events.ReasonRotate)
			w.write("prod", who, no, &events.AcquireFailed{Failure: events.Failure{Kind: "sealed", Message: "sealed"}, Retry: events.Retry{Attempt: 1, At: w.clock.UTC()}})
		case n.active != 0:
			w.renew("prod", who, n.active)
		}
	}
	return w
}

// TestThePastIsAReplay: at any moment the index says what a replay of the log up
// to that moment says.
func TestThePastIsAReplay(t *testing.T) {
	states := map[string]int{}
	for seed := range uint64(6) {
		w := muddle(seed)
		h := w.read(t, "prod")
		for i := 0; i < len(w.log); i += 37 {
			at := w.log[i].Stored.UnixMilli()
			if i+37 >= len(w.log) { // the present is counted as it comes
				at = Now
			}
			p := projector.New("prod", testKey)
			for _, m := range w.log {
				if m.Stored.UnixMilli() <= at {
					if _, err := p.Apply(m.Seq, m.Payload); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, want := h.Overview(at).Scopes[0], map[string]int{}
			names := 0
			for n := range p.State().Names() {
				names++
				for j := range n.Leases {
					want[phaseOf(n.Leases[j].State).String()]++
				}
				tl := h.Timeline(Window{From: 0, To: 1, At: at, Rows: 10, Query: n.Name})
				if len(tl.Rows) != 1 || tl.Rows[0].Lease != n.Active {
					t.Fatalf("seed %d at %d: %s has lease %d active, shown %+v", seed, at, n.Name, n.Active, tl.Rows)
				}
			}
			for k, v := range want {
				states[k] += v
			}
			if fmt.Sprint(got.Leases) != fmt.Sprint(want) || got.Names != names || got.Epoch != p.State().Epoch || got.Holder != p.State().Holder {
				t.Fatalf("seed %d at %d: shown %+v; a replay gives %v, %d names, epoch %d", seed, at, got, want, names, p.State().Epoch)
			}
		}
	}
	for _, want := range []string{"active", "grace"} {
		if states[want] == 0 {
			t.Errorf("no lease was ever %s: the test says too little (%v)", want, states)
		}
	}
}

// TestADetailIsFoldedAsOfItsMoment: the detail of the past knows nothing later.
func TestADetailIsFoldedAsOfItsMoment(t *testing.T) {
	w := aDay(start)
	h := w.read(t, "prod")
	d := details{history: h, source: w}
	now, err := d.Detail(context.Background(), "prod", "orders-db", Now)
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Leases) != 3 || now.State != "active" || len(now.Users) != 1 || len(now.Users[0].Answers) != 3 || len(now.Next) == 0 {
		t.Fatalf("%+v", now)
	}
	last := now.Users[0].Answers[2]
	if last.Yes || last.Reason != "the pool can't connect" {
		t.Errorf("the last answer is %+v", last)
	}
	then, err := d.Detail(context.Background(), "prod", "orders-db", start.Add(5*time.Minute).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	if len(then.Leases) != 1 || then.Leases[0].State != "active" || len(then.Users[0].Answers) != 1 || then.Seq >= now.Seq {
		t.Errorf("%+v", then)
	}
	for _, l := range then.Story {
		if l.At > then.At {
			t.Errorf("a story of the past tells %q, which is later", l.Says)
		}
	}
	for _, e := range now.Events {
		for _, k := range unshown {
			if _, shown := e.Data[k]; shown {
				t.Errorf("%s shows %s", e.Type, k)
			}
		}
	}
	if _, err := d.Detail(context.Background(), "prod", "nobody", Now); err == nil {
		t.Error("a name that is not there has a detail")
	}
}

func TestWhatNeedsAPersonIsSaid(t *testing.T) {
	w := aDay(start)
	h := w.read(t, "prod")
	says := func(at int64) string {
		var all []string
		for _, c := range h.Overview(at).Concerns {
			if c.Do == "" || c.Level != levelHigh && c.Level != levelWarn {
				t.Errorf("nothing says what to do: %+v", c)
			}
			all = append(all, c.Level+" "+c.Name+" "+c.What)
		}
		return strings.Join(all, "\n")
	}
	end := w.clock.UnixMilli()
	for at, want := range map[int64]string{
		end:                 "warn search what came of a request is not known (orphaned)",
		end - 1000:          "warn orders-db a new credential was rolled back (no): inc-1: the pool can't connect",
		end - 1:             "high search there is no usable credential",
		end - 2*60*1000:     "paused: Vault main refuses our credentials (permission)",
		end - 2*60*1000 + 1: "Vault main does not work (unreachable)",
	} {
		if at == end-1 {
			at = end + patience.Milliseconds() + 1000
		}
		if got := says(at); !strings.Contains(got, want) {
			t.Errorf("at %d nothing says %q:\n%s", at-end, want, got)
		}
	}
	if got := says(start.Add(2 * time.Minute).UnixMilli()); strings.Contains(got, "orders-db") {
		t.Errorf("early on: %s", got)
	}
}

// TestAWindowIsBounded: whatever is asked for, an answer has no more than fits on
// the screen, and what was aggregated is all there.
func TestAWindowIsBounded(t *testing.T) {
	w := newWritten(start)
	w.open("prod", "h", events.HowFresh)
	w.define("prod", "busy", "p")
	active := w.rotate("prod", "busy", "p", 0)
	for range 900 {
		w.pass(10 * time.Second)
		next := w.rotate("prod", "busy", "p", active)
		w.pass(5 * time.Second)
		w.retire("prod", "busy", active, events.RetiredReplaced)
		active = next
	}
	h := w.read(t, "prod")
	all := Window{From: start.UnixMilli(), To: w.clock.UnixMilli() + 1, At: Now, Width: 1200, Rows: 10}
	row := h.Timeline(all).Rows[0]
	if len(row.Bars) != 0 || len(row.Cells) == 0 || len(row.Cells) > 601 || len(row.Marks) > 200 {
		t.Fatalf("%d bars, %d cells, %d marks", len(row.Bars), len(row.Cells), len(row.Marks))
	}
	begun, marked := int64(0), int64(0)
	for _, c := range row.Cells {
		begun += c[3]
		if c[2]&(1<<phaseActive) == 0 {
			t.Errorf("a cell without an active lease: %v", c)
		}
	}
	for _, m := range row.Marks {
		marked += m[2]
	}
	if begun != 901 || marked < 1800 {
		t.Errorf("%d leases and %d marks are told", begun, marked)
	}
	near := all
	near.From, near.To = near.From+3600_000, near.From+3600_000+60_000
	row = h.Timeline(near).Rows[0]
	if len(row.Cells) != 0 || len(row.Bars) < 4 || len(row.Bars) > 12 {
		t.Errorf("zoomed in there are %d bars and %d cells", len(row.Bars), len(row.Cells))
	}
}

func TestSearch(t *testing.T) {
	w := aDay(start)
	h := w.read(t, "prod")
	for query, want := range map[string]string{
		"orders": "orders-db", "CREDS/BILL": "billing-db", "billing-app": "billing-db", "v-orders-db-1": "orders-db", "#2": "billing-db",
		"orders-db/3": "orders-db", "database/creds/orders/0000791": "orders-db", "00015838": "billing-db", "": "billing-db orders-db search", "nothing": "",
	} {
		var got []string
		for _, r := range h.Timeline(Window{To: 1, At: Now, Rows: 10, Query: query}).Rows {
			got = append(got, r.Name)
			if strings.HasPrefix(query, "v-") && !slices.Equal(r.Hits, []uint64{1}) {
				t.Errorf("%q hits %v", query, r.Hits)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %q, not %q", query, got, want)
		}
	}
	trouble := h.Timeline(Window{To: 1, At: Now, Rows: 10, Order: "trouble"}).Rows
	if trouble[0].Name == "billing-db" || trouble[2].Name != "billing-db" {
		t.Errorf("by trouble: %+v", trouble)
	}
}

// TestAnOldAnswerIsNoSilence: what was known of the present when somebody looked
// last says nothing of a heartbeat now.
func TestAnOldAnswerIsNoSilence(t *testing.T) {
	w := aDay(start)
	h := w.read(t, "prod")
	look := func(asked time.Duration, age int64) (o Overview) {
		h.presence.last = Present{Holding: map[string]Instance{"prod": {Holder: "holder-two", State: "live", Age: age}}}
		h.presence.taken = time.Now().Add(-asked)
		o = h.Overview(Now)
		h.presence.into(&o)
		return o
	}
	silent := func(o Overview) bool {
		return slices.ContainsFunc(o.Concerns, func(c Concern) bool { return strings.Contains(c.What, "heartbeat") })
	}
	if o := look(time.Minute, 100); silent(o) || o.Scopes[0].Holding != nil {
		t.Errorf("an answer of a minute ago is believed: %+v", o.Scopes[0].Holding)
	}
	if o := look(time.Second, 100); silent(o) || o.Scopes[0].Holding == nil {
		t.Error("an answer of a second ago is not believed")
	}
	if !silent(look(time.Second, 6000)) {
		t.Error("nobody says that the holder is silent")
	}
}
