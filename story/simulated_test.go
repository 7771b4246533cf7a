package story_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/sim"
	"github.com/leasesvc/leasesvc/story"
)

// lives gives the events of simulated lives, which meet every fault.
func lives(t *testing.T, n uint64, live func(seed uint64, log []events.Event)) {
	t.Helper()
	for seed := uint64(1); seed <= n; seed++ {
		r := sim.Run(sim.Options{Seed: seed, Log: true})
		if r.Err != nil {
			t.Fatalf("seed %d: %v", seed, r.Err)
		}
		var log []events.Event
		for i, payload := range r.Log {
			e, err := events.Decode(payload, uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, e)
		}
		live(seed, log)
	}
}

// TestAStoryLeavesNothingOut: each event of the name is told, some together.
func TestAStoryLeavesNothingOut(t *testing.T) {
	together := 0
	lives(t, 60, func(seed uint64, log []events.Event) {
		names := map[string]*story.Life{}
		want := map[string]int{}
		openings := 0
		for i := range log {
			if n := log[i].Name; !strings.HasPrefix(n, "_") && names[n] == nil {
				names[n] = story.NewLife(n)
			}
		}
		for i := range log {
			e := &log[i]
			if d, ok := e.Data.(*events.Opened); ok && d.How != events.HowReopened {
				openings++
			}
			want[e.Name]++
			for _, l := range names {
				l.See(e)
			}
		}
		for name, l := range names {
			told := 0
			lines, dropped := l.Lines()
			for _, line := range lines {
				told += line.Times
				if line.Times > 1 {
					together++
				}
				if line.Says == "" || strings.Contains(line.Says, "S3CR3T") {
					t.Fatalf("seed %d: %q", seed, line.Says)
				}
			}
			if dropped != 0 || told != want[name]+openings {
				t.Fatalf("seed %d, %s: %d told, %d events and %d openings", seed, name, told, want[name], openings)
			}
		}
	})
	if together == 0 {
		t.Error("nothing was told together")
	}
}

// TestNextIsWhatHappens: what a state says comes next has a time that is not
// past for long, or waits for somebody.
func TestNextIsWhatHappens(t *testing.T) {
	said := 0
	lives(t, 60, func(seed uint64, log []events.Event) {
		s := leasecore.NewState("prod")
		for i := range log {
			e := &log[i]
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
			for _, step := range story.Next(s, e.Name, e.Time) {
				said++
				if step.Says == "" {
					t.Fatalf("seed %d, sequence %d: a step says nothing", seed, e.Seq)
				}
			}
			n := s.Name(e.Name)
			if n != nil && len(n.Leases) > 0 && n.Definition != nil && len(story.Next(s, e.Name, e.Time)) == 0 && ends(n) {
				t.Fatalf("seed %d, sequence %d: nothing comes next:\n%s", seed, e.Seq, s.Print())
			}
		}
	})
	if said == 0 {
		t.Error("nothing was said")
	}
}

// ends tells whether a lease of the name has an end.
func ends(n *leasecore.Name) bool {
	for i := range n.Leases {
		if _, ok := n.Leases[i].Expires(); ok {
			return true
		}
	}
	return false
}

// TestWhoHadItIsAskedByUserAndByLeaseID: each lease that was granted is found by
// what identifies it, and its times are in their order.
func TestWhoHadItIsAskedByUserAndByLeaseID(t *testing.T) {
	found, used := 0, 0
	lives(t, 40, func(seed uint64, log []events.Event) {
		for i := range log {
			d, ok := log[i].Data.(*events.Acquired)
			if !ok || d.LeaseID == "" {
				continue
			}
			queries := []string{d.LeaseID}
			if u := d.Public["username"]; u != "" {
				queries = append(queries, u)
			}
			for _, q := range queries {
				h := story.NewHolders(q)
				for j := range log {
					h.See(&log[j])
				}
				got := h.Found()
				if len(got) == 0 {
					t.Fatalf("seed %d: %s is not found", seed, q)
				}
				for _, l := range got {
					found++
					used += len(l.Users)
					inOrder(t, l)
					for _, u := range l.Users {
						if u.Until.IsZero() && !l.Ended.IsZero() {
							t.Fatalf("seed %d: lease %d has ended, and %s may use it still", seed, l.Lease, u.Incarnation)
						}
					}
				}
			}
		}
	})
	if found == 0 || used == 0 {
		t.Errorf("%d leases, %d users: the test says too little", found, used)
	}
}

func inOrder(t *testing.T, l story.Held) {
	t.Helper()
	last := time.Time{}
	for _, at := range []time.Time{l.Active, l.Replaced, l.Retired, l.Ended} {
		if at.IsZero() {
			continue
		}
		if at.Before(last.Add(-10 * time.Minute)) { // the clocks of two holders differ
			t.Fatalf("lease %d of %s: its times are not in order: %+v", l.Lease, l.Name, l)
		}
		last = at
	}
}

func TestWhoWasCutOffIsSaid(t *testing.T) {
	h := story.NewHolders("v-2")
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for i, e := range []events.Event{
		{Data: &events.Registered{Consumer: "api", Instance: "i", Incarnation: "A"}},
		{Lease: 2, Data: &events.Requested{Vault: "main", Path: "p"}},
		{Lease: 2, Data: &events.Acquired{LeaseID: "p/x", Public: map[string]string{"username": "v-2"}}},
		{Lease: 2, Data: &events.HandoverStarted{Asked: []string{"A"}}},
		{Lease: 2, Data: &events.Prepared{Incarnation: "A", Yes: true}},
		{Lease: 2, Data: &events.Installed{}},
		{Lease: 2, Data: &events.Retired{Reason: events.RetiredOverdue, CutOff: []string{"A"}}},
	} {
		e.Seq, e.Name, e.Time = uint64(i+1), "db", at.Add(time.Duration(i)*time.Minute)
		h.See(&e)
	}
	got := h.Found()
	if len(got) != 1 || len(got[0].Users) != 1 {
		t.Fatalf("%+v", got)
	}
	if u := got[0].Users[0]; !u.CutOff || !u.Proved || !u.From.Equal(at.Add(3*time.Minute)) || !u.Until.Equal(at.Add(6*time.Minute)) {
		t.Errorf("%+v", u)
	}
}

func TestANameThatIsNotThereHasNoNext(t *testing.T) {
	if got := story.Next(leasecore.NewState("prod"), "x", time.Now()); got != nil {
		t.Errorf("%v", got)
	}
	if got := story.NewHolders("").Found(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
