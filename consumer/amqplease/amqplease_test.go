package amqplease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/amqplease"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
)

func TestRotationUnderLoadLosesNoMessage(t *testing.T) {
	s := newStage(t)
	current := s.account()
	s.holder.Install("mq", current)
	before := s.forced()
	l := startLoad(s, s.open("load"), "load", 4)
	rotations, rolledBack := 0, 0
	for i := range 12 {
		next := s.account()
		broken := i%6 == 5
		if broken {
			s.password(next.Public, "other")
		}
		_, err := s.holder.Rotate(within(t, 60*time.Second), "mq", next, 30*time.Second)
		switch {
		case err == nil && !broken:
			rotations++
			s.revoke(current)
			current = next
		case errors.Is(err, consumertest.ErrRolledBack) && broken:
			rolledBack++
			if strings.Contains(err.Error(), "pw-") || !strings.Contains(err.Error(), "403") {
				t.Errorf("the reason is %v", err)
			}
			s.revoke(next)
		default:
			t.Fatal(err)
		}
		l.more(50)
	}
	messages, twice := l.end()
	if l.failed.Load() != 0 || twice != 0 || rotations != 10 || rolledBack != 2 || s.forced() != before {
		t.Errorf("%d of %d messages failed, %d came twice, %d connections were ended over %d rotations and %d ways back: %v",
			l.failed.Load(), messages, twice, s.forced()-before, rotations, rolledBack, l.errs)
	}
	t.Logf("%d messages, %d rotations, %d rolled back, 0 failed", messages, rotations, rolledBack)
}

func TestL21_RevertGoesBackToTheConnectionThatWasKept(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("mq", one)
	c := s.open("back")
	l := startLoad(s, c, "back", 2)
	to := s.holder.AwaitRegistered("mq", 1)[0].To()
	if got, err := s.holder.Prepare(within(t, 60*time.Second), to, two, 60*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	l.more(20)
	if c.Lease() != two.Lease {
		t.Errorf("on lease %d after yes", c.Lease())
	}
	if got, err := s.holder.Follow(within(t, 60*time.Second), to, s.holder.RollBack("mq"), true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	before := s.forced()
	s.revoke(two)
	l.more(20)
	if _, twice := l.end(); l.failed.Load() != 0 || twice != 0 || s.forced() != before {
		t.Errorf("%d failed, %d came twice: %v", l.failed.Load(), twice, l.errs)
	}
}

// TestC49_YesNeedsALoginAndTheSetUp: an account that may not do what the
// application needs is none.
func TestC49_YesNeedsALoginAndTheSetUp(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("mq", one)
	c := s.open("needed")
	to := s.holder.AwaitRegistered("mq", 1)[0].To()
	wrong, narrow, gone := s.account(), s.account("^$", "^$", "^$"), s.account()
	s.password(wrong.Public, "other")
	s.revoke(gone)
	for name, candidate := range map[string]consumertest.State{"wrong password": wrong, "no permission": narrow, "no account": gone} {
		got, err := s.holder.Prepare(within(t, 60*time.Second), to, candidate, 30*time.Second)
		if err != nil || got.Yes() || got.Reason == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.Lease() != one.Lease {
			t.Errorf("%s: on lease %d", name, c.Lease())
		}
	}
}

func TestAHandlerHoldsTheConfirmationUp(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("mq", one)
	c := s.open("slow")
	if err := c.Publish(within(t, 60*time.Second), "", "slow", true, amqp.Publishing{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	handling, finish, consumed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		consumed <- c.Consume(ctx, "slow", amqplease.ConsumeOptions{}, func(_ context.Context, d amqp.Delivery) {
			close(handling)
			<-finish
			if err := d.Ack(false); err != nil {
				t.Error(err)
			}
		})
	}()
	<-handling
	to := s.holder.AwaitRegistered("mq", 1)[0].To()
	if got, err := s.holder.Prepare(within(t, 60*time.Second), to, two, 60*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	state := s.holder.Install("mq", two)
	if got, err := s.holder.Follow(within(t, 300*time.Millisecond), to, state, false); err == nil {
		t.Fatalf("confirmed %+v with a handler at work", got)
	}
	close(finish)
	if got, err := s.holder.Follow(within(t, 60*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(one)
	cancel()
	if err := <-consumed; err != nil {
		t.Error(err)
	}
}

func TestWhatTheBrokerSaysOfAMessage(t *testing.T) {
	s := newStage(t)
	s.holder.Install("mq", s.account())
	c := s.open("full")
	ctx := within(t, 60*time.Second)
	if err := c.Publish(ctx, "", "no-such-queue", true, amqp.Publishing{}); !errors.Is(err, amqplease.ErrReturned) {
		t.Errorf("unroutable: %v", err)
	}
	if err := c.Publish(ctx, "", "no-such-queue", false, amqp.Publishing{}); err != nil {
		t.Errorf("unroutable, and nobody minds: %v", err)
	}
	err := c.With(ctx, func(_ context.Context, ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("tiny", false, true, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var nacked error
	for range 5 {
		nacked = errors.Join(nacked, c.Publish(ctx, "", "tiny", true, amqp.Publishing{}))
	}
	if !errors.Is(nacked, amqplease.ErrNacked) {
		t.Errorf("a full queue: %v", nacked)
	}
	if err := c.Publish(ctx, "no-such-exchange", "x", true, amqp.Publishing{}); !errors.Is(err, amqplease.ErrUnconfirmed) {
		t.Errorf("no exchange: %v", err)
	}
	if err := c.Publish(ctx, "", "full", true, amqp.Publishing{}); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if err := c.Consume(ctx, "no-such-queue", amqplease.ConsumeOptions{}, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("consuming nothing: %v", err)
	}
}

// TestABrokerThatRestarts: connection and consumer come back by themselves.
func TestABrokerThatRestarts(t *testing.T) {
	s := newStage(t)
	s.srv = rabbittest.Start(t)
	s.holder.Install("mq", s.account())
	c := s.open("kept")
	came := make(chan string, 16)
	ctx, cancel := context.WithCancel(context.Background())
	consumed := make(chan error, 1)
	go func() {
		consumed <- c.Consume(ctx, "kept", amqplease.ConsumeOptions{}, func(_ context.Context, d amqp.Delivery) {
			_ = d.Ack(false)
			came <- string(d.Body)
		})
	}()
	if err := c.Publish(within(t, 60*time.Second), "", "kept", true, amqp.Publishing{Body: []byte("before")}); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != "before" {
		t.Fatal(got)
	}
	if err := s.srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(within(t, 60*time.Second), "", "kept", true, amqp.Publishing{Body: []byte("after")}); err != nil {
		t.Error(err)
	}
	select {
	case got := <-came:
		if got != "after" {
			t.Error(got)
		}
	case <-time.After(60 * time.Second):
		t.Error("the consumer did not come back")
	}
	cancel()
	if err := <-consumed; err != nil {
		t.Error(err)
	}
}

func TestC58_ARefusedLoginIsReported(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("mq", one)
	c := s.open("refused")
	before := s.forced()
	s.revoke(one) // which ends its connections
	refused := 0
	for limit := time.Now().Add(60 * time.Second); len(s.holder.Reports()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("nothing was reported, though %d were refused", refused)
		}
		if err := c.Publish(within(t, 30*time.Second), "", "refused", true, amqp.Publishing{}); err != nil {
			refused++
		}
	}
	if got := s.holder.Reports(); len(got) != 1 || got[0].Lease != one.Lease || !strings.Contains(got[0].Reason, "403") || refused == 0 {
		t.Errorf("%d refused logins were reported as %+v", refused, got)
	}
	for limit := time.Now().Add(30 * time.Second); s.forced() == before && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond) // the log is behind
	}
	if s.forced() == before {
		t.Error("the broker has not ended the connection: the fault did not happen")
	}
}

func TestNoneMakesWorkWait(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("mq", one)
	c := s.open("waiting")
	came := make(chan string, 1)
	consumed := make(chan error, 1)
	go func() {
		consumed <- c.Consume(context.Background(), "waiting", amqplease.ConsumeOptions{}, func(_ context.Context, d amqp.Delivery) {
			_ = d.Ack(false)
			came <- string(d.Body)
		})
	}()
	to := s.holder.AwaitRegistered("mq", 1)[0].To()
	none := consumertest.State{N: s.holder.Next()}
	if got, err := s.holder.Follow(within(t, 60*time.Second), to, none, true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(one)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := c.Publish(short, "", "waiting", true, amqp.Publishing{}); !errors.Is(err, amqplease.ErrNone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	waited := make(chan error, 1)
	go func() {
		waited <- c.Publish(within(t, 60*time.Second), "", "waiting", true, amqp.Publishing{Body: []byte("at last")})
	}()
	state := s.holder.Install("mq", s.account())
	if got, err := s.holder.Follow(within(t, 60*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if got := <-came; got != "at last" {
		t.Error(got)
	}
	c.Close()
	if err := <-consumed; err != nil {
		t.Error(err)
	}
	if len(s.holder.Registered("mq")) != 0 {
		t.Error("still registered")
	}
	if err := c.Publish(within(t, 30*time.Second), "", "waiting", true, amqp.Publishing{}); !errors.Is(err, amqplease.ErrClosed) {
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
	_, err := amqplease.New(ctx, s.client, "nope", amqplease.Config{URL: "amqp://" + s.srv.Addr()})
	if !errors.Is(err, consumer.ErrUnknownName) || !errors.Is(err, amqplease.ErrNone) {
		t.Error(err)
	}
	if _, err := amqplease.New(ctx, s.client, "mq", amqplease.Config{URL: "http://u:pw-secret@x"}); err == nil || strings.Contains(err.Error(), "pw-secret") {
		t.Error(err)
	}
}
