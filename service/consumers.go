package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The endpoints of the protocol with consumers (docs/protocol.md).

// tell answers with a message of the protocol, or refuses with one.
func (e *endpoints) tell(r micro.Request, body []byte, err error) {
	e.tellAll(r, [][]byte{body}, err)
}

// tellAll answers with a message under each key that it was sealed under.
func (e *endpoints) tellAll(r micro.Request, bodies [][]byte, err error) {
	if err != nil {
		if a, ok := r.(answerable); ok {
			a.counts.refused.Add(1)
		}
		body, err := wire.Encode(refusal(e.term.log, err))
		if err != nil {
			e.term.log.Error("a refusal could not be encoded", "error", err)
			return
		}
		bodies = [][]byte{body}
	}
	for _, body := range bodies {
		if err := r.Respond(body); err != nil {
			e.term.log.Warn("an answer was not sent", "subject", r.Subject(), "error", err)
		}
	}
}

// refusal says an error in the protocol's words.
func refusal(log *slog.Logger, err error) wire.Refusal {
	var refusal wire.Refusal
	var mismatch *leasecore.MismatchError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &mismatch):
		return wire.Refusal{Code: wire.CodeMismatch, Message: err.Error(), Registered: mismatch.Registered}
	case errors.Is(err, leasecore.ErrUnknownName):
		return wire.Refusal{Code: wire.CodeUnknownName, Message: "no definition has this name"}
	case errors.Is(err, leasecore.ErrNotAConsumer):
		return wire.Refusal{Code: wire.CodeForbidden, Message: "the definition does not name this consumer with this key"}
	case errors.Is(err, leasecore.ErrWaiting):
		return wire.Refusal{Code: wire.CodeWaiting, Message: err.Error()}
	case errors.Is(err, ErrBusy):
		return wire.Refusal{Code: wire.CodeBusy, Message: "too much is in flight; ask again"}
	case errors.Is(err, errNotLeading):
		return wire.Refusal{Code: wire.CodeNotLeader, Message: "this instance leads no more; ask again"}
	default:
		log.Error("a consumer's request could not be answered", "error", err)
		return wire.Refusal{Code: wire.CodeUnavailable, Message: "the holder can't answer now; ask again"}
	}
}

// pick leaves the keys that were asked for; a key that is not there is refused.
func pick(values wire.Values, keys []string) (wire.Values, error) {
	if len(keys) == 0 {
		return values, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(values, &all); err != nil {
		return nil, errors.New("the values are no object")
	}
	out := map[string]json.RawMessage{}
	for _, k := range keys {
		v, ok := all[k] // presence decides, not truth (L54)
		if !ok {
			return nil, wire.Refusal{Code: wire.CodeUnknownKey, Message: fmt.Sprintf("the credential has no key %q", k)}
		}
		out[k] = v
	}
	b, err := json.Marshal(out)
	return b, err
}

// allowed tells which key a consumer of a name must sign with. Under
// insecure_consumers anybody may be one.
func (e *endpoints) allowed(name string) handover.Allowed {
	v, insecure := e.term.views.get(name), e.term.svc.cfg.InsecureConsumers
	return func(consumer string) (string, bool) {
		if v == nil || v.definition == nil {
			return "", false
		}
		for _, c := range v.definition.Consumers {
			if c.Name == consumer {
				return c.Key, true
			}
		}
		return "", insecure
	}
}

func (e *endpoints) register(ctx context.Context, r micro.Request) {
	body, err := e.registered(ctx, r)
	e.tellAll(r, body, err)
}

// registered puts an incarnation on the list and answers it from the state at
// the moment when that is known to be in the log (P9).
func (e *endpoints) registered(ctx context.Context, r micro.Request) ([][]byte, error) {
	signed, err := handover.SignedFrom(r.Subject(), r.Headers(), r.Data())
	if err != nil {
		return nil, err
	}
	t := e.term
	if t.over() {
		return nil, errNotLeading
	}
	if v := t.views.get(signed.Name); v == nil || v.definition == nil {
		return nil, leasecore.ErrUnknownName
	}
	reg, err := handover.VerifyRegistration(signed, e.allowed(signed.Name), t.svc.cfg.InsecureConsumers)
	if err != nil {
		return nil, err
	}
	type moment struct {
		answer wire.Answer
		lease  leasecore.Lease
	}
	at, err := e.doRegister(ctx, reg, func(s *leasecore.State) any {
		n := s.Name(reg.Name)
		if n == nil || n.Definition == nil {
			return nil // removed since, in the same batch
		}
		m := moment{answer: wire.Answer{
			Scope: t.name, Name: reg.Name, Incarnation: reg.Incarnation, Nonce: reg.Nonce, Epoch: s.Epoch, N: n.N,
		}}
		if l := n.Committed(t.svc.clock.Now()); l != nil {
			m.lease, m.answer.Lease, m.answer.Public = *l, l.No, publicOf(n.Definition, l.Public)
		}
		return m
	})
	if err != nil {
		return nil, err
	}
	m, there := at.(moment)
	if !there {
		return nil, leasecore.ErrUnknownName
	}
	if m.answer.Lease != 0 {
		if m.answer.Values, err = t.valuesOf(ctx, reg.Name, m.answer.Lease); err != nil {
			return nil, err
		}
		if end, ends := m.lease.Expires(); ends {
			in := wire.SecondsOf(max(end.Sub(t.svc.clock.Now()), time.Nanosecond))
			m.answer.ExpiresIn = &in
		}
	}
	t.pins.note(reg.Incarnation, reg.ServiceKeys)
	return t.svc.keys.SealFor(reg.XKey, reg.ServiceKeys, m.answer)
}

func (e *endpoints) doRegister(ctx context.Context, reg handover.Registration, look func(*leasecore.State) any) (any, error) {
	return e.term.do(ctx, leasecore.Register{
		Name: reg.Name, Insecure: e.term.svc.cfg.InsecureConsumers,
		Registration: events.Registered{
			Consumer: reg.Consumer, Instance: reg.Instance, Incarnation: reg.Incarnation, Replaces: reg.Replaces,
			Key: reg.Proven, XKey: reg.XKey, Subject: reg.Subject,
		},
	}, consumerActor(reg.Consumer, reg.Proven), look)
}

// consumerActor names a consumer as the actor; without a proven key it is only
// claimed.
func consumerActor(name, proven string) events.Actor {
	return events.Actor{Name: "consumer/" + name, Key: proven, Claimed: proven == ""}
}

func (e *endpoints) leave(ctx context.Context, r micro.Request) {
	body, err := e.left(ctx, r)
	e.tell(r, body, err)
}

func (e *endpoints) left(ctx context.Context, r micro.Request) ([]byte, error) {
	signed, err := handover.SignedFrom(r.Subject(), r.Headers(), r.Data())
	if err != nil {
		return nil, err
	}
	l, err := handover.VerifyLeave(signed, e.allowed(signed.Name), e.term.svc.cfg.InsecureConsumers)
	if err != nil {
		return nil, err
	}
	_, err = e.term.do(ctx, leasecore.Leave{Name: l.Name, Incarnation: l.Incarnation, Reason: events.LeftByItself}, consumerActor(l.Consumer, l.Proven), nil)
	if err != nil {
		return nil, err
	}
	e.term.svc.courier.Forget(l.Incarnation)
	return wire.Encode(wire.Left{Incarnation: l.Incarnation})
}

// refused takes a report that a server refused the committed credential (C58).
func (e *endpoints) refused(ctx context.Context, r micro.Request) {
	body, err := e.reported(ctx, r)
	e.tell(r, body, err)
}

func (e *endpoints) reported(ctx context.Context, r micro.Request) ([]byte, error) {
	signed, err := handover.SignedFrom(r.Subject(), r.Headers(), r.Data())
	if err != nil {
		return nil, err
	}
	report, err := handover.VerifyRefused(signed, e.allowed(signed.Name), e.term.svc.cfg.InsecureConsumers)
	if err != nil {
		return nil, err
	}
	log := e.term.log.With("name", report.Name, "consumer", report.Consumer, "lease", report.Lease, "reason", report.Reason)
	_, err = e.term.do(ctx, leasecore.Reported{Name: report.Name, Lease: report.Lease}, consumerActor(report.Consumer, report.Proven), nil)
	switch {
	case errors.Is(err, leasecore.ErrStale): // it was replaced since: what the reporter wants
	case err != nil:
		log.Error("a consumer reports that its credential is refused, and nothing is done", "error", err)
		return nil, err
	default:
		log.Error("a consumer reports that its credential is refused: a successor is on its way")
	}
	return wire.Encode(wire.Left{Incarnation: report.Incarnation})
}
