package journal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// How much is asked for at once. The next request is sent when half of the last
// one has come, so that the server does not wait for it.
const (
	pullMessages = 2048
	pullBytes    = 8 << 20
	pullExpires  = 3 * time.Second
	pullIdle     = time.Second
	// silence is how long neither a message nor a heartbeat may be missing.
	silence = 5 * pullIdle / 2
	// makeWait is how long each of the first attempts to make a consumer waits,
	// those after makeQuick ones twice as long as the one before: one that is
	// asked for just before an election is answered by nobody, and neither is one
	// that was given to a server that hangs. Others may simply be slow.
	makeWait  = 500 * time.Millisecond
	makeQuick = 6
	// consumerLife is when the server forgets a consumer nobody asks.
	consumerLife = 30 * time.Second
)

// What ends one consumer, after which the next goes on behind the last message.
var (
	errGap    = errors.New("a message is missing in between")
	errSilent = errors.New("no heartbeat")
	errEnded  = errors.New("the consumer is gone")
)

// errDone ends a pull in good order; stop wraps an error of the caller's.
var errDone = errors.New("done")

type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// pull calls fn with the messages of a scope from a sequence on until it says
// done or gives an error. With stall > 0 it gives up when the next message does
// not come for so long.
//
// An ephemeral consumer that acknowledges nothing numbers its messages, so that
// a missing one shows. Whatever happens to it, another one goes on behind the
// last message that fn was given: that alone is the state.
func (l *Log) pull(ctx context.Context, scope string, from uint64, stall time.Duration, fn func(Message) (bool, error)) error {
	return l.pullUnder(ctx, filter(scope), from, stall, fn)
}

// pullUnder is pull for any filter of subjects.
func (l *Log) pullUnder(ctx context.Context, filter string, from uint64, stall time.Duration, fn func(Message) (bool, error)) error {
	p := &puller{log: l, filter: filter, next: from, fn: fn, stall: stall, moved: time.Now()}
	var pc pace
	for {
		before := p.next
		err := p.once(ctx)
		var s stop
		switch {
		case errors.Is(err, errDone):
			return nil
		case errors.As(err, &s):
			return s.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrNoStream), l.nc.IsClosed():
			return err
		case stall > 0 && time.Since(p.moved) > stall:
			return fmt.Errorf("%w at sequence %d: %w", ErrStalled, p.next, err)
		}
		if p.next > before {
			pc = pace{}
		}
		if err := pc.wait(ctx); err != nil {
			return err
		}
	}
}

type puller struct {
	log    *Log
	filter string
	fn     func(Message) (bool, error)
	stall  time.Duration
	next   uint64    // the next message has at least this sequence
	moved  time.Time // when a message came last, about
	// failed counts the attempts in a row to make a consumer.
	failed int

	// Of the present consumer:
	inbox, ask string
	msgs       chan *nats.Msg
	delivered  uint64
	wanted     int // messages asked for and not come yet
}

// once makes a consumer and takes from it until something ends it.
func (p *puller) once(ctx context.Context) error {
	lost := p.log.lostSignal()
	name := "journal_" + nuid.Next()
	created, cancel := context.WithTimeout(ctx, min(makeWait<<max(0, p.failed-makeQuick), 2*p.log.cfg.AckWait))
	defer cancel()
	_, err := p.log.js.CreateConsumer(created, p.log.cfg.Stream, jetstream.ConsumerConfig{
		Name: name, FilterSubject: p.filter, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: p.next,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: consumerLife,
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s: %w", p.log.cfg.Stream, ErrNoStream)
	}
	if err != nil {
		p.failed = min(p.failed+1, 2*makeQuick)
		return fmt.Errorf("making a consumer: %w", unavailable(err))
	}
	p.failed = 0
	defer p.remove(ctx, name)
	p.inbox, p.ask = p.log.nc.NewInbox(), p.log.api+"CONSUMER.MSG.NEXT."+p.log.cfg.Stream+"."+name
	// Room for all that may be outstanding, and for what is said beside it.
	p.msgs = make(chan *nats.Msg, 2*pullMessages+64)
	p.delivered, p.wanted = 0, 0
	sub, err := p.log.nc.ChanSubscribe(p.inbox, p.msgs)
	if err != nil {
		return fmt.Errorf("subscribing to a consumer: %w", unavailable(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	return p.take(ctx, lost)
}

// remove deletes the consumer, now rather than after consumerLife, if that can
// be done without waiting long.
func (p *puller) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	_ = p.log.js.DeleteConsumer(ctx, p.log.cfg.Stream, name)
}

func (p *puller) take(ctx context.Context, lost <-chan struct{}) error {
	if err := p.request(); err != nil {
		return err
	}
	tick := time.NewTicker(pullIdle / 2)
	defer tick.Stop()
	heard, silent := true, time.Duration(0)
	var seen uint64
	for {
		select {
		case m := <-p.msgs:
			heard = true
			if err := p.drain(m); err != nil {
				return err
			}
			if p.wanted <= pullMessages/2 {
				if err := p.request(); err != nil {
					return err
				}
			}
		case <-tick.C:
			if p.delivered > seen {
				seen, p.moved = p.delivered, time.Now()
			} else if p.stall > 0 && time.Since(p.moved) > p.stall {
				return errSilent
			}
			if silent += pullIdle / 2; heard {
				silent, heard = 0, false
			}
			if silent >= silence {
				return errSilent
			}
		case <-lost:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var pullRequest = []byte(fmt.Sprintf(`{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, pullMessages, pullBytes, pullExpires, pullIdle))

func (p *puller) request() error {
	p.wanted += pullMessages
	if err := p.log.nc.PublishRequest(p.ask, p.inbox, pullRequest); err != nil {
		return fmt.Errorf("asking a consumer: %w", unavailable(err))
	}
	return nil
}

// drain handles a message and what has come meanwhile, within a bound, without
// looking at anything else.
func (p *puller) drain(m *nats.Msg) error {
	for range 256 {
		if err := p.message(m); err != nil {
			return err
		}
		select {
		case m = <-p.msgs:
		default:
			return nil
		}
	}
	return p.message(m)
}

func (p *puller) message(m *nats.Msg) error {
	if len(m.Data) == 0 {
		if status := m.Header.Get("Status"); status != "" {
			return p.told(status, m)
		}
	}
	seq, n, stored, ok := position(m.Reply)
	if !ok {
		return fmt.Errorf("%w: a message without a position", errGap)
	}
	if n != p.delivered+1 {
		return fmt.Errorf("%w: number %d follows %d", errGap, n, p.delivered)
	}
	p.delivered = n
	p.wanted--
	if seq < p.next {
		return nil
	}
	p.next = seq + 1
	done, err := p.fn(Message{Seq: seq, Stored: stored, Subject: m.Subject, Payload: m.Data})
	switch {
	case err != nil:
		return stop{err}
	case done:
		return errDone
	}
	return nil
}

// told acts on what the server says beside messages.
func (p *puller) told(status string, m *nats.Msg) error {
	switch status {
	case "100": // heartbeat
		return nil
	case "404", "408", "409":
		// A request ended; what it left is not wanted any more.
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil { // the consumer was deleted, or its server shuts down
			return fmt.Errorf("%w: %s", errEnded, m.Header.Get("Description"))
		}
		p.wanted = max(p.wanted-left, 0)
		return nil
	default:
		return fmt.Errorf("%w: %s %s", errEnded, status, m.Header.Get("Description"))
	}
}

// position reads the stream's and the consumer's sequence, and when the message
// was stored, from the reply subject of a delivered message: $JS.ACK, with or without domain and account, stream,
// consumer, deliveries, stream sequence, consumer sequence, time, pending.
func position(reply string) (seq, n uint64, stored time.Time, ok bool) {
	skip := 5
	if strings.Count(reply, ".") > 8 {
		skip = 7
	}
	for range skip {
		_, rest, found := strings.Cut(reply, ".")
		if !found {
			return 0, 0, stored, false
		}
		reply = rest
	}
	a, rest, _ := strings.Cut(reply, ".")
	b, rest, _ := strings.Cut(rest, ".")
	c, _, _ := strings.Cut(rest, ".")
	seq, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, 0, stored, false
	}
	if n, err = strconv.ParseUint(b, 10, 64); err != nil {
		return 0, 0, stored, false
	}
	nanos, err := strconv.ParseInt(c, 10, 64)
	return seq, n, time.Unix(0, nanos).UTC(), err == nil
}
