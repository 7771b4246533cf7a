package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// To is one registered incarnation.
type To struct {
	Scope, Name string
	Incarnation string
	// Subject is where it listens.
	Subject string
	// XKey is its public curve key.
	XKey string
	// Key is the public nkey that its answers must be signed with; empty only
	// where consumers are insecure.
	Key string
	// Pinned are the service's public keys that it takes messages under, as it
	// said itself; none: it did not say.
	Pinned []string
}

// Prepare asks to prove new sessions with a candidate and to send new work
// there.
type Prepare struct {
	Epoch uint64
	// N is the sequence of handover-started (P8).
	N     uint64
	Lease uint64
	// TimeLeft is what is left to answer in, counted from the call; what is
	// sent again says what is left then.
	TimeLeft time.Duration
	// ExpiresIn is what is left of the lease from the call; 0: it does not
	// expire.
	ExpiresIn time.Duration
	Public    string
	Values    wire.Values
	// Traceparent, if set, is sent along ([wire.TraceHeader]).
	Traceparent string
}

// Follow asks to move to what is committed: after `installed`, or, with Revert,
// after `rollback-started`.
type Follow struct {
	// Revert says that n is that of a rollback-started; only then Lease may
	// be 0: back to none.
	Revert bool
	Epoch  uint64
	// N is the sequence of installed or rollback-started (P8).
	N         uint64
	Lease     uint64
	TimeLeft  time.Duration
	ExpiresIn time.Duration
	Public    string
	Values    wire.Values
	// Traceparent, if set, is sent along ([wire.TraceHeader]).
	Traceparent string
}

// Answer is what an incarnation said, known to come from it and to be about
// the epoch and n that were asked.
type Answer struct {
	Verdict wire.Verdict
	// Reason is its own, redacted by the consumer, at most 200 bytes. Written
	// by another party: quote it, never act on it.
	Reason string
	// Vague says that the answer was none of the known ones; Verdict is No
	// then (L14).
	Vague bool
	// LastN is the highest n that it has taken; with Stale it is why.
	LastN uint64
	// Took is the time from the first sending to the answer.
	Took time.Duration
	// Sent counts how often the message was sent.
	Sent int
	// Traceparent is the header of the answer; it is not signed, so anybody may
	// have written it. Empty: there was none.
	Traceparent string
}

// Yes tells whether it is an explicit yes (L14).
func (a Answer) Yes() bool { return a.Verdict == wire.Yes }

// Confirmed tells whether it confirms n.
func (a Answer) Confirmed() bool { return a.Verdict == wire.Confirmed }

// NoAnswerError says that an incarnation gave no answer that counts before the
// context ended. It unwraps to the context's error.
type NoAnswerError struct {
	Incarnation string
	Kind        wire.Kind
	N           uint64
	// Sent counts how often the message was sent.
	Sent int
	// Ignored counts forged and mismatching answers.
	Ignored int
	// Absent is [Courier.Absent] at the end: for how long nobody listened.
	Absent time.Duration
	// LastNo is the reason of the last "no" to a follow or revert ("not yet").
	LastNo string
	Err    error
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	s := fmt.Sprintf("no answer from incarnation %s to %s n=%d, sent %d times", e.Incarnation, e.Kind, e.N, e.Sent)
	if e.Absent > 0 {
		s += fmt.Sprintf(", nobody listens since %s", e.Absent.Round(time.Millisecond))
	}
	if e.LastNo != "" {
		s += fmt.Sprintf(", last said no: %q", e.LastNo)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the context's error.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// Stats counts what a courier did since its start.
type Stats struct {
	Sent, Answered, NoResponders uint64
	// Forged answers had no valid signature; Mismatched ones were about
	// something else than was asked.
	Forged, Mismatched uint64
}

// CourierOptions are what [NewCourier] can be told. The zero value is usable.
type CourierOptions struct {
	// FirstPause and LastPause pace the sending again: the pause doubles from
	// the one to the other, spread by a fifth. 250 ms and 5 s by default.
	FirstPause, LastPause time.Duration
	// NobodyThere is called each time a message finds no subscriber, with how
	// long that has lasted (see [Courier.Absent]). It must not block.
	NobodyThere func(to To, lasted time.Duration)
	// Logger gets what was ignored; nil: nothing.
	Logger *slog.Logger
}

// Courier carries messages to incarnations and brings their answers.
type Courier struct {
	nc     *nats.Conn
	keys   sealer
	opts   CourierOptions
	absent absences

	sent, answered, noResponders, forged, mismatched atomic.Uint64
}

// sealer seals messages to consumers: [Keys], [Keyring].
type sealer interface {
	SealFor(to string, pinned []string, body wire.Body) ([][]byte, error)
}

// NewCourier makes a courier on a connection, sealing with keys.
func NewCourier(nc *nats.Conn, keys sealer, opts CourierOptions) *Courier {
	if opts.FirstPause <= 0 {
		opts.FirstPause = 250 * time.Millisecond
	}
	if opts.LastPause <= 0 {
		opts.LastPause = 5 * time.Second
	}
	opts.LastPause = max(opts.LastPause, opts.FirstPause)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Courier{nc: nc, keys: keys, opts: opts}
}

// Stats gives the counts.
func (c *Courier) Stats() Stats {
	return Stats{Sent: c.sent.Load(), Answered: c.answered.Load(), NoResponders: c.noResponders.Load(),
		Forged: c.forged.Load(), Mismatched: c.mismatched.Load()}
}

// Absent tells for how long nobody has listened where the incarnation should:
// from the first to the last message that found no subscriber, without any
// stretch in which our own connection was lost or nothing was sent for a
// minute. An answer, or a subscriber that says nothing, sets it to 0. What
// leave_after is compared with.
func (c *Courier) Absent(incarnation string) time.Duration { return c.absent.lasted(incarnation) }

// Forget drops what is remembered of an incarnation that is gone.
func (c *Courier) Forget(incarnation string) { c.absent.present(incarnation) }

// Prepare asks until there is an answer or ctx ends: Yes, No or Stale, or a
// [*NoAnswerError]. Only an explicit yes is one (L14); how long silence is
// waited out is the caller's ctx.
func (c *Courier) Prepare(ctx context.Context, to To, p Prepare) (Answer, error) {
	return c.deliver(ctx, to, wire.Message{
		Kind: wire.KindPrepare, Epoch: p.Epoch, N: p.N, Lease: p.Lease, Public: p.Public, Values: p.Values,
	}, p.Traceparent, p.TimeLeft, p.ExpiresIn)
}

// Follow tells until it is confirmed, found stale, or ctx ends (P14): a "no"
// means "not yet" and is asked again. The error is a [*NoAnswerError].
func (c *Courier) Follow(ctx context.Context, to To, f Follow) (Answer, error) {
	kind := wire.KindFollow
	if f.Revert {
		kind = wire.KindRevert
	}
	return c.deliver(ctx, to, wire.Message{
		Kind: kind, Epoch: f.Epoch, N: f.N, Lease: f.Lease, Public: f.Public, Values: f.Values,
	}, f.Traceparent, f.TimeLeft, f.ExpiresIn)
}

// delivery is one message under way, however often it is sent.
type delivery struct {
	to                  To
	message             wire.Message
	traceparent         string
	timeLeft, expiresIn time.Duration
	begun               time.Time
	sent, ignored       int
	lastNo              string
}

func (c *Courier) deliver(ctx context.Context, to To, m wire.Message, traceparent string, timeLeft, expiresIn time.Duration) (Answer, error) {
	m.Scope, m.Name, m.Incarnation = to.Scope, to.Name, to.Incarnation
	d := &delivery{to: to, message: m, traceparent: traceparent, timeLeft: timeLeft, expiresIn: expiresIn, begun: time.Now()}

	// One inbox for all attempts: an answer to an earlier one counts, and a
	// forged one does not use the place of the true one up.
	inbox := c.nc.NewInbox()
	replies := make(chan *nats.Msg, 32)
	sub, err := c.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return Answer{}, fmt.Errorf("subscribing to answers of %s: %w", to.Incarnation, err)
	}
	defer func() { _ = sub.Unsubscribe() }()

	for pause := c.opts.FirstPause; ; pause = min(2*pause, c.opts.LastPause) {
		if err := c.send(d, inbox); err != nil {
			return Answer{}, err
		}
		answer, ok := c.listen(ctx, d, replies, spread(pause))
		if ok {
			answer.Took, answer.Sent = time.Since(d.begun), d.sent
			return answer, nil
		}
		if ctx.Err() != nil {
			return Answer{}, &NoAnswerError{Incarnation: to.Incarnation, Kind: m.Kind, N: m.N, Sent: d.sent,
				Ignored: d.ignored, Absent: c.Absent(to.Incarnation), LastNo: d.lastNo, Err: context.Cause(ctx)}
		}
	}
}

// send seals and publishes once more. It returns only errors that no sending
// again can mend; a connection that is down is not one.
func (c *Courier) send(d *delivery, inbox string) error {
	since := time.Since(d.begun)
	m := d.message
	m.TimeLeft = wire.SecondsOf(d.timeLeft - since)
	if d.expiresIn > 0 {
		left := wire.SecondsOf(d.expiresIn - since)
		m.ExpiresIn = &left
	}
	sealed, err := c.keys.SealFor(d.to.XKey, d.to.Pinned, m)
	if err != nil {
		return fmt.Errorf("%s to incarnation %s: %w", m.Kind, d.to.Incarnation, err)
	}
	for _, data := range sealed {
		if err = c.publish(d, inbox, data); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		d.sent++
		c.sent.Add(1)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrBadSubject):
		return fmt.Errorf("%s to incarnation %s: %w", m.Kind, d.to.Incarnation, err)
	}
	return nil
}

// publish sends a message, with the header of its trace if it has one.
func (c *Courier) publish(d *delivery, inbox string, sealed []byte) error {
	if d.traceparent == "" || !c.nc.HeadersSupported() {
		return c.nc.PublishRequest(d.to.Subject, inbox, sealed)
	}
	return c.nc.PublishMsg(&nats.Msg{
		Subject: d.to.Subject, Reply: inbox, Data: sealed, Header: nats.Header{wire.TraceHeader: {d.traceparent}},
	})
}

// listen waits for an answer that counts until it is time to send again.
func (c *Courier) listen(ctx context.Context, d *delivery, replies <-chan *nats.Msg, pause time.Duration) (Answer, bool) {
	again := time.NewTimer(pause)
	defer again.Stop()
	nobody := !c.nc.IsConnected()
	for {
		select {
		case <-ctx.Done():
			return Answer{}, false
		case <-again.C:
			if !nobody && c.nc.IsConnected() {
				c.absent.present(d.to.Incarnation) // it listens, and says nothing
			}
			return Answer{}, false
		case msg := <-replies:
			if isNoResponders(msg) {
				nobody = true
				c.noResponders.Add(1)
				lasted := c.absent.nobody(d.to.Incarnation, c.nc.Stats().Reconnects)
				if c.opts.NobodyThere != nil {
					c.opts.NobodyThere(d.to, lasted)
				}
				continue
			}
			answer, ok := c.judge(d, msg)
			if !ok {
				d.ignored++
				continue
			}
			c.absent.present(d.to.Incarnation)
			c.answered.Add(1)
			if answer.Verdict == wire.No && d.message.Kind != wire.KindPrepare {
				d.lastNo = answer.Reason // not yet: ask again at the pace
				continue
			}
			return answer, true
		}
	}
}

func isNoResponders(msg *nats.Msg) bool {
	return len(msg.Data) == 0 && msg.Header.Get("Status") == "503"
}

// judge takes an answer only from whom was asked, about what was asked.
func (c *Courier) judge(d *delivery, msg *nats.Msg) (Answer, bool) {
	ignore := func(counter *atomic.Uint64, why string) (Answer, bool) {
		counter.Add(1)
		c.opts.Logger.Warn("answer ignored", "why", why, "scope", d.to.Scope, "name", d.to.Name,
			"incarnation", d.to.Incarnation, "n", d.message.N)
		return Answer{}, false
	}
	if d.to.Key != "" {
		err := wire.Verify(d.to.Key, msg.Header.Get(wire.SignatureHeader), wire.Reply{}.Type(), d.to.Scope, d.to.Name, msg.Data)
		if err != nil {
			return ignore(&c.forged, err.Error())
		}
	}
	r, err := wire.Decode[wire.Reply](msg.Data)
	if err != nil {
		return ignore(&c.mismatched, err.Error())
	}
	m := d.message
	if r.Scope != m.Scope || r.Name != m.Name || r.Incarnation != m.Incarnation ||
		r.Epoch != m.Epoch || r.N != m.N || r.Kind != m.Kind {
		return ignore(&c.mismatched, "it is about something else than was asked")
	}
	if !r.Verdict.Answers(m.Kind) {
		return Answer{Verdict: wire.No, Vague: true, LastN: r.LastN,
			Reason: fmt.Sprintf("a vague answer to %s: %q", m.Kind, r.Verdict)}, true
	}
	return Answer{Verdict: r.Verdict, Reason: r.Reason, LastN: r.LastN, Traceparent: msg.Header.Get(wire.TraceHeader)}, true
}

// spread varies a pause by a fifth, so that many do not fall together.
func spread(d time.Duration) time.Duration {
	fifth := d / 5
	if fifth <= 0 {
		return d
	}
	return d - fifth + rand.N(2*fifth)
}
