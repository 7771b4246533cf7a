package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// inboxSize bounds what waits to be looked at; what is dropped is sent again.
const inboxSize = 64

// maxSwaps is how often a refusal is answered at once by another registration.
const maxSwaps = 3

// Serve takes part in the hand-overs of a name until ctx ends or the client is
// closed: it registers, moves the handler to what is committed, follows each
// hand-over, and deregisters at the end. The service may be away, at the start
// too: it is asked again, at a pace, and the application stays on what it has.
//
// It returns nil when it ended after it had been registered, the reason why it
// never was otherwise, and [ErrSuperseded] at once when another process took
// its instance's place. One Serve per name and client.
func (c *Client) Serve(ctx context.Context, name string, h Handler) error {
	if err := wire.CheckToken("name", name); err != nil {
		return err
	}
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if !c.startServing(name) {
		return fmt.Errorf("serving %s/%s: %w", c.opts.Scope, name, ErrServing)
	}
	defer c.stopServing(name)

	s := &serving{
		c: c, name: name, h: h,
		log:        c.log.With("scope", c.opts.Scope, "name", name),
		inbox:      make(chan *nats.Msg, inboxSize),
		registered: make(chan registered, 1),
		ended:      make(chan outcome, 1),
		again:      pace{first: 200 * time.Millisecond, last: 10 * time.Second},
	}
	if s.inc, err = c.newIncarnation(name, "", s.inbox); err != nil {
		return fmt.Errorf("serving %s/%s: %w", c.opts.Scope, name, err)
	}
	err = s.run(ctx)
	s.leave()
	if err != nil {
		return fmt.Errorf("serving %s/%s: %w", c.opts.Scope, name, err)
	}
	return nil
}

func (c *Client) startServing(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.serving[name]; taken {
		return false
	}
	c.serving[name] = ""
	return true
}

func (c *Client) nowServing(name, incarnation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving[name] = incarnation
}

func (c *Client) stopServing(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.serving, name)
}

// serving is one Serve. Its fields belong to the goroutine of run; a
// registration and a call of the handler run beside it, at most one of each.
type serving struct {
	c    *Client
	name string
	h    Handler
	log  *slog.Logger

	inc        *incarnation
	inbox      chan *nats.Msg
	registered chan registered
	ended      chan outcome

	// answered: our registration was, so that messages may be taken (P10).
	answered bool
	replaces string
	swaps    int       // how often replaces changed without an answer
	asking   bool      // a registration is under way
	askAt    time.Time // when the next one is due
	again    pace
	refusal  error // why the last registration failed
	// lost is how often the connection came back after a loss; heard is up to
	// which of them a registration that began later was answered. While they
	// differ, the holder may have taken us for gone.
	lost, heard int

	// taken is the last that was taken (P10): its n is the highest.
	taken task
	epoch uint64 // the highest seen
	// running is the call under way, nil for none; next waits for it to end.
	running *task
	stop    context.CancelFunc
	next    *task
	// verdictBy is when a prepared hand-over should have had its outcome;
	// zero: none is waited for.
	verdictBy time.Time
}

type registered struct {
	inc    *incarnation
	answer wire.Answer
	at     time.Time
	lost   int // see serving.lost, when it was sent
	err    error
}

func (s *serving) run(ctx context.Context) error {
	back := s.c.nc.StatusChanged(nats.CONNECTED)
	defer s.c.nc.RemoveStatusListener(back)
	calls, cancelCalls := context.WithCancel(ctx)
	defer func() { // nothing of ours runs on
		cancelCalls()
		if s.asking {
			<-s.registered
		}
		if s.running != nil {
			s.finish(calls, <-s.ended, true)
		}
	}()
	s.askAt = time.Now()
	for {
		var due <-chan time.Time
		if !s.asking {
			due = time.After(time.Until(s.askAt))
		}
		select {
		case <-ctx.Done():
			if !s.answered {
				return errors.Join(context.Cause(ctx), s.refusal)
			}
			return nil
		case _, ok := <-back:
			if !ok {
				back = nil
				continue
			}
			s.reconnected()
		case <-due:
			s.asking = true
			go func(i *incarnation, replaces string, lost int) {
				at := time.Now()
				answer, err := s.c.register(calls, s.name, i, replaces)
				s.registered <- registered{i, answer, at, lost, err}
			}(s.inc, s.replaces, s.lost)
		case r := <-s.registered:
			s.asking = false
			if err := s.hear(calls, r); err != nil {
				return err
			}
		case m := <-s.inbox:
			s.receive(calls, m)
		case o := <-s.ended:
			s.finish(calls, o, false)
		}
	}
}

// hear takes the outcome of a registration.
func (s *serving) hear(ctx context.Context, r registered) error {
	s.askAt = time.Now().Add(s.again.next())
	if r.err != nil {
		if ctx.Err() != nil {
			return nil
		}
		s.refusal = r.err
		s.log.Warn("not registered", "incarnation", s.inc.id, "why", r.err, "again_at", s.askAt)
		return s.refused(r.err)
	}
	if r.answer.Epoch < s.epoch {
		s.log.Warn("answer of a deposed holder ignored", "epoch", r.answer.Epoch, "highest", s.epoch)
		return nil
	}
	s.epoch = r.answer.Epoch
	s.refusal = nil
	if !s.answered {
		s.log.Info("registered", "incarnation", s.inc.id, "epoch", r.answer.Epoch, "n", r.answer.N, "lease", r.answer.Lease)
	}
	s.answered, s.replaces, s.swaps, s.heard = true, "", 0, r.lost
	s.c.nowServing(s.name, s.inc.id)
	t, err := taskOfAnswer(r.answer, r.at)
	switch {
	case err != nil:
		s.log.Warn("answer ignored", "why", err)
	case t.n > s.taken.n, t.n > 0 && t.n == s.taken.n && t.amends(&s.taken):
		s.take(ctx, t)
	case t.n == s.taken.n && t.repeats(&s.taken):
		s.repeat(ctx, t)
	}
	s.settle()
	return nil
}

// reconnected has us register again at once: we may have been taken for gone
// meanwhile.
func (s *serving) reconnected() {
	s.lost++
	s.askAt = time.Now()
}

// settle decides when to register again: soon while something is open that the
// holder should tell us, else as a sign of life.
func (s *serving) settle() {
	switch {
	case s.lost > s.heard: // when it is due was decided when we were back, or failed since
	case !s.verdictBy.IsZero():
		s.askAt = later(s.verdictBy, time.Now().Add(s.again.next()))
	case s.running == nil && s.taken.n > 0 && s.taken.said == "":
		s.askAt = time.Now().Add(s.again.next())
	default:
		s.again.reset()
		s.askAt = time.Now().Add(s.c.opts.RegisterEvery)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refused looks at a refusal for what can be done about it: replace the
// incarnation that is registered, if that is a predecessor of ours.
func (s *serving) refused(err error) error {
	var r wire.Refusal
	if !errors.As(err, &r) || r.Code != wire.CodeMismatch && r.Code != wire.CodeSuperseded {
		return nil
	}
	if s.answered && r.Registered > s.inc.id {
		return ErrSuperseded
	}
	if r.Registered > s.inc.id {
		// We just started, so what is registered is dead by the promise that
		// Instance is; only its clock was ahead of ours. A fresh id goes above.
		inc, err := s.c.newIncarnation(s.name, r.Registered, s.inbox)
		if err != nil {
			return err
		}
		s.inc.close()
		s.inc = inc
	}
	if r.Registered != s.replaces && r.Registered != s.inc.id {
		s.replaces = r.Registered
		if s.swaps++; s.swaps <= maxSwaps { // refusals are not sealed: who forges them must not make us spin
			s.askAt = time.Now()
		}
	}
	return nil
}

// leave says good-bye: the application's sessions first, then ours.
func (s *serving) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.opts.LeaveTimeout)
	defer cancel()
	defer s.inc.close()
	if l, ok := s.h.(Leaver); ok {
		l.Leave(ctx)
	}
	if st, ok := s.h.(Stayer); ok && st.Stay() {
		return
	}
	if !s.answered {
		// It may be registered all the same (a lost answer), so it leaves too,
		// but is not waited for as long.
		var short context.CancelFunc
		ctx, short = context.WithTimeout(ctx, time.Second)
		defer short()
	}
	if err := s.c.leave(ctx, s.name, s.inc); err != nil {
		s.log.Warn("left without an answer; the service takes us for gone after leave_after", "incarnation", s.inc.id, "why", err)
	}
}
