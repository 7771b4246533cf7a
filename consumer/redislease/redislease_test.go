package redislease_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/redislease"
)

func TestRotationUnderLoadFailsNoCommand(t *testing.T) {
	s := newStage(t)
	current := s.account()
	s.holder.Install("cache", current)
	l := startLoad(s, s.open(), 8)
	rotations, rolledBack := 0, 0
	for i := range 12 {
		next := s.account()
		broken := i%4 == 3
		if broken {
			s.acl("SETUSER", next.Public, "resetpass", ">other")
		}
		_, err := s.holder.Rotate(within(t, 60*time.Second), "cache", next, 30*time.Second)
		switch {
		case err == nil && !broken:
			rotations++
			s.revoke(current)
			current = next
		case errors.Is(err, consumertest.ErrRolledBack) && broken:
			rolledBack++
			if strings.Contains(err.Error(), "pw-") || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("the reason is %v", err)
			}
			s.revoke(next)
		default:
			t.Fatal(err)
		}
		l.more(50)
	}
	l.end()
	if l.failed.Load() != 0 || len(l.users) != rotations+1 || rotations != 9 || rolledBack != 3 {
		t.Errorf("%d of %d commands failed over %d rotations and %d ways back, %d users seen: %v",
			l.failed.Load(), l.calls.Load(), rotations, rolledBack, len(l.users), l.errs)
	}
	t.Logf("%d commands, %d rotations, %d rolled back, %d failed", l.calls.Load(), rotations, rolledBack, l.failed.Load())
}

// TestASubscriptionMissesNothing publishes numbers through rotations.
func TestASubscriptionMissesNothing(t *testing.T) {
	s := newStage(t)
	current := s.account()
	s.holder.Install("cache", current)
	c := s.open()
	sub, err := c.Subscribe(within(t, 30*time.Second), "numbers", "others")
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := c.PSubscribe(within(t, 30*time.Second), "num*")
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan int)
	stop := make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				published <- n
				return
			default:
			}
			if err := s.admin.Publish(context.Background(), "numbers", n).Err(); err != nil {
				t.Error(err)
			}
			n++
			if n%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	type result struct{ missing, twice, last int }
	read := func(sub *redislease.Subscription, at *atomic.Int64, results chan<- result) {
		seen := map[int]int{}
		last := -1
		for m := range sub.Channel() {
			if n, err := strconv.Atoi(m.Payload); err == nil {
				seen[n]++
				last = max(last, n)
				at.Store(int64(last))
			}
		}
		var r result
		r.last = last
		for n := range last + 1 {
			switch {
			case seen[n] == 0:
				r.missing++
			case seen[n] > 1:
				r.twice++
			}
		}
		results <- r
	}
	results := make(chan result, 2)
	var subAt, patternAt atomic.Int64
	go read(sub, &subAt, results)
	go read(pattern, &patternAt, results)
	for range 10 {
		next := s.account()
		if _, err := s.holder.Rotate(within(t, 60*time.Second), "cache", next, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		s.revoke(current)
		current = next
	}
	close(stop)
	count := <-published
	// The last is there when the connections have brought it.
	for limit := time.Now().Add(30 * time.Second); min(subAt.Load(), patternAt.Load()) < int64(count-1) && time.Now().Before(limit); {
		time.Sleep(5 * time.Millisecond)
	}
	sub.Close()
	pattern.Close()
	for range 2 {
		r := <-results
		t.Logf("%d published, the last read is %d, %d missing, %d came twice", count, r.last, r.missing, r.twice)
		if r.missing != 0 || r.last < count/2 || count < 100 {
			t.Errorf("%d published, the last read is %d, %d are missing before it", count, r.last, r.missing)
		}
	}
}

// TestC49_YesNeedsALoginAsTheCandidate: and a subscription that the candidate may
// have.
func TestC49_YesNeedsALoginAsTheCandidate(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("cache", one)
	c := s.open()
	sub, err := c.Subscribe(within(t, 30*time.Second), "news")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	to := s.holder.AwaitRegistered("cache", 1)[0].To()
	off, deaf := s.account(), s.account("~*", "resetchannels", "+@all")
	s.acl("SETUSER", off.Public, "off")
	for name, candidate := range map[string]consumertest.State{"off": off, "may not subscribe": deaf} {
		got, err := s.holder.Prepare(within(t, 60*time.Second), to, candidate, 30*time.Second)
		if err != nil || got.Yes() || got.Reason == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.Lease() != one.Lease {
			t.Errorf("%s: on lease %d", name, c.Lease())
		}
	}
	s.acl("SETUSER", deaf.Public, "allchannels", "-@all", "+@pubsub", "+@connection") // may not ask who it is
	if got, err := s.holder.Prepare(within(t, 60*time.Second), to, deaf, 30*time.Second); err != nil || !got.Yes() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestL21_RevertGoesBackToTheClientThatWasKept(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("cache", one)
	c := s.open()
	l := startLoad(s, c, 4)
	to := s.holder.AwaitRegistered("cache", 1)[0].To()
	if got, err := s.holder.Prepare(within(t, 30*time.Second), to, two, 30*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	l.more(20)
	if n := s.connections(one.Public); c.Lease() != two.Lease || n == 0 {
		t.Errorf("on lease %d after yes, with %d connections of the old one", c.Lease(), n)
	}
	if got, err := s.holder.Follow(within(t, 30*time.Second), to, s.holder.RollBack("cache"), true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(two)
	l.more(20)
	l.end()
	if l.failed.Load() != 0 || !l.users[two.Public] {
		t.Errorf("%d of %d failed: %v; users %v", l.failed.Load(), l.calls.Load(), l.errs, l.users)
	}
}

func TestC58_ARefusedLoginIsReported(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("cache", one)
	c := s.open()
	if err := c.Ping(within(t, 30*time.Second)).Err(); err != nil {
		t.Fatal(err)
	}
	s.acl("DELUSER", one.Public) // which ends its connections
	refused := 0
	for limit := time.Now().Add(30 * time.Second); len(s.holder.Reports()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("nothing was reported, though %d logins were refused", refused)
		}
		if err := c.Ping(within(t, 30*time.Second)).Err(); err != nil {
			refused++
		}
	}
	for range 20 { // told once
		_, _ = c.Pipelined(within(t, 30*time.Second), func(p redis.Pipeliner) error { return p.Ping(context.Background()).Err() })
	}
	if got := s.holder.Reports(); len(got) != 1 || got[0].Lease != one.Lease || !strings.Contains(got[0].Reason, "WRONGPASS") || refused == 0 {
		t.Errorf("%d refused logins were reported as %+v", refused, got)
	}
}

func TestNoneMakesWorkWaitAndSubscriptionsToo(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("cache", one)
	c := s.open()
	sub, err := c.Subscribe(within(t, 30*time.Second), "news")
	if err != nil {
		t.Fatal(err)
	}
	to := s.holder.AwaitRegistered("cache", 1)[0].To()
	none := consumertest.State{N: s.holder.Next()}
	if got, err := s.holder.Follow(within(t, 60*time.Second), to, none, true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(one)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := c.Ping(short).Err(); !errors.Is(err, redislease.ErrNone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := c.Pipelined(short, func(p redis.Pipeliner) error { return p.Ping(short).Err() }); !errors.Is(err, redislease.ErrNone) {
		t.Errorf("%v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Ping(within(t, 60*time.Second)).Err() }()
	two := s.account()
	state := s.holder.Install("cache", two)
	if got, err := s.holder.Follow(within(t, 30*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	for limit := time.After(30 * time.Second); ; {
		_ = s.admin.Publish(context.Background(), "news", "x")
		select {
		case <-sub.Channel():
			return
		case <-limit:
			t.Fatal("the subscription did not come back")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestCloseEndsItsConnectionsBeforeItLeaves(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("cache", one)
	c := s.open()
	sub, err := c.Subscribe(within(t, 30*time.Second), "news")
	if err != nil {
		t.Fatal(err)
	}
	s.holder.AwaitRegistered("cache", 1)
	c.Close()
	if _, open := <-sub.Channel(); open {
		t.Error("a closed client's subscription brings something")
	}
	if len(s.holder.Registered("cache")) != 0 {
		t.Error("still registered")
	}
	s.revoke(one)
	if err := c.Ping(within(t, 30*time.Second)).Err(); !errors.Is(err, redislease.ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Subscribe(within(t, 30*time.Second), "news"); !errors.Is(err, redislease.ErrClosed) {
		t.Error(err)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestNewSaysWhatItWaitedFor(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := redislease.New(ctx, s.client, "nope", redislease.Config{Options: &redis.Options{Addr: s.srv.Addr()}})
	if !errors.Is(err, consumer.ErrUnknownName) || !errors.Is(err, redislease.ErrNone) {
		t.Error(err)
	}
	if _, err := redislease.New(ctx, s.client, "cache", redislease.Config{}); err == nil {
		t.Error("it needs no address")
	}
}
