package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

func TestRotateCommitsAndRollsBack(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	stop := s.serve(s.client(), a)
	s.holder.AwaitRegistered("db", 1)
	a.await("commit 1")

	if got, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(2), 5*time.Second); err != nil || got.Lease != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	a.await("commit 1, prepare 2, commit 2")

	a.does(func(_ context.Context, call string) error {
		if call == "prepare 3" {
			return errors.New(`login of "v-3" with "pw-3" is refused`)
		}
		return nil
	})
	got, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(3), 5*time.Second)
	if !errors.Is(err, consumertest.ErrRolledBack) || got.Lease != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "pw-3") {
		t.Errorf("the reason is %v", err)
	}
	a.await("commit 1, prepare 2, commit 2, prepare 3, revert 2")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left := s.holder.Registered("db"); len(left) != 0 {
		t.Errorf("still registered: %d", len(left))
	}
}

func TestNoneIsAnAnswerThatIsConfirmed(t *testing.T) {
	s := newStage(t)
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()

	a.does(func(_ context.Context, call string) error {
		if call == "prepare 1" {
			return errScripted
		}
		return nil
	})
	if _, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(1), time.Second); !errors.Is(err, consumertest.ErrRolledBack) {
		t.Fatal(err)
	}
	a.await("prepare 1, revert 0")
	state := s.holder.State("db")
	if got, err := s.holder.Follow(within(5*time.Second), to, state, true); err != nil || !got.Confirmed() {
		t.Errorf("%+v, %v", got, err)
	}
	// A new incarnation is answered with none, and confirms it.
	b := newActor(t)
	s.serve(s.client(func(o *consumer.Options) { o.Instance = "api-1" }), b)
	to = s.holder.AwaitRegistered("db", 2)[1].To()
	if got, err := s.holder.Follow(within(5*time.Second), to, state, true); err != nil || !got.Confirmed() {
		t.Errorf("%+v, %v", got, err)
	}
	b.await("revert 0")
}

func TestP9_RegistersFirstAndReplacesItsPredecessor(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	first := s.holder.AwaitRegistered("db", 1)[0]
	a.await("commit 1")

	// The process "dies" (its first incarnation goes on in this test, as a
	// straggler would) and is started again under the same name.
	b := newActor(t)
	s.serve(s.client(), b)
	s.holder.Await("db", "the new incarnation", func(r []handover.Registration) bool {
		return len(r) == 1 && r[0].Incarnation > first.Incarnation && r[0].Replaces == first.Incarnation
	})
	b.await("commit 1")
	if got, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(2), 5*time.Second); err != nil || got.Lease != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	b.await("commit 1, prepare 2, commit 2")
	a.await("commit 1")
}

func TestP9_AnIncarnationAboveOneWhoseClockWasAhead(t *testing.T) {
	s := newStage(t)
	ahead, err := wire.NewIncarnation(time.Now().AddDate(3, 0, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	s.holder.Refuse(func(r handover.Registration) error {
		asked.Add(1)
		switch {
		case r.Incarnation < ahead:
			return refusal(wire.CodeSuperseded, ahead)
		case r.Replaces != ahead:
			return refusal(wire.CodeMismatch, ahead)
		}
		s.holder.Refuse(nil)
		return refusal(wire.CodeMismatch, "") // now it is gone
	})
	s.serve(s.client(), newActor(t))
	reg := s.holder.AwaitRegistered("db", 1)[0]
	if reg.Incarnation <= ahead || asked.Load() == 0 {
		t.Errorf("%s is not above %s", reg.Incarnation, ahead)
	}
}

func TestP9_ASupersededIncarnationStops(t *testing.T) {
	s := newStage(t)
	a := newActor(t)
	stop := s.serve(s.client(func(o *consumer.Options) { o.RegisterEvery = 20 * time.Millisecond }), a)
	first := s.holder.AwaitRegistered("db", 1)[0]
	s.serve(s.client(), newActor(t))
	s.holder.Await("db", "the successor", func(r []handover.Registration) bool { return len(r) == 1 && r[0].Incarnation > first.Incarnation })
	s.holder.Await("db", "nothing", func([]handover.Registration) bool { return true })
	limit := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.log.String(), "superseded") && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); !errors.Is(err, consumer.ErrSuperseded) {
		t.Errorf("%v", err)
	}
	if len(s.holder.Registered("db")) != 1 {
		t.Error("the superseded one took its successor along")
	}
}

func TestP10_TakesNothingBeforeItsRegistrationIsAnswered(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	// The registration is in the log, the answer is lost, and the holder asks.
	var lost atomic.Pointer[handover.Registration]
	s.holder.Refuse(func(r handover.Registration) error {
		lost.CompareAndSwap(nil, &r)
		return refusal(wire.CodeUnavailable, "")
	})
	a := newActor(t)
	s.serve(s.client(), a)
	limit := time.Now().Add(10 * time.Second)
	for lost.Load() == nil && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	to := lost.Load().To()
	if got, err := s.holder.Prepare(within(300*time.Millisecond), to, s.candidate(2), time.Second); err == nil {
		t.Fatalf("answered %+v before its registration was", got)
	}
	if got, err := s.holder.Follow(within(300*time.Millisecond), to, s.holder.State("db"), false); err == nil {
		t.Fatalf("answered %+v before its registration was", got)
	}
	if a.all() != "" {
		t.Errorf("the handler was called: %s", a.all())
	}
	if !strings.Contains(s.log.String(), "not answered yet") {
		t.Error("no message came before the answer, so this shows nothing")
	}
	s.holder.Refuse(nil)
	to = s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")
	if got, err := s.holder.Prepare(within(5*time.Second), to, s.candidate(3), 5*time.Second); err != nil || !got.Yes() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestP10_SameNRepeatsLowerNAndLowerEpochAreStale(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")

	old, n, two := s.holder.Next(), s.holder.Next(), s.candidate(2)
	for range 3 {
		if got, err := s.holder.PrepareN(within(5*time.Second), to, n, two, 5*time.Second); err != nil || !got.Yes() {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	a.await("commit 1, prepare 2")
	if got, err := s.holder.PrepareN(within(5*time.Second), to, old, s.candidate(3), 5*time.Second); err != nil || got.Verdict != wire.Stale || got.LastN != n {
		t.Errorf("lower n: %+v, %v", got, err)
	}
	// The same n asking for something else is no repetition.
	if got, err := s.holder.PrepareN(within(200*time.Millisecond), to, n, s.candidate(4), time.Second); err == nil {
		t.Errorf("another lease under the same n: %+v", got)
	}
	before := s.holder.Epoch()
	s.holder.Succeed()
	state := s.holder.Install("db", two)
	if got, err := s.holder.Follow(within(5*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	a.await("commit 1, prepare 2, commit 2")
	// A deposed holder, with an n that is above all that was taken.
	got, err := s.holder.Courier().Prepare(within(5*time.Second), to, handover.Prepare{Epoch: before, N: s.holder.Next(), Lease: 9,
		TimeLeft: time.Second, Values: wire.Values(`{"password":"pw-9"}`)})
	if err != nil || got.Verdict != wire.Stale {
		t.Errorf("lower epoch: %+v, %v", got, err)
	}
	a.await("commit 1, prepare 2, commit 2")
}

func TestP10_AnExpiredLeaseUnderTheSameNIsFollowed(t *testing.T) {
	s := newStage(t)
	state := s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")
	none := consumertest.State{N: state.N}
	for range 2 {
		if got, err := s.holder.Follow(within(5*time.Second), to, none, true); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	a.await("commit 1, revert 0")
}

func TestP10_ATakeoverAsksAgainAndIsAnsweredTheSame(t *testing.T) {
	s := newStage(t)
	state := s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	for range 3 {
		if got, err := s.holder.Follow(within(5*time.Second), to, state, false); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
		s.holder.Succeed()
	}
	a.await("commit 1")
}

func TestP11_ConfirmsOnlyAfterItMoved(t *testing.T) {
	s := newStage(t)
	a := newActor(t)
	stuck := make(chan struct{})
	a.does(func(ctx context.Context, call string) error {
		if call == "commit 1" {
			select {
			case <-stuck:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	state := s.holder.Install("db", s.candidate(1))
	if got, err := s.holder.Follow(within(300*time.Millisecond), to, state, false); err == nil {
		t.Fatalf("confirmed %+v while the application moves", got)
	}
	close(stuck)
	if got, err := s.holder.Follow(within(5*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Errorf("%+v, %v", got, err)
	}
	a.await("commit 1") // asked many times, moved once
}

func TestP14_AFailedMoveIsTriedAgain(t *testing.T) {
	s := newStage(t)
	a := newActor(t)
	var tries atomic.Int32
	a.does(func(context.Context, string) error {
		if tries.Add(1) < 3 {
			return errScripted
		}
		return nil
	})
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	state := s.holder.Install("db", s.candidate(1))
	if got, err := s.holder.Follow(within(10*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	a.await("commit 1, commit 1, commit 1")
}

func TestP14_AsksItselfWhenNoVerdictComes(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")
	if got, err := s.holder.Prepare(within(5*time.Second), to, s.candidate(2), 100*time.Millisecond); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	// The revert never comes (lost); the answer to a registration tells.
	s.holder.RollBack("db")
	a.await("commit 1, prepare 2, commit 1")
}

func TestL14_LateSilentAndPanickingAreNoYes(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")

	a.does(func(ctx context.Context, _ string) error { <-ctx.Done(); return nil })
	if got, err := s.holder.Prepare(within(5*time.Second), to, s.candidate(2), 100*time.Millisecond); err != nil || got.Verdict != wire.No || !strings.Contains(got.Reason, "time") {
		t.Errorf("too late: %+v, %v", got, err)
	}
	a.does(func(context.Context, string) error { panic("with pw-3 in it") })
	if got, err := s.holder.Prepare(within(5*time.Second), to, s.candidate(3), time.Second); err != nil || got.Verdict != wire.No || strings.Contains(got.Reason, "pw-3") {
		t.Errorf("panic: %+v, %v", got, err)
	}
}

func TestARevertInterruptsAHangingPrepare(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")
	a.does(func(ctx context.Context, call string) error {
		if call == "prepare 2" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	answers := make(chan handover.Answer, 1)
	go func() {
		got, err := s.holder.Prepare(within(10*time.Second), to, s.candidate(2), time.Minute)
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}()
	a.await("commit 1, prepare 2")
	if got, err := s.holder.Follow(within(5*time.Second), to, s.holder.RollBack("db"), true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := <-answers; got.Verdict != wire.Stale {
		t.Errorf("%+v", got)
	}
	a.await("commit 1, prepare 2, revert 1")
}

func TestForgedMessagesAreIgnored(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.await("commit 1")

	mallory := consumertest.Start(t, s.connect(), "elsewhere")
	forged := handover.NewCourier(s.nc, mallory.Keys(), handover.CourierOptions{FirstPause: 20 * time.Millisecond})
	if got, err := forged.Prepare(within(200*time.Millisecond), to, handover.Prepare{Epoch: 99, N: 9999, Lease: 7, TimeLeft: time.Second,
		Values: wire.Values(`{"password":"pw-evil"}`)}); err == nil {
		t.Errorf("a message of another key was answered: %+v", got)
	}
	// One that was sealed to this incarnation for another name.
	moved := to
	moved.Name = "other"
	if got, err := s.holder.Prepare(within(200*time.Millisecond), moved, s.candidate(2), time.Second); err == nil {
		t.Errorf("a message for another name was answered: %+v", got)
	}
	_ = s.nc.Publish(to.Subject, []byte("xkv1 garbage"))
	_ = s.nc.Publish(to.Subject, nil)
	// It goes on as if nothing had been.
	if got, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(3), 5*time.Second); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRegistersAgainAfterAReconnectAndARemoval(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	nc := s.connect()
	s.serve(s.client(func(o *consumer.Options) { o.Conn = nc }), a)
	s.holder.AwaitRegistered("db", 1)
	a.await("commit 1")
	s.holder.Remove("db", "api-0") // leave_after
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	s.holder.AwaitRegistered("db", 1)
	a.await("commit 1")
	if got, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(2), 5*time.Second); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestServeWaitsForTheService(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	s.holder.Mute(true)
	a := newActor(t)
	c := s.client(func(o *consumer.Options) { o.LeaveTimeout = 50 * time.Millisecond })
	stop := s.serve(c, a)
	s.holder.Mute(false)
	s.holder.AwaitRegistered("db", 1)
	a.await("commit 1")
	if err := c.Serve(within(time.Second), "db", a); !errors.Is(err, consumer.ErrServing) {
		t.Errorf("served twice: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestServeTellsWhyItNeverWasRegistered(t *testing.T) {
	s := newStage(t)
	s.holder.Allow("api", mustKey(t)) // another key than the client's
	var seen atomic.Int32
	sub, err := s.nc.Subscribe(wire.Subject(wire.OpRegister, "prod", "db"), func(*nats.Msg) { seen.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	stop := s.serve(s.client(), newActor(t))
	limit := time.Now().Add(10 * time.Second)
	for seen.Load() < 2 && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	err = stop()
	var r wire.Refusal
	if !errors.Is(err, consumer.ErrRefused) || !errors.As(err, &r) || r.Code != wire.CodeForbidden {
		t.Errorf("%v", err)
	}
}

func TestReconnectMovesOncePerCredential(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	var moves []uint64
	fail := map[uint64]bool{3: true}
	s.serve(s.client(), consumer.Reconnect(func(_ context.Context, c consumer.Credential) error {
		moves = append(moves, c.Lease) // one call at a time, and read after a confirmation
		if fail[c.Lease] {
			return errScripted
		}
		return nil
	}))
	s.holder.AwaitRegistered("db", 1)
	if _, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(2), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := s.holder.Rotate(within(5*time.Second), "db", s.candidate(3), 5*time.Second); !errors.Is(err, consumertest.ErrRolledBack) {
		t.Fatal(err)
	}
	want := []uint64{1, 2, 3, 2}
	if len(moves) != len(want) {
		t.Fatalf("moves %v, want %v", moves, want)
	}
	for i := range want {
		if moves[i] != want[i] {
			t.Fatalf("moves %v, want %v", moves, want)
		}
	}
}
