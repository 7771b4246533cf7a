package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
)

// adoptTries bounds how often an adoption is tried again because another lease
// took the number that its values were sealed under.
const adoptTries = 10

// adopt takes a lease over that was obtained elsewhere (L51): its values are
// sealed under the next number, then it is tracked, and then handed over like
// any other, with everybody asked.
func (e *endpoints) adopt(ctx context.Context, r micro.Request) {
	name := nameOf(r)
	a, err := e.openAdoption(r)
	if err != nil {
		e.refuse(r, fmt.Errorf("%s: %w", name, err))
		return
	}
	for above := range uint64(adoptTries) {
		var seq uint64
		if seq, err = e.adoptOnce(ctx, name, a, above); !errors.Is(err, leasecore.ErrNumber) && !errors.Is(err, handover.ErrBlobExists) {
			if err == nil {
				e.respond(r, api.Done{Seq: seq, Says: "the lease is ours now and is handed over"})
				return
			}
			break
		}
	}
	e.refuse(r, err)
}

func (e *endpoints) openAdoption(r micro.Request) (api.Adoption, error) {
	var a api.Adoption
	plain, err := e.term.svc.keys.Open(r.Headers().Get(api.HeaderXKey), r.Data())
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(plain, &a); err != nil {
		return a, errors.New("the adoption can't be read") // its text may hold values
	}
	switch {
	case a.Until.Before(e.term.svc.clock.Now()):
		return a, errors.New("the adoption is past its time; send it anew")
	case keysOf(a.Values) == nil:
		return a, errors.New("the adoption has no values")
	}
	return a, nil
}

// adoptOnce tries the next number, or one that is so far above it: the next one
// may be burnt by values that were purged under it.
func (e *endpoints) adoptOnce(ctx context.Context, name string, a api.Adoption, above uint64) (uint64, error) {
	t := e.term
	type look struct {
		next uint64
		busy bool
	}
	seen, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
		n := s.Name(name)
		return look{next: s.LastLease + 1 + above, busy: n != nil && (n.Candidate != 0 || n.Handover != nil)}
	})
	if err != nil {
		return 0, err
	}
	no, v := seen.(look).next, t.views.get(name)
	switch {
	case v == nil || v.definition == nil:
		return 0, fmt.Errorf("%s: %w", name, leasecore.ErrUnknownName)
	case seen.(look).busy:
		return 0, fmt.Errorf("%s: %w", name, leasecore.ErrBusy)
	}
	acquired := events.Acquired{
		LeaseID: a.LeaseID, TTL: a.TTL, Renewable: a.Renewable, SentAt: t.svc.clock.Now(), Keys: keysOf(a.Values),
		Public: public(v.definition, a.Values), Fingerprint: t.keys.Load().fingerprint(a.Values),
	}
	if f := leasecore.Stage(v.definition, &acquired); f != nil {
		return 0, fmt.Errorf("%s: %w: %s", name, leasecore.ErrUnfit, f.Message)
	}
	if err := t.svc.blobs.Own(ctx, v.definition.Vault, a.LeaseID, t.name); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err) // D8
	}
	sealed, err := t.svc.keys.SealWithOrigin(t.name, name, no, a.Values, &handover.Origin{Vault: v.definition.Vault, LeaseID: a.LeaseID})
	if err != nil {
		return 0, err
	}
	if err := t.svc.blobs.Put(ctx, t.name, name, no, sealed); err != nil {
		return 0, err
	}
	seq, err := e.decide(ctx, leasecore.Adopt{Name: name, Lease: no, Adopted: events.Adopted{Acquired: acquired, Vault: v.definition.Vault}}, operator(api.OpAdopt))
	if refusedForGood(err) { // nothing is under this number: leave nothing there
		if perr := t.svc.blobs.Purge(ctx, t.name, name, no); perr != nil {
			t.log.Warn("the values of a refused adoption were not purged; they will be swept", "name", name, "error", perr)
		}
	}
	return seq, err
}

// refusedForGood tells the errors after which a command certainly had no effect.
func refusedForGood(err error) bool {
	for _, refusal := range []error{leasecore.ErrBusy, leasecore.ErrUnknownName, leasecore.ErrNumber, leasecore.ErrUnfit, leasecore.ErrLeaving} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
