package leasecore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TestAnEventThatDoesNotFitIsRefused: each event, at a moment when it can't be,
// is an InconsistentError that names it, and leaves the state as it was.
func TestAnEventThatDoesNotFitIsRefused(t *testing.T) {
	def := events.DefaultDefinition()
	def.Vault, def.Path, def.Kind = "main", "kv/x", events.KindGeneric
	applied := &events.Applied{Revision: 1, Definition: &def}
	requested, acquired := &events.Requested{Vault: "main", Path: "kv/x"}, &events.Acquired{LeaseID: "L", Guard: "G"}
	started, installed := &events.HandoverStarted{}, &events.Installed{}
	rolling := &events.RollbackStarted{}
	active := []events.Data{applied, requested, acquired, started, installed}
	retired := append(active[:5:5], &events.Retired{})
	for name, c := range map[string]struct {
		before []events.Data
		then   events.Data
		why    string
	}{
		"unknown name":               {nil, requested, "no such name"},
		"two candidates":             {[]events.Data{applied, requested}, requested, "another candidate"},
		"adopted beside a candidate": {[]events.Data{applied, requested}, &events.Adopted{}, "another candidate"},
		"acquired without intent":    {[]events.Data{applied}, acquired, "never there"},
		"acquired twice":             {[]events.Data{applied, requested, acquired}, acquired, "acquired, not requested"},
		"failed after acquired":      {[]events.Data{applied, requested, acquired}, &events.AcquireFailed{}, "acquired, not requested"},
		"orphaned after acquired":    {[]events.Data{applied, requested, acquired}, &events.Orphaned{}, "only an intent"},
		"verify failed when active":  {active, &events.VerifyFailed{}, "only a candidate"},
		"handed over twice":          {active, started, "the lease is active"},
		"installed without asking":   {[]events.Data{applied, requested, acquired}, installed, "no hand-over"},
		"installed when rolling":     {[]events.Data{applied, requested, acquired, started, rolling}, installed, "roll back has begun"},
		"rolled back unannounced":    {[]events.Data{applied, requested, acquired, started}, &events.RolledBack{}, "has not begun"},
		"retired while asking":       {[]events.Data{applied, requested, acquired, started}, &events.Retired{Reason: events.RetiredRemoved}, "can't be retired"},
		"retired an intent":          {[]events.Data{applied, requested}, &events.Retired{}, "can't be retired"},
		"expired an intent":          {[]events.Data{applied, requested}, &events.Expired{}, "can't expire"},
		"expired while asking":       {[]events.Data{applied, requested, acquired, started}, &events.Expired{}, "can't expire"},
		"revoking in use":            {active, &events.Revoking{}, "only a retired"},
		"revoked without intent":     {retired, &events.Revoked{}, "not intended"},
		"revoked as shared, alone":   {retired, &events.Revoked{Shared: true}, "nobody else"},
		"unknown to this release":    {active, laterData{}, "does not know"},
	} {
		s := leasecore.NewState("prod")
		next := uint64(0)
		put := func(data events.Data) error {
			next++
			e := events.Event{Seq: next, Scope: "prod", Name: "x", Epoch: 1, Lease: 1, Time: time.Unix(0, 0), Data: data}
			return s.Apply(&e)
		}
		for _, d := range c.before {
			if err := put(d); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		before, last := s.Print(), s.LastSeq
		err := put(c.then)
		var wrong *leasecore.InconsistentError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Why, c.why) || wrong.Seq != next || wrong.Name != "x" ||
			wrong.Type != string(c.then.EventType()) || !strings.Contains(err.Error(), wrong.Why) || !strings.Contains(err.Error(), wrong.Type) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Print() != before || s.LastSeq != last {
			t.Errorf("%s: the state moved:\n%s\nwas:\n%s", name, s.Print(), before)
		}
	}
}

type laterData struct{}

func (laterData) EventType() events.Type { return "later" }
func (laterData) EventVersion() int      { return 1 }

func TestL4_BackoffStopsAtAMinute(t *testing.T) {
	for attempt, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
		if got := leasecore.Backoff(attempt); got != want*time.Second {
			t.Errorf("after %d: %s", attempt, got)
		}
	}
	if leasecore.Backoff(-1) != 0 || leasecore.Backoff(1_000_000) != leasecore.MaxBackoff {
		t.Error("the ends are open")
	}
}

// TestADraftLeavesTheStateAlone: what is decided and thrown away was never there.
func TestADraftLeavesTheStateAlone(t *testing.T) {
	w := newWorld(t)
	w.open(1, "a")
	def := events.DefaultDefinition()
	def.Vault, def.Path, def.Kind = "main", "p", events.KindGeneric
	def.Consumers = []events.Consumer{{Name: "api", Key: "K"}}
	must := func(c leasecore.Command) []events.Event {
		t.Helper()
		evs, err := w.decide(c)
		if err != nil {
			t.Fatal(err)
		}
		return evs
	}
	must(leasecore.ApplyDefinitions{Revision: 1, Digest: "d", Definitions: map[string]events.Definition{"x": def}})
	must(leasecore.Register{Name: "x", Registration: events.Registered{Consumer: "api", Instance: "i", Incarnation: "A", Key: "K", XKey: "X", Subject: "S"}})
	must(leasecore.AcquireDone{Name: "x", Lease: 1, Grant: &events.Acquired{
		LeaseID: "L", TTL: events.WholeSeconds(60), SentAt: w.now, Public: map[string]string{"username": "u"}, Fingerprint: "f"}})
	if in := w.state.Name("x").Incarnation("A"); in == nil || *in != (leasecore.Incarnation{Consumer: "api", Instance: "i", ID: "A", Key: "K", XKey: "X", Subject: "S"}) {
		t.Errorf("registered: %+v", in)
	}
	if l := w.state.Name("x").Lease(1); l.Public.Get("username") != "u" || !l.GrantedAt.Equal(w.now) {
		t.Errorf("acquired: %+v", l)
	}
	before := w.state.Print()
	at := leasecore.At{Now: w.now, ID: "c", Cause: "because", Actor: events.Actor{}}
	for _, c := range []leasecore.Command{
		leasecore.Answered{Name: "x", N: w.state.Name("x").Handover.N, Incarnation: "A", Yes: true},
		leasecore.Answered{Name: "x", N: w.state.Name("x").Handover.N, Incarnation: "A"},
		leasecore.Register{Name: "x", Registration: events.Registered{Consumer: "api", Instance: "i", Incarnation: "B", Replaces: "A", Key: "K"}},
		leasecore.Leave{Name: "x", Incarnation: "A"},
		leasecore.Shutdown{}, leasecore.Release{Holder: "a"},
		leasecore.ApplyDefinitions{Revision: 2, Digest: "e", Definitions: map[string]events.Definition{}},
	} {
		evs, err := leasecore.Decide(leasecore.NewDraft(w.state), at, c)
		if err != nil || len(evs) == 0 || evs[0].Cause != "because" {
			t.Errorf("%T: %d events, %v", c, len(evs), err)
		}
		if w.state.Print() != before {
			t.Fatalf("%T moved the state:\n%s\nwas:\n%s", c, w.state.Print(), before)
		}
	}
	if w.state.Len() != 1 {
		t.Errorf("%d names", w.state.Len())
	}
}

func TestP9_AMismatchNamesWhoIsRegistered(t *testing.T) {
	err := error(&leasecore.MismatchError{Registered: "A"})
	if !errors.Is(err, leasecore.ErrMismatch) || !strings.Contains(err.Error(), "A; register as its replacement") {
		t.Error(err)
	}
}
