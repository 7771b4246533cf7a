package service

import (
	"context"
	"sync"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/vault"
)

// anew remembers, per name, what a renewal gave that is another lease or has
// other values (L32, L33), until the acquisition that the core decides on takes
// it: the same install as any other, without asking Vault again. It is memory:
// after a restart that acquisition reads the path.
type anew struct {
	mu     sync.Mutex
	byName map[string]vault.Grant
}

func (a *anew) put(name string, g vault.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName = map[string]vault.Grant{}
	}
	a.byName[name] = g
}

func (a *anew) take(name string) (vault.Grant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.byName[name]
	delete(a.byName, name)
	return g, ok
}

// noteAnew keeps a renewal's answer when it is more than a longer life.
func (j *job) noteAnew(r vault.Renewal) bool {
	other := r.LeaseID != j.lease.LeaseID
	changed := r.Data != nil && j.keys.Load().fingerprintLike(r.Data, j.lease.Fingerprint) != j.lease.Fingerprint
	if !other && !changed || j.lease.State != leasecore.Active {
		return false
	}
	j.anew.put(j.effect.Name, vault.Grant{
		LeaseID: r.LeaseID, TTL: r.TTL, Renewable: r.Renewable, Data: r.Data, Keys: r.Keys,
		Warnings: r.Warnings, SentAt: r.SentAt, Suspect: r.Suspect,
	})
	return true
}

// acquireAnew is acquire for what a renewal gave. No data in the answer: the
// data stays as it was (L31).
func (j *job) acquireAnew(ctx context.Context, done leasecore.AcquireDone, g vault.Grant) (request, bool) {
	if g.Data == nil {
		values, err := j.svc.values(ctx, j.name, j.effect.Name, j.replaces)
		if err != nil {
			done.Err, done.LeaseID = failed(err), g.LeaseID
			done.Err.Kind = kindStore
			return request{command: done}, ctx.Err() == nil
		}
		g.Data = []byte(values)
	}
	if g.Keys == nil {
		g.Keys = keysOf(g.Data)
	}
	var guard *vault.Guard
	if j.replaced != "" { // it hangs on the guard of the lease that was renewed
		guard = &vault.Guard{Accessor: j.replaced, TTL: vault.DurationOf(j.svc.guardTTL(j.lease.Vault))}
	}
	var err error
	if done.Grant, err = j.seal(ctx, g, guard); err != nil {
		done.Err, done.LeaseID = failed(err), g.LeaseID
		done.Err.Kind = kindStore
	}
	return request{command: done}, ctx.Err() == nil
}
