package document

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestL43_AnUpdateWaitsForAnInstallOfWhatItRefersTo(t *testing.T) {
	synctest.Test(t, anUpdateWaits)
}

func anUpdateWaits(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}, "mq": {Values: values(t, `{"pw":"s3cr3t-q"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://mq#pw"}`)
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)

	put(t, s, vault, "app", `{"pw":"lease://mq#pw","x":1}`) // refers to another lease: goes on

	content := tree(t, `{"pw":["lease://mq#pw","lease://db#pw"]}`) // even as a fallback
	done := make(chan error, 1)
	go func() {
		_, err := s.Update(context.Background(), Update{Document: "app", Expected: 2, Content: &content}, vault, nil)
		done <- err
	}()
	for _, step := range []func(){
		func() {},
		func() {
			if err := in.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		step()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the update did not wait: %v", err)
		default:
		}
	}
	end(t, in)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestL43_TheWaitIsBounded(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := NewStore(NewGate(time.Millisecond))
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	defer end(t, in)
	content := tree(t, `{"pw":"lease://db#pw"}`)
	u := Update{Document: "app", Content: &content}
	before := dump(s)
	_, err := s.Update(t.Context(), u, vault, nil)
	wantIs(t, err, ErrBusy)

	s.gate.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Update(ctx, u, vault, nil)
	wantIs(t, err, context.Canceled)
	wantDump(t, s, before, "after giving up")
}

func TestL43_TheWaitForTheTurnIsBounded(t *testing.T) {
	s := NewStore(NewGate(time.Millisecond))
	s.turn <- struct{}{}
	content := tree(t, `{}`)
	_, err := s.Update(t.Context(), Update{Document: "app", Content: &content}, vaultOf{}, nil)
	wantIs(t, err, ErrBusy)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Install(ctx, "db", nil)
	wantIs(t, err, context.Canceled)
	s.give()
}

func TestL43_AConsumerOfTheRunningHandoverIsRefused(t *testing.T) {
	synctest.Test(t, aConsumerIsRefused)
}

func aConsumerIsRefused(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}, "mq": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := fresh()
	s.gate.wait = time.Hour
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	in.Join("orders-1")
	other := install(t, s, "mq", `{"pw":"s3cr3t-2"}`)
	content := tree(t, `{"pw":"lease://db#pw"}`)
	_, err := s.Update(t.Context(), Update{Document: "app", Content: &content, Consumer: "orders-1"}, vault, nil)
	wantIs(t, err, ErrOwnHandover)

	// Not by a hand-over of a lease that it does not refer to.
	free := tree(t, `{"pw":"env://PW"}`)
	if _, err := s.Update(t.Context(), Update{Document: "free", Content: &free, Consumer: "orders-1"}, vault, nil); err != nil {
		t.Fatal(err)
	}

	// Nor may it go on waiting when it joins while it waits.
	done := make(chan error, 1)
	go func() {
		_, err := s.Update(context.Background(), Update{Document: "app", Content: &content, Consumer: "orders-2"}, vault, nil)
		done <- err
	}()
	synctest.Wait() // it waits
	in.Join("orders-2")
	wantIs(t, <-done, ErrOwnHandover)
	end(t, other)
	end(t, in)
	if _, err := s.Update(t.Context(), Update{Document: "app", Content: &content, Consumer: "orders-1"}, vault, nil); err != nil {
		t.Fatalf("after the hand-over: %v", err)
	}
}

func TestL43_NothingIsChangedAfterTheLifecycle(t *testing.T) {
	synctest.Test(t, nothingIsChangedAfterTheLifecycle)
}

func nothingIsChangedAfterTheLifecycle(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := fresh()
	s.gate.wait = time.Hour
	put(t, s, vault, "app", `{"pw":"lease://db#pw"}`)
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	before := dump(s)
	content := tree(t, `{"a":"lease://db#pw"}`)
	u := Update{Document: "app", Expected: 1, Content: &content}
	done := make(chan error, 1)
	go func() {
		_, err := s.Update(context.Background(), u, vault, nil)
		done <- err
	}()
	synctest.Wait() // it waits
	s.gate.End()
	wantIs(t, <-done, ErrLifecycleEnded)

	_, err := s.Update(t.Context(), u, vault, nil)
	wantIs(t, err, ErrLifecycleEnded)
	_, err = in.Restore(t.Context())
	wantIs(t, err, ErrLifecycleEnded)
	wantIs(t, in.Commit(t.Context()), ErrLifecycleEnded)
	_, err = s.Push(t.Context(), "db", vault)
	wantIs(t, err, ErrLifecycleEnded)
	_, err = s.Install(t.Context(), "mq", nil)
	wantIs(t, err, ErrLifecycleEnded)
	doc, _ := New("late", 1, content)
	_, err = s.Load(t.Context(), doc, vault)
	wantIs(t, err, ErrLifecycleEnded)
	_, err = s.gate.Begin("mq")
	wantIs(t, err, ErrLifecycleEnded)
	wantIs(t, s.gate.Wait(t.Context(), "", nil), ErrLifecycleEnded)
	end(t, in)
	end(t, in)
	s.gate.End()
	wantDump(t, s, before, "after the lifecycle")
}

func TestL43_TheGateAlone(t *testing.T) {
	g := NewGate(time.Millisecond)
	r, err := g.Begin("db")
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Begin("db")
	wantIs(t, err, ErrInFlight)
	wantIs(t, g.Wait(t.Context(), "", []string{"mq", "db"}), ErrBusy)
	wantIs(t, g.Wait(t.Context(), "", []string{"mq"}))
	r.Join("a")
	wantIs(t, g.Wait(t.Context(), "a", []string{"db"}), ErrOwnHandover)
	r.End()
	second, err := g.Begin("db")
	if err != nil {
		t.Fatal(err)
	}
	r.End() // an old one does not end a newer one
	wantIs(t, g.Wait(t.Context(), "a", []string{"db"}), ErrBusy)
	second.End()
	if err := g.Wait(t.Context(), "a", []string{"db"}); err != nil {
		t.Fatal(err)
	}
}
