package consumertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// State is what is committed for a name.
type State struct {
	// N is that of the last installed or rollback-started.
	N      uint64
	Lease  uint64
	Public string
	Values wire.Values
}

// T is what a [Holder] needs of a test; [testing.TB] has it.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Holder plays the holder of a scope.
type Holder struct {
	t       T
	nc      *nats.Conn
	scope   string
	keys    *handover.Keys
	courier *handover.Courier

	mu sync.Mutex
	// Guarded by mu; changed is closed and replaced at each change.
	changed    chan struct{}
	epoch      uint64
	sequence   uint64
	lastLease  uint64
	names      map[string]State
	allowed    map[string]string // by consumer: its public key
	insecure   bool
	registered map[string]map[string]handover.Registration // by name and instance
	refuse     func(handover.Registration) error
	mute       bool
	reports    []handover.Refused
	goodFor    time.Duration
}

// Start begins to hold the scope, with an epoch of 1 and no names. Consumers
// without a key are accepted until [Holder.Allow] is called.
func Start(t T, nc *nats.Conn, scope string) *Holder {
	t.Helper()
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := handover.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	return StartWith(t, nc, scope, keys)
}

// StartWith is [Start] with keys that consumers may have pinned already.
func StartWith(t T, nc *nats.Conn, scope string, keys *handover.Keys) *Holder {
	t.Helper()
	h := &Holder{t: t, nc: nc, scope: scope, keys: keys, changed: make(chan struct{}), epoch: 1, sequence: 100,
		names: map[string]State{}, allowed: map[string]string{}, insecure: true,
		registered: map[string]map[string]handover.Registration{}, goodFor: 30 * time.Second}
	h.courier = handover.NewCourier(nc, keys, handover.CourierOptions{FirstPause: 20 * time.Millisecond, LastPause: 200 * time.Millisecond})
	for subject, answer := range map[string]nats.MsgHandler{
		wire.Subject(wire.OpRegister, scope, "*"): h.onRegister,
		wire.Subject(wire.OpLeave, scope, "*"):    h.onLeave,
		wire.Subject(wire.OpGet, scope, "*"):      h.onGet,
		wire.Subject(wire.OpRefused, scope, "*"):  h.onRefused,
		wire.KeySubject(scope):                    h.onKey,
	} {
		sub, err := nc.Subscribe(subject, answer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return h
}

// ServiceKey is the key that consumers pin.
func (h *Holder) ServiceKey() string { return h.keys.Public() }

// Keys gives the holder's keys, to forge or to seal with.
func (h *Holder) Keys() *handover.Keys { return h.keys }

// Courier gives the courier that the holder asks with.
func (h *Holder) Courier() *handover.Courier { return h.courier }

func (h *Holder) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// Allow names a consumer with its public nkey; from then on only named ones
// may register.
func (h *Holder) Allow(consumer, key string) {
	h.set(func() { h.allowed[consumer], h.insecure = key, false })
}

// Succeed makes the holder its own successor: the epoch is raised, and what
// confirmations it had is forgotten.
func (h *Holder) Succeed() { h.set(func() { h.epoch++ }) }

// Mute makes the holder answer nothing, or answer again.
func (h *Holder) Mute(mute bool) { h.set(func() { h.mute = mute }) }

// Refuse makes check decide on registrations before they are accepted; nil
// accepts all.
func (h *Holder) Refuse(check func(handover.Registration) error) { h.set(func() { h.refuse = check }) }

// Epoch gives the epoch.
func (h *Holder) Epoch() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epoch
}

// Next gives the next sequence of the log that there would be.
func (h *Holder) Next() (n uint64) { h.set(func() { h.sequence++; n = h.sequence }); return n }

// Define makes a name known, without a credential.
func (h *Holder) Define(name string) { h.set(func() { h.names[name] = State{} }) }

// State gives what is committed for a name.
func (h *Holder) State(name string) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[name]
}

// Candidate mints a lease number for values. It changes nothing.
func (h *Holder) Candidate(public string, values string) (s State) {
	h.set(func() { h.lastLease++; s.Lease = h.lastLease })
	s.Public, s.Values = public, wire.Values(values)
	return s
}

// Install commits a candidate without asking anybody, as `installed` does, and
// gives its n.
func (h *Holder) Install(name string, s State) State {
	h.set(func() { h.sequence++; s.N = h.sequence; h.names[name] = s })
	_ = h.nc.Publish(wire.RotationSubject(h.scope, name), nil)
	return s
}

// RollBack takes n for a way back to what is committed, as `rollback-started`
// does.
func (h *Holder) RollBack(name string) (s State) {
	h.set(func() { h.sequence++; s = h.names[name]; s.N = h.sequence; h.names[name] = s })
	return s
}

// Registered gives the incarnations that are registered for a name, by
// instance.
func (h *Holder) Registered(name string) []handover.Registration {
	h.mu.Lock()
	defer h.mu.Unlock()
	byInstance := h.registered[name]
	var out []handover.Registration
	for _, instance := range slices.Sorted(maps.Keys(byInstance)) {
		out = append(out, byInstance[instance])
	}
	return out
}

// Remove takes an instance off the list without its doing, as leave_after does.
func (h *Holder) Remove(name, instance string) {
	h.set(func() { delete(h.registered[name], instance) })
}

// Await waits until cond holds of the registered incarnations of a name, and
// fails the test after 10 s.
func (h *Holder) Await(name, what string, cond func([]handover.Registration) bool) []handover.Registration {
	h.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		regs := h.Registered(name)
		if cond(regs) {
			return regs
		}
		select {
		case <-changed:
		case <-limit:
			h.t.Fatalf("%s: not in 10 s; registered: %d", what, len(regs))
		}
	}
}

// AwaitRegistered waits for that many incarnations.
func (h *Holder) AwaitRegistered(name string, count int) []handover.Registration {
	h.t.Helper()
	return h.Await(name, "registrations", func(r []handover.Registration) bool { return len(r) == count })
}

// Reports gives the reports of refused credentials that came.
func (h *Holder) Reports() []handover.Refused {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reports)
}

// Prepare asks one incarnation to prepare a candidate under a fresh n.
func (h *Holder) Prepare(ctx context.Context, to handover.To, candidate State, timeLeft time.Duration) (handover.Answer, error) {
	return h.PrepareN(ctx, to, h.Next(), candidate, timeLeft)
}

// PrepareN is Prepare under a given n.
func (h *Holder) PrepareN(ctx context.Context, to handover.To, n uint64, candidate State, timeLeft time.Duration) (handover.Answer, error) {
	return h.courier.Prepare(ctx, to, handover.Prepare{Epoch: h.Epoch(), N: n, Lease: candidate.Lease,
		TimeLeft: timeLeft, Public: candidate.Public, Values: candidate.Values})
}

// Follow tells one incarnation what is committed.
func (h *Holder) Follow(ctx context.Context, to handover.To, s State, revert bool) (handover.Answer, error) {
	return h.courier.Follow(ctx, to, handover.Follow{Revert: revert, Epoch: h.Epoch(), N: s.N, Lease: s.Lease,
		Public: s.Public, Values: s.Values})
}

// ErrRolledBack says that a hand-over was rolled back.
var ErrRolledBack = errors.New("rolled back")

// Rotate is a whole hand-over of a name: everybody registered is asked, all
// yes commits, anything else rolls back ([ErrRolledBack], with the reasons);
// then everybody is told until it confirms. It returns what is committed then.
func (h *Holder) Rotate(ctx context.Context, name string, candidate State, timeLeft time.Duration) (State, error) {
	regs := h.Registered(name)
	n := h.Next()
	var noes []error
	prepare, cancel := context.WithTimeout(ctx, timeLeft)
	defer cancel()
	err := each(regs, func(r handover.Registration) error {
		a, err := h.PrepareN(prepare, r.To(), n, candidate, timeLeft)
		if err == nil && !a.Yes() {
			err = errors.New(r.Instance + " said " + string(a.Verdict) + ": " + a.Reason)
		}
		return err
	})
	if err != nil {
		noes = append(noes, ErrRolledBack, err)
	}
	var s State
	if noes == nil {
		s = h.Install(name, candidate)
	} else {
		s = h.RollBack(name)
	}
	err = each(regs, func(r handover.Registration) error {
		_, err := h.Follow(ctx, r.To(), s, noes != nil)
		return err
	})
	return s, errors.Join(append(noes, err)...)
}

func each(regs []handover.Registration, do func(handover.Registration) error) error {
	errs := make([]error, len(regs))
	var all sync.WaitGroup
	for i, r := range regs {
		all.Go(func() { errs[i] = do(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}
