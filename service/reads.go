package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// reads answers the reads of a scope, get and key, for as long as the process
// lives: as the holder while a term of ours serves, else as a standby, when
// nobody else does (docs/adr/0006). Every instance is sent every read, so that
// none is lost to a subscription that comes or goes. A standby keeps a read back
// until it has asked whether somebody serves the scope, and forgets it when
// somebody does.
type reads struct {
	scope   *scope
	serving atomic.Pointer[endpoints] // our term's, while it serves

	ctx     context.Context
	cancel  context.CancelFunc
	subs    []*nats.Subscription
	slots   chan struct{} // bounds what is being answered as a standby
	running sync.WaitGroup

	mu      sync.Mutex
	held    []read
	looking bool // a goroutine settles what is held

	// Of that goroutine:
	silent bool      // who serves does not answer, as one who was stopped
	asked  time.Time // when it was asked last

	seen  barrier
	views views // what was given as a standby

	given, unable atomic.Int64 // reads answered as a standby, and how often it could not
}

// read is a request on its way to an answer.
type read struct {
	*nats.Msg
	at time.Time // when it came
}

func (m read) op() wire.Operation {
	_, op, _ := strings.Cut(m.Subject, ".")
	op, _, _ = strings.Cut(op, ".")
	return wire.Operation(op)
}

func (m read) name() string { return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] }

const (
	// maxHeld bounds the reads that a standby keeps back; it forgets more.
	maxHeld = 4096
	// lookPace is how often a standby asks whether somebody serves a scope that
	// it is sent reads of; manyLook scopes at once make that pace slower.
	lookPace = 10 * time.Millisecond
	manyLook = 20
	// refuseAfter is when a standby that can't answer says so: not at once, since
	// another one may answer, or we serve in a moment.
	refuseAfter = 400 * time.Millisecond
)

func newReads(sc *scope) *reads {
	return &reads{scope: sc, slots: make(chan struct{}, requestsAtOnce)}
}

// servingSubject is where somebody answers who serves the scope's reads.
func servingSubject(scope string) string { return "leasesvc.serving." + scope }

// start subscribes; ctx ends what runs, stop waits for it.
func (r *reads) start(ctx context.Context) error {
	r.ctx, r.cancel = context.WithCancel(ctx)
	for _, subject := range []string{wire.Subject(wire.OpGet, r.scope.name, "*"), wire.KeySubject(r.scope.name)} {
		sub, err := r.scope.svc.nc.Subscribe(subject, func(m *nats.Msg) { r.take(read{m, time.Now()}) })
		if err != nil {
			return fmt.Errorf("serving %s: %w", subject, err)
		}
		r.subs = append(r.subs, sub)
	}
	return nil
}

// stop ends the subscriptions and waits for what runs.
func (r *reads) stop() {
	if r.cancel == nil {
		return
	}
	for _, sub := range r.subs {
		_ = sub.Unsubscribe() // fails only on a closed connection
	}
	r.cancel()
	r.running.Wait()
}

// take gives a read to the term that serves, or keeps it.
func (r *reads) take(m read) {
	if !r.give(m) {
		r.hold(m)
	}
}

// give has our own term answer; false: none serves.
func (r *reads) give(m read) bool {
	e := r.serving.Load()
	return e != nil && e.take(m)
}

func (r *reads) hold(m read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) >= maxHeld || r.ctx.Err() != nil {
		return
	}
	r.held = append(r.held, m)
	if !r.looking {
		r.looking = true
		r.running.Go(r.look)
	}
}

// look settles what is held until nothing is.
func (r *reads) look() {
	svc := r.scope.svc
	svc.lookers.Add(1)
	defer svc.lookers.Add(-1)
	for {
		r.mu.Lock()
		held := r.held
		r.held = nil
		if len(held) == 0 || r.ctx.Err() != nil {
			r.looking = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.settle(held)
		_ = pause(r.ctx, lookPace*time.Duration(1+svc.lookers.Load()/manyLook)) // the context is looked at above
	}
}

// settle decides about reads that came before it asks who serves.
func (r *reads) settle(held []read) {
	others := r.othersServe()
	for _, m := range held {
		if r.give(m) || others {
			continue
		}
		select {
		case r.slots <- struct{}{}:
		case <-r.ctx.Done():
			return
		}
		r.running.Go(func() {
			defer func() { <-r.slots }()
			r.answer(m)
		})
	}
}

// othersServe asks whether somebody serves the scope's reads. Somebody who is
// there and says nothing has been stopped, or cut off, and is not asked before
// each answer again.
func (r *reads) othersServe() bool {
	beat := r.scope.svc.cfg.Heartbeat.Duration()
	if r.silent && time.Since(r.asked) < beat {
		return false
	}
	ctx, cancel := context.WithTimeout(r.ctx, beat/4)
	defer cancel()
	r.asked = time.Now()
	_, err := r.scope.svc.nc.RequestWithContext(ctx, servingSubject(r.scope.name), nil)
	r.silent = err != nil && !errors.Is(err, nats.ErrNoResponders)
	return err == nil
}

// answer answers as a standby.
func (r *reads) answer(m read) {
	ctx, cancel := context.WithTimeout(r.ctx, r.scope.svc.cfg.OperationTimeout.Duration())
	defer cancel()
	var bodies [][]byte
	var err error
	switch m.op() {
	case wire.OpKey:
		bodies, err = r.scope.standbyKey()
	default:
		bodies, err = r.scope.standbyGot(ctx, m)
	}
	if errors.Is(err, errNotLeading) {
		r.unable.Add(1)
		if time.Since(m.at) < r.scope.svc.refuseAfter {
			r.hold(m)
			return
		}
	} else {
		r.given.Add(1)
	}
	r.scope.reply(m, bodies, err)
}

// reply sends an answer, under each key that it was sealed under, or, with an
// error, a refusal.
func (sc *scope) reply(m read, bodies [][]byte, err error) {
	if err != nil {
		body, err := wire.Encode(refusal(sc.log, err))
		if err != nil {
			sc.log.Error("a refusal could not be encoded", "error", err)
			return
		}
		bodies = [][]byte{body}
	}
	for _, body := range bodies {
		if err := m.Respond(body); err != nil {
			sc.log.Warn("an answer was not sent", "subject", m.Subject, "error", err)
		}
	}
}

// sealed gives the answer to a get: what of the credential was asked for, sealed
// to who asked.
func (sc *scope) sealed(m read, g given) ([][]byte, error) {
	ask, err := wire.Decode[wire.Get](m.Data)
	if err != nil {
		return nil, wire.Refusal{Code: wire.CodeMalformed, Message: err.Error()}
	}
	goodFor := wire.SecondsOf(g.goodFor)
	var expiresIn *wire.Seconds
	if g.expiresIn > 0 {
		in := wire.SecondsOf(g.expiresIn)
		expiresIn = &in
	}
	if len(ask.Keys) == 0 {
		form, err := g.view.formOf(sc.name, m.name(), *g.values)
		if err != nil {
			return nil, err
		}
		body, err := form.Fill(ask.Nonce, goodFor, expiresIn)
		if err != nil {
			return nil, err
		}
		return sc.sealEncodedFor(ask.XKey, ask.ServiceKeys, body)
	}
	got := g.view.got(sc.name, m.name(), *g.values)
	if got.Values, err = pick(got.Values, ask.Keys); err != nil {
		return nil, err
	}
	got.Nonce, got.GoodFor, got.ExpiresIn = ask.Nonce, goodFor, expiresIn
	return sc.sealFor(ask.XKey, ask.ServiceKeys, got)
}
