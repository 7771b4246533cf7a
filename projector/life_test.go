package projector_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

var macKey = []byte("a key of thirty-two bytes, just so")

// life drives the core through a random life the way the service does, with a
// log in memory, and checks the invariants after each event.
type life struct {
	t     *rapid.T
	now   time.Time
	seq   uint64
	cmd   int
	epoch uint64
	live  *projector.Projection
	log   [][]byte
	chain events.Chain

	granted   map[uint64]bool // leases of ours that Vault has
	extended  map[uint64]bool // leases whose guard was extended
	confirmed map[string]uint64
	active    map[string]uint64
	revoking  map[uint64]bool
	taken     map[leasecore.Effect]bool
	kinds     map[events.Type]int
	calm      bool // everything works and lives long
}

func newLife(t *rapid.T) *life {
	return &life{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), live: projector.New("prod", macKey), chain: events.NewChain(macKey),
		granted: map[uint64]bool{}, extended: map[uint64]bool{}, active: map[string]uint64{}, revoking: map[uint64]bool{}, kinds: map[events.Type]int{},
	}
}

// store appends events and folds them as they are read back.
func (l *life) store(evs ...events.Event) {
	for i := range evs {
		l.seq++
		payload, err := l.chain.Seal(&evs[i])
		if err != nil {
			l.t.Fatal(err)
		}
		l.log = append(l.log, payload)
		e, err := l.live.Apply(l.seq, payload)
		if err != nil || e == nil {
			l.t.Fatalf("sequence %d (%s) does not count: %v", l.seq, evs[i].Type(), err)
		}
		l.check(e)
	}
}

// check holds the invariants that one event can break.
func (l *life) check(e *events.Event) {
	l.kinds[e.Type()]++
	if e.Epoch != l.epoch {
		l.t.Fatalf("I1: sequence %d is of epoch %d in epoch %d", e.Seq, e.Epoch, l.epoch)
	}
	switch e.Type() {
	case events.TypeInstalled:
		if l.revoking[e.Lease] {
			l.t.Fatalf("P7: lease %d was being revoked and is installed", e.Lease)
		}
		if !l.extended[e.Lease] {
			l.t.Fatalf("P5: lease %d is installed, its guard was not extended", e.Lease)
		}
		l.active[e.Name] = e.Lease
	case events.TypeGuardExtended:
		l.extended[e.Lease] = true
	case events.TypeHandoverStarted:
		if !l.extended[e.Lease] {
			l.t.Fatalf("P5: lease %d is handed over, its guard was not extended", e.Lease)
		}
	case events.TypeRetired, events.TypeExpired:
		if l.active[e.Name] == e.Lease {
			delete(l.active, e.Name)
		}
	case events.TypeRevoking:
		l.revoking[e.Lease] = true
		if l.active[e.Name] == e.Lease {
			l.t.Fatalf("I4: the active lease %d of %s is revoked", e.Lease, e.Name)
		}
	}
}

func (l *life) open() {
	l.epoch += 1 + rapid.Uint64Range(0, 3).Draw(l.t, "epoch")
	l.confirmed, l.taken = map[string]uint64{}, map[leasecore.Effect]bool{}
	how := events.HowQuiet
	l.store(events.Event{
		ID: fmt.Sprint("o", l.seq), Scope: "prod", Name: events.EpochName, Epoch: l.epoch, Time: l.now,
		Data: &events.Opened{Holder: fmt.Sprint("h", l.epoch), How: how, Attempt: fmt.Sprint(l.seq)},
	})
	l.settle()
}

// decide decides and appends; with crash, only a part of the events gets into
// the log and another holder opens.
func (l *life) decide(c leasecore.Command, crash bool) {
	l.cmd++
	evs, err := leasecore.Decide(leasecore.NewDraft(l.live.State()), leasecore.At{Now: l.now, ID: "c" + strconv.Itoa(l.cmd)}, c)
	if err != nil {
		return // refused: late, busy, unknown
	}
	if crash {
		evs = evs[:rapid.IntRange(0, len(evs)).Draw(l.t, "landed")]
	}
	l.store(evs...)
	if crash {
		l.open()
	}
}

func (l *life) settle() {
	for _, n := range l.live.State().SortedNames() {
		for before := -1; before != len(l.log); {
			before = len(l.log)
			l.decide(leasecore.Tick{Name: n}, false)
		}
	}
}

func (l *life) owed() []leasecore.Effect {
	var out []leasecore.Effect
	for _, n := range l.live.State().SortedNames() {
		out = append(out, l.live.State().Owed(n, l.now)...)
	}
	return out
}

// outcome gives what an effect comes to; well decides for the good.
func (l *life) outcome(e leasecore.Effect, well bool) leasecore.Command {
	var bad *leasecore.Failed
	if !well {
		bad = &leasecore.Failed{Failure: events.Failure{Kind: "timeout"}, Refused: rapid.Bool().Draw(l.t, "refused")}
	}
	ttl, renewable := events.WholeSeconds(3600), true
	if !l.calm {
		ttl, renewable = events.WholeSeconds(int64(rapid.IntRange(1, 120).Draw(l.t, "ttl"))), rapid.Bool().Draw(l.t, "renewable")
	}
	switch e.Kind {
	case leasecore.Acquire:
		if !well && rapid.Bool().Draw(l.t, "nothing came of it") {
			return leasecore.AcquireDone{Name: e.Name, Lease: e.Lease, Err: bad}
		}
		l.granted[e.Lease] = true
		g := &events.Acquired{
			LeaseID: fmt.Sprint("L", e.Lease), TTL: ttl, Renewable: renewable, SentAt: l.now,
			Guard: fmt.Sprint("G", e.Lease), GuardTTL: events.WholeSeconds(60), Keys: []string{"password", "username"},
		}
		return leasecore.AcquireDone{Name: e.Name, Lease: e.Lease, Grant: g, Err: bad, Guard: g.Guard}
	case leasecore.Extend:
		if bad != nil {
			bad.Gone = rapid.Bool().Draw(l.t, "gone")
		}
		if bad != nil && bad.Gone {
			delete(l.granted, e.Lease)
		}
		return leasecore.ExtendDone{Name: e.Name, Lease: e.Lease, Granted: events.WholeSeconds(3600), SentAt: l.now, Err: bad}
	case leasecore.Verify:
		return leasecore.VerifyDone{Name: e.Name, Lease: e.Lease, Verifier: "postgresql", Err: bad}
	case leasecore.Prepare:
		return leasecore.Answered{Name: e.Name, N: e.N, Incarnation: e.Incarnation, Yes: well, Reason: "r"}
	case leasecore.Renew:
		if bad != nil {
			bad.Gone = bad.Refused && rapid.Bool().Draw(l.t, "gone")
		}
		if bad != nil && bad.Gone {
			delete(l.granted, e.Lease)
		}
		return leasecore.RenewDone{Name: e.Name, Lease: e.Lease, Err: bad, Renewed: &events.Renewed{TTL: ttl, SentAt: l.now, Renewable: true}}
	case leasecore.Revoke:
		if well {
			delete(l.granted, e.Lease)
		}
		return leasecore.RevokeDone{Name: e.Name, Lease: e.Lease, Err: bad}
	default: // Tell
		if well {
			l.live.State().Confirm(e.Name, e.Incarnation, e.N)
		}
		return leasecore.Tick{Name: e.Name}
	}
}

func (l *life) define(revision uint64, names []string) {
	defs := map[string]events.Definition{}
	for _, n := range names {
		d := events.DefaultDefinition()
		d.Vault, d.Path, d.Kind = "main", "database/creds/"+n, events.KindPostgreSQL
		if rapid.Bool().Draw(l.t, "verifier") {
			d.Verifier = &events.Verifier{Kind: "postgresql", Timeout: events.WholeSeconds(5)}
		}
		if rapid.Bool().Draw(l.t, "consumer") {
			d.Consumers = []events.Consumer{{Name: "api", Key: "K"}}
		}
		d.GoodFor = events.WholeSeconds(int64(rapid.IntRange(0, 10).Draw(l.t, "good for")))
		defs[n] = d
	}
	l.decide(leasecore.ApplyDefinitions{Revision: revision, Digest: fmt.Sprint(revision), Definitions: defs}, false)
}

// step does one random thing.
func (l *life) step(revision *uint64, incarnation *int) {
	crash := rapid.IntRange(0, 19).Draw(l.t, "crash") == 0
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(l.t, "name")
	switch what := rapid.IntRange(0, 19).Draw(l.t, "what"); {
	case what == 0:
		*revision++
		l.define(*revision, rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"b"}}).Draw(l.t, "defined"))
	case what == 1:
		l.decide(leasecore.Rotate{Name: name}, crash)
	case what == 2:
		l.decide(leasecore.RevokeActive{Name: name}, crash)
	case what <= 4:
		*incarnation++
		r := events.Registered{Consumer: "api", Instance: rapid.SampledFrom([]string{"i", "j"}).Draw(l.t, "instance"), Incarnation: fmt.Sprintf("%06d", *incarnation), Key: "K"}
		if n := l.live.State().Name(name); n != nil {
			for _, c := range n.Consumers {
				if c.Instance == r.Instance {
					r.Replaces = c.ID
				}
			}
		}
		l.decide(leasecore.Register{Name: name, Registration: r}, crash)
	case what == 5:
		if n := l.live.State().Name(name); n != nil && len(n.Consumers) > 0 {
			l.decide(leasecore.Leave{Name: name, Incarnation: n.Consumers[0].ID, Reason: events.LeftSilent}, crash)
		}
	case what <= 8:
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 30_000).Draw(l.t, "wait")) * time.Millisecond)
	default:
		if owed := l.owed(); len(owed) > 0 {
			e := rapid.SampledFrom(owed).Draw(l.t, "effect")
			l.decide(l.outcome(e, rapid.IntRange(0, 3).Draw(l.t, "well") > 0), crash)
		}
	}
	l.settle()
}

// leaveInPeace lets everything succeed until nothing is owed.
func (l *life) leaveInPeace() {
	l.calm = true
	for range 500 {
		owed := l.owed()
		if len(owed) == 0 {
			next, ok := l.nextWake()
			if !ok || next.After(l.now.Add(2*time.Minute)) {
				return
			}
			l.now = next
			l.settle()
			continue
		}
		l.decide(l.outcome(owed[0], true), false)
		l.settle()
	}
}

func (l *life) nextWake() (next time.Time, ok bool) {
	for _, n := range l.live.State().SortedNames() {
		if at, has := l.live.State().Wake(n, l.now); has && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

func (l *life) random(steps int) {
	l.open()
	revision, incarnation := uint64(1), 0
	l.define(revision, []string{"a", "b"})
	for range steps {
		l.step(&revision, &incarnation)
		if rapid.IntRange(0, 40).Draw(l.t, "finalize") == 0 { // something only in the release of the tests of upgrades
			l.decide(leasecore.Finalize{}, false)
		}
	}
}

// replay folds the log anew, resumed in the middle of the stream if cut > 0.
func replay(t *rapid.T, log [][]byte) *projector.Projection {
	p := projector.New("prod", macKey)
	for i, payload := range log {
		if _, err := p.Apply(uint64(i+1), payload); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestI6_ReplayIsLiveState(t *testing.T) {
	total := map[events.Type]int{}
	check := func(rt *rapid.T) {
		l := newLife(rt)
		l.random(rapid.IntRange(20, 120).Draw(rt, "steps"))
		got := replay(rt, l.log)
		if a, b := l.live.State().Print(), got.State().Print(); a != b {
			rt.Fatalf("live:\n%s\nreplayed:\n%s", a, b)
		}
		if n, _ := got.Skipped(); n != 0 {
			rt.Fatalf("%d events were skipped", n)
		}
		for k, n := range l.kinds {
			total[k] += n
		}
	}
	for range 3 { // the rarest events come in one life of a hundred
		rapid.Check(t, check)
	}
	for _, k := range []events.Type{
		events.TypeRequested, events.TypeAcquired, events.TypeAcquireFailed, events.TypeGuardExtended, events.TypeVerified, events.TypeVerifyFailed,
		events.TypeHandoverStarted, events.TypePrepared, events.TypeInstalled, events.TypeRollbackStarted, events.TypeRolledBack, events.TypeRenewed,
		events.TypeRenewFailed, events.TypeRetired, events.TypeRevoking, events.TypeRevoked, events.TypeRevokeFailed, events.TypeExpired,
		events.TypeOrphaned, events.TypeRegistered, events.TypeLeft, events.TypeApplied, events.TypeRemoved,
	} {
		if total[k] == 0 {
			t.Errorf("no life had a %s: the property says nothing about it", k)
		}
	}
}

// TestI3_I8_LeftInPeace: whatever happened, once everything works again each
// definition has a usable lease and no lease is left that nobody uses.
func TestI3_I8_LeftInPeace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(rt)
		l.random(rapid.IntRange(10, 80).Draw(rt, "steps"))
		l.leaveInPeace()
		st := l.live.State()
		for n := range st.Names() {
			if n.Definition == nil {
				rt.Fatalf("I8: %s was removed and is still there:\n%s", n.Name, st.Print())
			}
			waits := n.Definition.NeedsConsumer() && len(n.Consumers) == 0
			if n.Committed(l.now) == nil && !waits {
				rt.Fatalf("I8: %s has no usable lease:\n%s", n.Name, st.Print())
			}
		}
		for no := range l.granted {
			used := slices.ContainsFunc(slices.Collect(st.Names()), func(n *leasecore.Name) bool { return n.Lease(no) != nil })
			if !used && l.extended[no] {
				rt.Fatalf("I3: Vault has lease %d for good, the log does not:\n%s", no, st.Print())
			}
		}
	})
}

// TestP5_NothingGoesOutBeforeTheGuardIsExtended and the other orderings are
// checked after each event of every life (see check).
func TestP5_P7_I1_I4_Orderings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		newLife(rt).random(60)
	})
}
