package redislease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/consumer/sessions"
)

const (
	// waiting is how many messages wait for a reader before the connection is
	// read no further.
	waiting = 100
	// heartbeat is how often a silent connection is pinged; after three times
	// that without a sign of life it is made anew.
	heartbeat = 3 * time.Second
	// subscribeWithin bounds one subscribing, and the ending of an old one.
	subscribeWithin = 5 * time.Second
	// firstPause and lastPause are the rests between tries of a subscribing.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// subscriptions are those of a client that are open.
type subscriptions struct {
	mu     sync.Mutex
	open   map[*Subscription]struct{}
	closed bool
}

// add counts a subscription; false when the client is closed.
func (s *subscriptions) add(sub *Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[*Subscription]struct{}{}
	}
	s.open[sub] = struct{}{}
	return true
}

func (s *subscriptions) remove(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sub)
}

func (s *subscriptions) end() {
	s.mu.Lock()
	s.closed = true
	open := make([]*Subscription, 0, len(s.open))
	for sub := range s.open {
		open = append(open, sub)
	}
	s.mu.Unlock()
	for _, sub := range open {
		sub.Close()
	}
}

// prove tries every subscription with a client, so that a candidate that may not
// subscribe is refused rather than found out after the commit.
func (s *subscriptions) prove(ctx context.Context, client *redis.Client) error {
	s.mu.Lock()
	open := make([]*Subscription, 0, len(s.open))
	for sub := range s.open {
		open = append(open, sub)
	}
	s.mu.Unlock()
	for _, sub := range open {
		within, cancel := context.WithTimeout(ctx, subscribeWithin)
		ps := on(within, client, sub.names, sub.patterns)
		_, err := confirmed(within, ps, len(sub.names))
		cancel()
		if err = errors.Join(err, ps.Close()); err != nil {
			return fmt.Errorf("subscribing: %w", err)
		}
	}
	return nil
}

// Subscription gets what is published on channels, over any number of rotations.
type Subscription struct {
	c        *Client
	names    []string
	patterns bool
	out      chan *redis.Message
	cancel   context.CancelFunc
	done     chan struct{}
}

// Subscribe subscribes to channels and returns when the server has confirmed it.
// ctx bounds only this; [Subscription.Close] ends it, and so does
// [Client.Close].
func (c *Client) Subscribe(ctx context.Context, channels ...string) (*Subscription, error) {
	return c.subscribe(ctx, channels, false)
}

// PSubscribe is Subscribe for patterns.
func (c *Client) PSubscribe(ctx context.Context, patterns ...string) (*Subscription, error) {
	return c.subscribe(ctx, patterns, true)
}

func (c *Client) subscribe(ctx context.Context, names []string, patterns bool) (*Subscription, error) {
	if len(names) == 0 {
		return nil, errors.New("redislease: no channel to subscribe to")
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Subscription{c: c, names: names, patterns: patterns, out: make(chan *redis.Message, waiting), cancel: cancel, done: make(chan struct{})}
	first, err := s.feed(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	if !c.subs.add(s) {
		cancel()
		first.close()
		return nil, ErrClosed
	}
	go s.run(life, first)
	return s, nil
}

// Channel has the messages; it is closed when the subscription ends. Who reads
// late holds the connection up, and the server ends one that lags too far.
func (s *Subscription) Channel() <-chan *redis.Message { return s.out }

// Close ends the subscription and waits for it. A second call does nothing.
func (s *Subscription) Close() {
	s.cancel()
	<-s.done
	s.c.subs.remove(s)
}

// run hands on what the connection of the current lease brings. When new work
// goes elsewhere it subscribes there first, and only then ends the old one.
func (s *Subscription) run(ctx context.Context, now *feed) {
	defer close(s.done)
	defer close(s.out)
	pause := firstPause
	for s.follow(ctx, now) {
		next, err := s.next(ctx)
		switch {
		case err == nil:
			pause = firstPause
		case errors.Is(err, ErrClosed) || ctx.Err() != nil:
			now.close()
			return
		case !now.alive() || errors.Is(err, ErrNone):
			// Nothing comes from there any more, or there is nothing to move to,
			// and the old lease must not be kept in use for that.
			s.drain(ctx, now)
			if next, err = s.wait(ctx); err != nil {
				return
			}
			now, pause = next, firstPause
			continue
		default:
			if !s.rest(ctx, pause, now) {
				now.close()
				return
			}
			pause = min(2*pause, lastPause)
			continue
		}
		s.drain(ctx, now)
		now = next
	}
	now.close()
}

// follow hands on messages until there is a reason to subscribe elsewhere;
// false at the subscription's end.
func (s *Subscription) follow(ctx context.Context, now *feed) bool {
	for {
		select {
		case m := <-now.messages:
			if !s.give(ctx, m) {
				return false
			}
		case <-now.held.Replaced():
			return true
		case <-now.broken:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// next tries to subscribe on the lease that is current.
func (s *Subscription) next(ctx context.Context) (*feed, error) {
	ctx, cancel := context.WithTimeout(ctx, subscribeWithin)
	defer cancel()
	return s.feed(ctx)
}

// wait subscribes as soon as it can be.
func (s *Subscription) wait(ctx context.Context) (*feed, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f, err := s.feed(ctx)
		if err == nil || errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return f, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// rest waits before the next try and hands on what comes meanwhile.
func (s *Subscription) rest(ctx context.Context, pause time.Duration, now *feed) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case m := <-now.messages:
			if !s.give(ctx, m) {
				return false
			}
		case <-t.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Subscription) give(ctx context.Context, m *redis.Message) bool {
	select {
	case s.out <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain ends an old feed and hands on what it had still got.
func (s *Subscription) drain(ctx context.Context, old *feed) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		old.end(context.WithoutCancel(ctx))
	}()
	for {
		select {
		case m := <-old.messages:
			if !s.give(ctx, m) {
				<-ended
				return
			}
		case <-ended:
			for {
				select {
				case m := <-old.messages:
					if !s.give(ctx, m) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

// feed is one subscribed connection, of one lease.
type feed struct {
	s        *Subscription
	held     *sessions.Held[*leased]
	ps       *redis.PubSub
	messages chan *redis.Message
	broken   chan struct{} // closed when the reading has ended
	left     chan struct{} // closed when the server has confirmed the end
	stop     context.CancelFunc
}

// feed subscribes a connection of the lease that is current.
func (s *Subscription) feed(ctx context.Context) (*feed, error) {
	held, err := s.c.set.Enter(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, subscribeWithin)
	defer cancel()
	f := &feed{s: s, held: held, messages: make(chan *redis.Message, waiting), broken: make(chan struct{}), left: make(chan struct{})}
	f.ps = on(within, held.Sessions.client, s.names, s.patterns)
	early, err := confirmed(within, f.ps, len(s.names))
	if err != nil {
		if refusedLogin(err) {
			held.Sessions.refused(err)
		}
		_ = f.ps.Close()
		held.Leave()
		return nil, err
	}
	var life context.Context
	life, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	go f.read(life, early)
	return f, nil
}

// on subscribes on a client, without waiting for the server's word.
func on(ctx context.Context, client *redis.Client, names []string, patterns bool) *redis.PubSub {
	if patterns {
		return client.PSubscribe(ctx, names...)
	}
	return client.Subscribe(ctx, names...)
}

// confirmed waits for the server's word on each of count channels, and gives the
// messages that came between.
func confirmed(ctx context.Context, ps *redis.PubSub, count int) (early []*redis.Message, err error) {
	for count > 0 {
		left := subscribeWithin
		if deadline, ok := ctx.Deadline(); ok {
			left = max(time.Until(deadline), time.Millisecond)
		}
		got, err := ps.ReceiveTimeout(ctx, left)
		if err != nil {
			return nil, err
		}
		switch got := got.(type) {
		case *redis.Subscription:
			count--
		case *redis.Message:
			early = append(early, got)
		}
	}
	return early, nil
}

// read hands on messages until the subscription's end is confirmed, the
// connection is silent for too long or breaks.
func (f *feed) read(ctx context.Context, early []*redis.Message) {
	defer close(f.broken)
	for _, m := range early {
		if !f.pass(ctx, m) {
			return
		}
	}
	gone := 0
	heard := time.Now()
	for ctx.Err() == nil {
		got, err := f.ps.ReceiveTimeout(ctx, heartbeat)
		var silent net.Error
		switch {
		case err == nil:
			heard = time.Now()
		case errors.As(err, &silent) && silent.Timeout() && time.Since(heard) < 3*heartbeat:
			_ = f.ps.Ping(ctx) // a failure shows in the next reading
			continue
		default:
			if refusedLogin(err) {
				f.held.Sessions.refused(err)
			}
			return
		}
		switch got := got.(type) {
		case *redis.Message:
			if !f.pass(ctx, got) {
				return
			}
		case *redis.Subscription:
			if got.Kind != "unsubscribe" && got.Kind != "punsubscribe" {
				continue
			}
			if gone++; gone == len(f.s.names) {
				close(f.left)
				return
			}
		}
	}
}

func (f *feed) pass(ctx context.Context, m *redis.Message) bool {
	select {
	case f.messages <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// alive tells whether the connection is still read.
func (f *feed) alive() bool {
	select {
	case <-f.broken:
		return false
	default:
		return true
	}
}

// end unsubscribes, so that what was published before is read, and closes. Who
// calls it reads messages meanwhile.
func (f *feed) end(ctx context.Context) {
	if f.alive() {
		ctx, cancel := context.WithTimeout(ctx, subscribeWithin)
		defer cancel()
		var err error
		if f.s.patterns {
			err = f.ps.PUnsubscribe(ctx, f.s.names...)
		} else {
			err = f.ps.Unsubscribe(ctx, f.s.names...)
		}
		if err == nil {
			select {
			case <-f.left:
			case <-f.broken:
			case <-ctx.Done():
			}
		}
	}
	f.close()
}

// close closes the connection and leaves the lease.
func (f *feed) close() {
	f.stop()
	_ = f.ps.Close()
	<-f.broken
	f.held.Leave()
}
