package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/internal/failpoint"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/tracing"
	"github.com/leasesvc/leasesvc/vault"
)

// job is one effect with a copy of what it is about.
type job struct {
	*term
	effect      leasecore.Effect
	epoch       uint64
	lease       leasecore.Lease
	definition  *events.Definition
	incarnation leasecore.Incarnation
	deadline    time.Time // of the hand-over in flight
	reverted    bool
	replaces    uint64 // the active lease when it began
	replaced    string // its guard
	printed     string // its fingerprint
	guardShared bool   // another lease of the name hangs on the same guard
	span        *effectSpan
}

const (
	// guardMargin is how much longer than its lease a guard lives at least.
	guardMargin = 60 * time.Second
	// guardAhead bounds for how long a guard is extended ahead.
	guardAhead = 24 * time.Hour
)

// The kinds of failure that are not Vault's.
const (
	kindStore   = "store"   // the values could not be sealed away
	kindUnknown = "unknown" // there is no such Vault connection here
	// kindNotLoggedIn: we have no token yet.
	kindNotLoggedIn = "not-logged-in"
)

func (j *job) vault() (*vaultConn, error) {
	if v := j.svc.vaults[j.lease.Vault]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("this instance has no Vault connection %q; add it to the service file", j.lease.Vault)
}

// failed describes an error for the log.
func failed(err error) *leasecore.Failed {
	f := &leasecore.Failed{Failure: events.Failure{Kind: kindUnknown, Message: err.Error()}}
	if kind := vault.KindOf(err); kind != vault.KindNone {
		f.Kind, f.Refused, f.Gone = kind.String(), kind.Refusal(), kind == vault.KindNotFound
	}
	if errors.Is(err, vault.ErrNotLoggedIn) { // nobody was asked, so nobody has refused
		f.Kind, f.Refused, f.Gone = kindNotLoggedIn, false, false
	}
	var e *vault.Error
	if errors.As(err, &e) {
		f.RetryAfter, f.NotSent = e.RetryAfter, e.NotSent
	}
	return f
}

// mayStillDoIt tells whether Vault may be at it still: no answer came, or that of a
// gateway.
func mayStillDoIt(err error) bool {
	var e *vault.Error
	return errors.As(err, &e) && e.OutcomeUnknown && (e.Status == 0 || e.Status >= 500)
}

// acquire makes a guard, reads the credential under it exactly once (P5), and
// seals the values away. Whatever may be left in Vault is told with a failure.
func (j *job) acquire(ctx context.Context) (request, bool) {
	done := leasecore.AcquireDone{Name: j.effect.Name, Lease: j.lease.No}
	if j.lease.Reason == events.ReasonAnew {
		if grant, ok := j.anew.take(j.effect.Name); ok {
			return j.acquireAnew(ctx, done, grant)
		}
	}
	v, err := j.vault()
	if err != nil {
		done.Err = failed(err)
		return request{command: done}, true
	}
	var guard *vault.Guard
	if v.guarded() {
		making, step := tracing.Start(ctx, tracerName, "guard")
		g, err := v.client.CreateGuard(making, vault.GuardOptions{
			TTL: v.cfg.GuardTTL.Duration(), Meta: map[string]string{"leasesvc": j.name + "/" + j.effect.Name},
		})
		step.End(err)
		if err != nil {
			if errors.Is(err, vault.ErrGuardForbidden) || errors.Is(err, vault.ErrGuardUnfit) {
				v.doubtGuards() // the next attempt may be without, or after a login
			}
			done.Err = failed(err)
			return request{command: done}, ctx.Err() == nil
		}
		guard, done.Guard = &g, g.Accessor
	}
	failpoint.Hit(failpoint.GuardMade)
	token := v.client.Token()
	reading, step := tracing.Start(ctx, tracerName, "read")
	grant, err := v.client.Read(reading, j.lease.Path, guard, readOptions(j.definition, j.lease.Path))
	step.End(err)
	failpoint.Hit(failpoint.CredentialRead)
	if err != nil {
		done.Err = failed(err)
		if mayStillDoIt(err) {
			// Vault may still be at it. A guard that is revoked meanwhile would leave
			// the lease that comes then to nobody: this one is left to end by itself.
			done.Guard = ""
		}
		return request{command: done}, ctx.Err() == nil
	}
	sealing, step := tracing.Start(ctx, tracerName, "seal")
	done.Grant, err = j.seal(sealing, grant, guard)
	step.End(err)
	if err != nil {
		done.Err, done.LeaseID = failed(err), grant.LeaseID
		done.Err.Kind = kindStore
	}
	if ctx.Err() != nil {
		j.abandon(v, grant, guard)
		return request{}, false
	}
	if guard == nil && grant.LeaseID != "" && err == nil {
		v.acquiredUnguarded(grant, token, done.Grant)
	}
	if guard != nil && grant.LeaseID == "" && err == nil {
		// Nothing hangs on this guard: a secret without lease. If it can't be
		// given back now it ends by itself within its first TTL.
		done.Guard = ""
		if _, err := v.client.RevokeGuard(ctx, guard.Accessor); err != nil {
			j.log.Debug("a guard of nothing was left to expire", "error", err)
		}
	}
	return request{command: done, late: func() { j.abandon(v, grant, guard) }}, true
}

// readOptions says how a definition's path is read: a KV mount of version 2 and a
// static role are told by Vault's own paths.
func readOptions(def *events.Definition, path string) vault.ReadOptions {
	if def == nil {
		return vault.ReadOptions{}
	}
	opts := vault.ReadOptions{
		KVv2:       def.Kind == events.KindKV && strings.Contains(path, "/data/"),
		PKI:        def.Kind == events.KindPKI,
		StaticRole: strings.Contains(path, "/static-creds/"),
		Method:     def.Method,
	}
	if opts.KVv2 {
		opts.Version = int64(def.Version)
	}
	if len(def.Params) > 0 {
		opts.Params = make(map[string]any, len(def.Params))
		for k, v := range def.Params {
			opts.Params[k] = v
		}
	}
	return opts
}

// noticeManual is how often a static role is read at least, so that a rotation
// by hand, of which its clock says nothing, is noticed (C18). A longer poll of
// the definition counts instead.
const noticeManual = time.Minute

// rereadIn gives in how long a static role is to be read again: when its own
// clock will have given it new values (L39), or earlier; 0: it has no clock.
func rereadIn(def *events.Definition, g vault.Grant) events.Seconds {
	if g.LastRotation.IsZero() {
		return events.Seconds{}
	}
	least, most := events.FromDuration(time.Millisecond), events.FromDuration(noticeManual)
	if def != nil && def.Poll.Cmp(most) > 0 {
		most = def.Poll
	}
	switch own := exact(g.RotatesIn); {
	case own.Cmp(least) < 0: // it tells whole seconds: 0 is a clock that is about to turn
		return least
	case own.Cmp(most) < 0:
		return own
	default:
		return most
	}
}

// maxValues is what fits a message of 1 MiB, sealed and with what goes with it.
const maxValues = 1<<20 - 16<<10

// seal stores the values and gives what the log may know of them.
func (j *job) seal(ctx context.Context, g vault.Grant, guard *vault.Guard) (*events.Acquired, error) {
	a := &events.Acquired{
		LeaseID: g.LeaseID, TTL: exact(g.TTL), Renewable: g.Renewable, SentAt: j.svc.wall(g.SentAt),
		Keys: g.Keys, Public: public(j.definition, g.Data),
		Suspect: g.Suspect, Warnings: g.Warnings,
	}
	a.Fingerprint, a.RereadIn = j.keys.Load().fingerprintLike(g.Lasting(), j.printed), rereadIn(j.definition, g)
	if guard != nil && g.LeaseID != "" {
		a.Guard, a.GuardTTL = guard.Accessor, exact(guard.TTL)
		a.Warnings = withGuards(a.Warnings, guard.Warnings)
	}
	if len(g.Data) > maxValues {
		return nil, fmt.Errorf("the values have %d bytes, and %d can be kept and handed out: keep what is that big elsewhere, and the key to it here", len(g.Data), maxValues)
	}
	sealed, err := j.svc.keys.SealWithOrigin(j.name, j.effect.Name, j.lease.No, g.Data, &handover.Origin{Vault: j.lease.Vault, LeaseID: g.LeaseID, Guard: a.Guard})
	if err != nil {
		return nil, err
	}
	var storing errgroup.Group // both, whatever becomes of the other: a revoke takes both back
	storing.Go(func() error { return j.svc.blobs.Put(ctx, j.name, j.effect.Name, j.lease.No, sealed) })
	storing.Go(func() error { return j.svc.blobs.Own(ctx, j.lease.Vault, g.LeaseID, j.name) }) // D8
	if err := storing.Wait(); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BlobWritten)
	j.inHand.put(j.effect.Name, j.lease.No, wire.Values(g.Data))
	return a, nil
}

// abandon is for a grant that arrived after the term's end, of which no event
// will tell: its guard ends it; unguarded, it is given back at once (D5).
func (j *job) abandon(v *vaultConn, g vault.Grant, guard *vault.Guard) {
	if guard != nil || g.LeaseID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.cfg.Timeout.Duration())
	defer cancel()
	if _, err := v.client.RevokeLease(ctx, g.LeaseID); err != nil {
		j.log.Error("a credential arrived too late and could not be given back", "name", j.effect.Name, "error", err)
	}
}

func exact(d vault.Duration) events.Seconds { return events.MustSeconds(d.String()) }

// wall puts a time that was read from the machine's clock on the holder's.
func (s *Service) wall(t time.Time) time.Time {
	return s.clock.Now().Add(-time.Since(t))
}

// public gives the values that may stand in an event.
func public(def *events.Definition, data json.RawMessage) map[string]string {
	if def == nil || len(def.Kind.PublicKeys()) == 0 {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	out := map[string]string{}
	for _, k := range def.Kind.PublicKeys() {
		var s string
		if json.Unmarshal(all[k], &s) == nil && s != "" {
			out[k] = s
		}
	}
	return out
}

// guardLife is how long a lease's guard is asked to live from now: as long as the
// lease, and if that can be renewed once more as long, so that it is extended with
// every third renewal where that comes at half of the life.
func (j *job) guardLife() time.Duration {
	life := j.lease.TTL + guardMargin
	if j.lease.Renewable {
		life += min(j.lease.TTL, guardAhead)
	}
	return life
}

// guardOutlives tells whether the guard, as it is, outlives a lease that was renewed.
func (j *job) guardOutlives(renewed *events.Renewed) bool {
	ends := renewed.SentAt.Add(renewed.TTL.Duration() + guardMargin)
	return j.lease.GuardExtended && !j.lease.GuardAt.Add(j.lease.GuardTTL).Before(ends)
}

func (j *job) extend(ctx context.Context) (request, bool) {
	done := leasecore.ExtendDone{Name: j.effect.Name, Lease: j.lease.No, SentAt: j.svc.clock.Now()}
	v, err := j.vault()
	if err == nil {
		var extension vault.Extension
		extension, err = v.client.ExtendGuard(ctx, j.lease.Guard, j.guardLife())
		failpoint.Hit(failpoint.Extended)
		done.Granted, done.Warnings = events.FromDuration(extension.TTL), extension.Warnings
	}
	if err != nil {
		done.Err = failed(err)
	}
	return request{command: done}, ctx.Err() == nil
}

// renew renews the lease, and its guard if it would end before it: the lease lives
// as long as both.
func (j *job) renew(ctx context.Context) (request, bool) {
	done := leasecore.RenewDone{Name: j.effect.Name, Lease: j.lease.No}
	v, err := j.vault()
	if err == nil {
		err = j.renewBoth(ctx, v, &done)
	}
	if err != nil {
		done.Err = failed(err)
	}
	return request{command: done}, ctx.Err() == nil
}

func (j *job) renewBoth(ctx context.Context, v *vaultConn, done *leasecore.RenewDone) error {
	asked := j.lease.TTL
	if j.lease.Guard == "" {
		asked = v.bound.asksFor(j.lease.LeaseID, asked)
	}
	r, err := v.client.RenewLease(ctx, j.lease.LeaseID, asked)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Renewing)
	anew := j.noteAnew(r)
	out := &events.Renewed{TTL: exact(r.TTL), SentAt: j.svc.wall(r.SentAt), Renewable: r.Renewable, Suspect: r.Suspect, Warnings: r.Warnings}
	switch {
	case j.lease.Guard == "":
		end, _ := j.lease.Expires()
		done.BoundByToken = v.renewedUnguarded(j.lease.LeaseID, end.Sub(j.svc.clock.Now()), r, out)
	case !j.guardOutlives(out):
		extension, err := v.client.ExtendGuard(ctx, j.lease.Guard, j.guardLife())
		if err != nil {
			return err
		}
		out.GuardTTL = events.FromDuration(extension.TTL)
		out.Warnings = withGuards(out.Warnings, extension.Warnings)
	}
	done.Renewed, done.Anew = out, anew
	return nil
}

// revoke revokes the lease, then its guard, then purges the values; all of it
// may be repeated (P7). Without a lease id there is no call (L27).
func (j *job) revoke(ctx context.Context) (request, bool) {
	done := leasecore.RevokeDone{Name: j.effect.Name, Lease: j.lease.No}
	gone, err := j.revokeAll(ctx)
	done.Gone = gone
	if err != nil {
		done.Err = failed(err)
	}
	return request{command: done}, ctx.Err() == nil
}

func (j *job) revokeAll(ctx context.Context) (gone bool, err error) {
	gone = true
	if j.lease.LeaseID != "" || j.lease.Guard != "" {
		v, err := j.vault()
		if err != nil {
			return false, err
		}
		if j.lease.LeaseID != "" {
			if gone, err = v.client.RevokeLease(ctx, j.lease.LeaseID, v.revokeOptions()...); err != nil {
				return false, err
			}
			v.bound.forget(j.lease.LeaseID)
		}
		if j.lease.Guard != "" && !j.guardShared {
			guardGone, err := v.client.RevokeGuard(ctx, j.lease.Guard)
			if err != nil {
				return false, err
			}
			gone = gone && guardGone
		}
	}
	failpoint.Hit(failpoint.Revoked)
	if err := j.svc.blobs.Purge(ctx, j.name, j.effect.Name, j.lease.No); err != nil {
		return false, fmt.Errorf("purging the sealed values: %w", err)
	}
	if err := j.svc.blobs.Disown(ctx, j.lease.Vault, j.lease.LeaseID, j.name); err != nil {
		return false, err
	}
	return gone, nil
}
