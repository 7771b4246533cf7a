package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/tracing"
)

// maxWaiting bounds how many repetitions of a message are answered when its
// task ends; the holder asks again anyway.
const maxWaiting = 8

// task is something the holder asked for and what was said to it.
type task struct {
	n        uint64
	kind     wire.Kind
	cred     Credential
	values   wire.Values // to redact a reason
	deadline time.Time   // of a prepare
	// said is the answer given, repeated for the same n; empty: none yet.
	said    wire.Verdict
	reason  string
	waiting []asked
	// traceparent is the header that the message came with, span our own below
	// it; both only where the client traces.
	traceparent string
	span        trace.Span
}

// asked is one message that waits for its answer.
type asked struct {
	subject string
	kind    wire.Kind
	epoch   uint64
}

func taskOfMessage(m wire.Message, at time.Time) (task, error) {
	cred, err := newCredential(m.Scope, m.Name, m.Values)
	if err != nil {
		return task{}, err
	}
	cred.Lease, cred.Epoch, cred.N, cred.Public = m.Lease, m.Epoch, m.N, m.Public
	cred.ExpiresAt = expiry(at, m.ExpiresIn)
	return task{n: m.N, kind: m.Kind, cred: cred, values: m.Values, deadline: at.Add(m.TimeLeft.Duration())}, nil
}

func taskOfAnswer(a wire.Answer, at time.Time) (task, error) {
	cred, err := newCredential(a.Scope, a.Name, a.Values)
	if err != nil {
		return task{}, err
	}
	cred.Lease, cred.Epoch, cred.N, cred.Public = a.Lease, a.Epoch, a.N, a.Public
	cred.ExpiresAt = expiry(at, a.ExpiresIn)
	kind := wire.KindFollow
	if a.Lease == 0 {
		kind = wire.KindRevert
	}
	return task{n: a.N, kind: kind, cred: cred, values: a.Values}, nil
}

// repeats tells whether t, with the n that was taken last, asks for the same
// thing. An answer does not tell follow from revert, so they are one here.
func (t *task) repeats(taken *task) bool {
	return t.cred.Lease == taken.cred.Lease && t.prepares() == taken.prepares()
}

// amends tells whether t says what the committed lease of the n that was taken
// last is now: it can have expired since, to none.
func (t *task) amends(taken *task) bool {
	return !t.prepares() && !taken.prepares() && t.cred.Lease != taken.cred.Lease
}

func (t *task) prepares() bool { return t.kind == wire.KindPrepare }

// receive looks at one message from the subject: what is not sealed by the
// service for this incarnation, and anything before our registration was
// answered (P10), is ignored.
func (s *serving) receive(ctx context.Context, raw *nats.Msg) {
	at := time.Now()
	ignore := func(why any) { s.log.Warn("message ignored", "incarnation", s.inc.id, "why", why) }
	if !s.answered {
		ignore("our registration is not answered yet")
		return
	}
	m, err := open[wire.Message](s.inc.open, s.c.trust.known(), raw.Data)
	switch {
	case err != nil:
		ignore(err)
		return
	case m.Scope != s.c.opts.Scope || m.Name != s.name || m.Incarnation != s.inc.id:
		ignore("it is for somebody else")
		return
	}
	ask := asked{subject: raw.Reply, kind: m.Kind, epoch: m.Epoch}
	if m.Epoch < s.epoch || m.N < s.taken.n {
		s.log.Info("stale message", "message", m, "epoch_seen", s.epoch, "n_taken", s.taken.n)
		s.reply(ask, m.N, wire.Stale, "", "")
		return
	}
	s.epoch = m.Epoch
	t, err := taskOfMessage(m, at)
	if err != nil {
		ignore(err)
		return
	}
	t.waiting = []asked{ask}
	if s.c.tracer != nil {
		t.traceparent = raw.Header.Get(wire.TraceHeader)
	}
	switch {
	case m.N > s.taken.n, t.amends(&s.taken):
		s.take(ctx, t)
	case t.repeats(&s.taken):
		s.repeat(ctx, t)
	default:
		ignore("it asks for another thing under the n that was taken last")
	}
}

// repeat handles what has the n that was taken last: the same answer again, or
// the same wait, or, after a follow that did not work, another try.
func (s *serving) repeat(ctx context.Context, t task) {
	if s.taken.said != "" {
		for _, a := range t.waiting {
			s.reply(a, t.n, s.taken.said, s.taken.reason, "")
		}
		return
	}
	open := s.running
	if s.next != nil {
		open = s.next
	}
	if open != nil && open.n == t.n {
		open.waiting = append(open.waiting, t.waiting...)
		if extra := len(open.waiting) - maxWaiting; extra > 0 {
			open.waiting = open.waiting[extra:]
		}
		return
	}
	if t.n > 0 {
		s.take(ctx, t)
	}
}

// take starts a task whose n is above all that was taken. What still runs is
// told to stop, and is waited for: calls of the handler never overlap.
func (s *serving) take(ctx context.Context, t task) {
	s.taken = task{n: t.n, kind: t.kind, cred: t.cred}
	s.verdictBy = time.Time{}
	if s.running == nil {
		s.start(ctx, t)
		return
	}
	s.stop()
	if s.next != nil {
		s.replyAll(s.next, wire.Stale, "")
	}
	s.next = &t
}

type outcome struct{ err error }

func (s *serving) start(ctx context.Context, t task) {
	s.log.Info("asked to "+string(t.kind), "n", t.n, "credential", t.cred)
	call, stop := context.WithCancel(ctx)
	if t.kind == wire.KindPrepare {
		call, stop = context.WithDeadline(ctx, t.deadline)
	}
	call = s.startSpan(call, &t)
	s.running, s.stop = &t, stop
	go func() { s.ended <- outcome{s.call(call, t.kind, t.cred)} }()
}

func (s *serving) call(ctx context.Context, kind wire.Kind, cred Credential) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the application's handler panicked: %v", p)
		}
	}()
	switch kind {
	case wire.KindPrepare:
		if err := s.h.Prepare(ctx, cred); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("not within the time that was left")
		}
		return nil
	case wire.KindFollow:
		return s.h.Commit(ctx, cred)
	default:
		return s.h.Revert(ctx, cred)
	}
}

// finish takes the outcome of a call: says what it means, and starts what
// waits, unless we are ending.
func (s *serving) finish(ctx context.Context, o outcome, ending bool) {
	t := s.running
	s.running = nil
	s.stop()
	if t.n != s.taken.n { // something newer was taken meanwhile
		s.replyAll(t, wire.Stale, "")
		t.endSpan(tracing.Superseded)
	} else {
		s.conclude(t, o.err)
	}
	if s.next != nil && !ending {
		t := *s.next
		s.next = nil
		s.start(ctx, t)
	}
	if s.answered && s.running == nil {
		s.settle()
	}
}

// conclude turns the handler's result into the answer (L14): nil and nothing
// else is a yes.
func (s *serving) conclude(t *task, err error) {
	verdict, reason := wire.No, wire.Reason(err, t.values, t.cred.Public)
	if err == nil {
		verdict, reason = wire.Confirmed, ""
		if t.kind == wire.KindPrepare {
			verdict = wire.Yes
		}
	}
	s.log.Info("answered", "kind", string(t.kind), "n", t.n, "verdict", string(verdict), "reason", reason)
	s.replyAll(t, verdict, reason)
	t.endSpan(outcomes[verdict])
	switch {
	case t.kind == wire.KindPrepare:
		s.taken.said, s.taken.reason = verdict, reason
		s.verdictBy = t.deadline.Add(s.c.opts.VerdictGrace)
	case err == nil:
		s.taken.said = verdict
	}
	// A follow that did not work is not remembered: the next repetition, or
	// the answer to our next registration, tries again.
}

func (s *serving) replyAll(t *task, v wire.Verdict, reason string) {
	traceparent := t.spanHeader()
	for _, a := range t.waiting {
		s.reply(a, t.n, v, reason, traceparent)
	}
	t.waiting = nil
}

func (s *serving) reply(a asked, n uint64, v wire.Verdict, reason, traceparent string) {
	if a.subject == "" {
		return
	}
	r := wire.Reply{Scope: s.c.opts.Scope, Name: s.name, Incarnation: s.inc.id,
		Epoch: a.epoch, N: n, Kind: a.kind, Verdict: v, Reason: reason, LastN: s.taken.n}
	data, err := wire.Encode(r)
	if err == nil {
		m := nats.NewMsg(a.subject)
		m.Data = data
		if traceparent != "" {
			m.Header.Set(wire.TraceHeader, traceparent)
		}
		if err = s.c.sign(m, r.Type(), s.name); err == nil {
			err = s.c.nc.PublishMsg(m)
		}
	}
	if err != nil {
		s.log.Warn("answer not sent, it will be asked for again", "n", n, "why", err)
	}
}
