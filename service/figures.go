package service

import (
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/metrics"
)

// figures is where a scrape reads what is. It waits for nobody: of a scope's
// state it sees what the scope's goroutine has published.
type figures struct{ svc *Service }

// Figures implements metrics.Source.
func (f figures) Figures() metrics.Figures {
	s := f.svc
	now := time.Now()
	out := metrics.Figures{Now: time.Unix(0, s.clock.nanos(now)).UTC(), Insecure: s.cfg.InsecureConsumers, Stuck: len(s.stuck(now)) > 0}
	for _, name := range s.cfg.VaultNames() {
		out.Vaults = append(out.Vaults, s.vaults[name].figures())
	}
	if !s.hasBegun() {
		for _, name := range s.cfg.ScopeNames() {
			out.Scopes = append(out.Scopes, metrics.Scope{Name: name})
		}
		return out
	}
	_, refused := s.cells.PausedSince()
	out.NATS = metrics.NATS{
		Connected: s.nc.IsConnected(), Refused: refused, Reconnects: s.nc.Stats().Reconnects,
		Followed: s.followed.Load(), Unknown: s.strangers.Load(),
	}
	if l := s.lastLog.Load(); l != nil && now.Sub(l.at) < logStale {
		out.Log = &metrics.Log{Bytes: l.Bytes, Limit: l.MaxBytes, Messages: l.Messages, Last: l.LastSeq}
	}
	is := s.cells.Stats()
	out.Holder = &metrics.Holder{
		Renewals: is.Renewals, Adopted: is.Adopted, Claims: is.Claims, LostRaces: is.LostRaces,
		Deposals: is.Deposals, Fast: is.FastDeposals, Deposed: is.Fenced,
	}
	if age, err := s.cells.RenewalAge(now); err == nil {
		out.Holder.Renewed = now.Add(-age)
	}
	is2 := s.lastReadiness.Load()
	for _, name := range s.cfg.ScopeNames() {
		sc := s.scopes[name].figures()
		sc.Ready = is2 != nil && len(is2.problems) == 0 && len(is2.scopes[name].problems) == 0
		out.Scopes = append(out.Scopes, sc)
	}
	return out
}

// figures tells how the scope is.
func (sc *scope) figures() metrics.Scope {
	out := metrics.Scope{Name: sc.name, Foreign: sc.follower.strangers.Load(), Given: uint64(sc.reads.given.Load()), Unable: uint64(sc.reads.unable.Load())}
	if at := sc.savedAt.Load(); at != 0 {
		out.SnapshotAt = time.Unix(0, at)
	}
	sc.mu.Lock()
	t := sc.term
	out.Blocked = t == nil && sc.blocked != nil
	sc.mu.Unlock()
	if t == nil {
		out.Epoch = sc.follower.opened().epoch
		return out
	}
	out.Epoch, out.Led = t.epoch, t.figures()
	return out
}

// figures tells how the scope is that this term leads.
func (t *term) figures() *metrics.Led {
	out := &metrics.Led{
		Since: t.openedAt, Queue: len(t.queue), Due: int(t.due.Load()), Handovers: int(t.handovers.Load()),
		Unsaved: uint64(max(0, t.unsaved.Load())), Stalled: t.stalled.Load(),
		Work: make(map[string]int, len(t.working)), States: leaseStates(),
		Names: func(yield func(string, *metrics.Standing) bool) {
			more := true
			t.views.byName.each(func(name string, v *view) { more = more && yield(name, v.standing.Load()) })
		},
	}
	for kind := leasecore.Acquire; kind < leasecore.EffectKinds; kind++ {
		out.Work[kind.String()] = int(t.working[kind].Load())
	}
	return out
}

// figures tells how the connection is.
func (v *vaultConn) figures() metrics.Vault {
	token, circuit, is := v.client.Token(), v.client.Circuit(), v.client.Stats()
	out := metrics.Vault{
		Name: v.name, Requests: is.Requests, Held: is.Held, Outages: is.Outages, Probes: is.Probes, Suspect: is.Suspect, Warnings: is.Warnings,
		Out: circuit.Out, Paused: !token.RefusedSince.IsZero(), QuotaPaused: !circuit.PausedUntil.IsZero(), LoggedIn: token.LoggedIn,
		Guarded: v.guarded(), Faults: len(v.guardFaults()), Waiting: circuit.Waiting, InFlight: circuit.InFlight,
	}
	if token.LoggedIn {
		out.TokenExpires = token.Expires
	}
	for call, n := range is.Calls {
		out.Calls = append(out.Calls, metrics.VaultCalls{Operation: call.Op, Result: call.Kind.String(), Count: n})
	}
	return out
}
