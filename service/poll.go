package service

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/vault"
)

// poll reads a secret without lease again and tells the core when its fingerprint is another one (L38).
// What it came to is memory, so an unchanged secret writes no event, and neither
// does a reading that failed: it is retried at the pace of the back-off.
func (j *job) poll(ctx context.Context) (request, bool) {
	read := &reading{name: j.effect.Name, at: j.svc.clock.Now()}
	unchanged := request{command: leasecore.Tick{Name: j.effect.Name}, polled: read}
	v, err := j.vault()
	if err != nil {
		read.failed = true
		return unchanged, true
	}
	grant, err := j.readSecret(ctx, v)
	if err != nil {
		read.failed = true
		j.log.Warn("a secret could not be read again", "name", j.effect.Name, "error", err)
		return unchanged, ctx.Err() == nil
	}
	if text := oddity(grant.Suspect, grant.Warnings); j.oddities.changed(j.effect.Name, text) && text != "" {
		j.log.Warn("a secret that was read again comes with warnings", "name", j.effect.Name, "says", text)
	}
	read.reread = rereadIn(j.definition, grant).Duration()
	return request{
		command: leasecore.PollDone{Name: j.effect.Name, Lease: j.lease.No, Fingerprint: j.keys.Load().fingerprintLike(grant.Lasting(), j.lease.Fingerprint)},
		polled:  read,
	}, ctx.Err() == nil
}

// readSecret reads under a guard like any other credential where there are
// guards: the path's policy may be theirs alone.
func (j *job) readSecret(ctx context.Context, v *vaultConn) (vault.Grant, error) {
	var guard *vault.Guard
	if v.guarded() {
		g, err := v.client.CreateGuard(ctx, vault.GuardOptions{TTL: v.cfg.GuardTTL.Duration()})
		if err != nil {
			return vault.Grant{}, err
		}
		guard = &g
		defer func() {
			if _, err := v.client.RevokeGuard(ctx, g.Accessor); err != nil {
				j.log.Debug("a guard of nothing was left to expire", "error", err)
			}
		}()
	}
	return v.client.Read(ctx, j.lease.Path, guard, readOptions(j.definition, j.lease.Path))
}

// keysOf gives the names of the values in a JSON object, sorted.
func keysOf(data json.RawMessage) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}
