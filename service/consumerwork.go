package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
)

// verify logs in with the candidate (D2).
func (j *job) verify(ctx context.Context) (request, bool) {
	spec := j.definition.Verifier
	done := leasecore.VerifyDone{Name: j.effect.Name, Lease: j.lease.No, Verifier: spec.Kind}
	began := time.Now()
	values, err := j.valuesOf(ctx, j.effect.Name, j.lease.No)
	if err == nil {
		var decoded map[string]any
		if err = json.Unmarshal(values, &decoded); err == nil {
			err = j.svc.login(ctx, *spec, decoded)
		}
	}
	done.Took = events.FromDuration(time.Since(began).Round(time.Microsecond))
	if err != nil {
		done.Err = failed(err)
		var refused *verify.Error
		if errors.As(err, &refused) {
			done.Err.Kind = string(refused.Failure)
		}
	}
	return request{command: done}, ctx.Err() == nil
}

// login tries a candidate. What may be run is this instance's to say: the
// definition may have been applied by another.
func (s *Service) login(ctx context.Context, v events.Verifier, values map[string]any) error {
	if v.Kind == verify.KindCommand && (len(v.Command) == 0 || !slices.Contains(s.cfg.VerifierCommands, v.Command[0])) {
		return &verify.Error{Kind: v.Kind, Failure: verify.Unusable, Reason: "this instance's service file does not name the program in verifier_commands"}
	}
	return verify.Verify(ctx, verifierSpec(v), values)
}

// values opens the sealed values of a lease.
func (s *Service) values(ctx context.Context, scope, name string, lease uint64) (wire.Values, error) {
	sealed, err := s.blobs.Get(ctx, scope, name, lease)
	if err != nil {
		return nil, err
	}
	opened, err := s.keys.OpenAtRest(scope, name, lease, sealed)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// to gives where messages to the job's incarnation go.
func (j *job) to() handover.To {
	in := &j.incarnation
	return handover.To{Scope: j.name, Name: j.effect.Name, Incarnation: in.ID, Subject: in.Subject, XKey: in.XKey, Key: in.Key, Pinned: j.pins.get(in.ID)}
}

// expiresIn gives what is left of the job's lease; 0: it does not expire.
func (j *job) expiresIn() time.Duration {
	end, ends := j.lease.Expires()
	if !ends {
		return 0
	}
	return max(end.Sub(j.svc.clock.Now()), time.Nanosecond)
}

// again has the name looked at once more, since the job came to nothing that
// counts; after a rest, so that it is never a loop.
func (j *job) again(ctx context.Context) (request, bool) {
	if pause(ctx, time.Second) != nil {
		return request{}, false
	}
	return request{command: leasecore.Tick{Name: j.effect.Name}}, true
}

// prepare asks an incarnation until it answers or the hand-over's time is up,
// which the core notices by itself.
func (j *job) prepare(ctx context.Context) (request, bool) {
	if err := j.documents.stage(ctx, j); unfit(err) {
		return request{command: leasecore.Answered{
			Name: j.effect.Name, N: j.effect.N, Incarnation: j.incarnation.ID, Reason: clipText("the settings documents: "+err.Error(), wire.MaxReason/2),
		}}, true
	} else if err != nil {
		j.log.Warn("the candidate is not in the settings documents", "name", j.effect.Name, "error", err)
		return j.again(ctx)
	}
	left := j.deadline.Sub(j.svc.clock.Now())
	values, err := j.valuesOf(ctx, j.effect.Name, j.lease.No)
	if err != nil {
		j.log.Error("the candidate's values can't be read", "name", j.effect.Name, "lease", j.lease.No, "error", err)
		return j.again(ctx)
	}
	asking, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	answer, err := j.svc.courier.Prepare(asking, j.to(), handover.Prepare{
		Epoch: j.epoch, N: j.effect.N, Lease: j.lease.No, TimeLeft: left, ExpiresIn: j.expiresIn(),
		Public: publicOf(j.definition, j.lease.Public), Values: values, Traceparent: j.span.header(),
	})
	if err != nil {
		j.span.unanswered(asking, err)
		return j.again(ctx)
	}
	j.span.answered(answer)
	reason := answer.Reason
	if reason != "" { // who wrote it may not have redacted it
		reason = wire.Reason(errors.New(reason), values, publicOf(j.definition, j.lease.Public))
	}
	return request{command: leasecore.Answered{
		Name: j.effect.Name, N: j.effect.N, Incarnation: j.incarnation.ID, Yes: answer.Yes(), Reason: reason,
	}}, true
}

// tell says what is in force until the incarnation confirms it, without end
// (P14).
func (j *job) tell(ctx context.Context) (request, bool) {
	f := handover.Follow{
		Revert: j.reverted || j.effect.Lease == 0, Epoch: j.epoch, N: j.effect.N, Lease: j.effect.Lease, TimeLeft: j.tellBudget(),
		Traceparent: j.span.header(),
	}
	if j.effect.Lease != 0 {
		values, err := j.valuesOf(ctx, j.effect.Name, j.effect.Lease)
		if err != nil {
			j.log.Error("the values in force can't be read", "name", j.effect.Name, "lease", j.effect.Lease, "error", err)
			return j.again(ctx)
		}
		f.Values, f.Public, f.ExpiresIn = values, publicOf(j.definition, j.lease.Public), j.expiresIn()
	}
	answer, err := j.svc.courier.Follow(ctx, j.to(), f)
	if err != nil {
		j.span.unanswered(ctx, err)
	} else {
		j.span.answered(answer)
	}
	if err != nil || !answer.Confirmed() {
		return j.again(ctx)
	}
	return request{
		command: leasecore.Tick{Name: j.effect.Name},
		confirm: &confirmation{name: j.effect.Name, incarnation: j.incarnation.ID, n: j.effect.N},
	}, true
}

// tellBudget is the time an incarnation is told that it has for moving.
func (j *job) tellBudget() time.Duration {
	if j.definition == nil {
		return events.DefaultDefinition().RollbackTimeout.Duration()
	}
	if j.reverted {
		return j.definition.RollbackTimeout.Duration()
	}
	return j.definition.PrepareTimeout.Duration()
}

// nobodyThere has an incarnation leave that has had no responder for its
// definition's leave_after. It is called by the courier, which counts only
// while our own NATS works.
func (s *Service) nobodyThere(to handover.To, lasted time.Duration) {
	sc := s.scopes[to.Scope]
	if sc == nil {
		return
	}
	sc.mu.Lock()
	t := sc.term
	sc.mu.Unlock()
	if t == nil {
		return
	}
	v := t.views.get(to.Name)
	if v == nil || v.definition == nil || lasted < v.definition.LeaveAfter.Duration() {
		return
	}
	// A full queue is no loss: it is told again with the next message.
	_ = t.submit(request{command: leasecore.Leave{Name: to.Name, Incarnation: to.Incarnation, Reason: events.LeftSilent}})
}
