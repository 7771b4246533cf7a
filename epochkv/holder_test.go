package epochkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestE10_RenewingMovesTheTokenAndKeepsHolderAndEpoch(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	epoch := a.lead("x")
	before, token := a.holderCell()
	for range 3 {
		a.renew()
		after, moved := a.holderCell()
		if moved <= token || after.Holder != before.Holder || after.Incarnation != before.Incarnation || after.Attempt == before.Attempt {
			t.Fatalf("renewed %d %+v to %d %+v", token, before, moved, after)
		}
		before, token = after, moved
	}
	v, err := a.Look(t.Context(), "x")
	if err != nil || v.Epoch() != epoch || a.Held("x") != epoch {
		t.Errorf("epoch %d, held %d, want %d still (%v)", v.Epoch(), a.Held("x"), epoch, err)
	}
}

func TestE11_ALostAnswerIsAdoptedAndTheTokenMoves(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	epoch := a.lead("x")
	key := "holder." + a.HolderID()
	a.afterPut = once(key, errCut)
	if err := a.Renew(t.Context(), nil); !errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("renewal: %v, want an unknown outcome", err)
	}
	b.step("x") // a challenger sees the token of the lost answer
	_, lost := a.holderCell()
	a.reset()
	a.renew()
	_, token := a.holderCell()
	if token <= lost {
		t.Errorf("token %d, want it moved from the adopted %d", token, lost)
	}
	if len(a.gets) != 1 || len(a.puts) != 2 {
		t.Errorf("read %v, wrote %v; want one read, and the renewal twice", a.gets, a.puts)
	}
	if c := b.step("x"); c.QuietPolls != 0 {
		t.Errorf("the challenger goes on counting: %+v", c)
	}
	if a.Held("x") != epoch || a.Stats().Adopted != 1 {
		t.Errorf("held %d, stats %+v", a.Held("x"), a.Stats())
	}
}

func TestE11_EverythingElseIsADeposal(t *testing.T) {
	js := connect(t, runServer(t).ClientURL())
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, a, b *instance)
		by   func(a, b *instance) string
	}{
		{"deposed", func(t *testing.T, a, b *instance) {
			w, err := b.watch(t.Context(), a.HolderID(), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.depose(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			<-w.lock
		}, func(a, b *instance) string { return b.HolderID() }},
		{"lost answer, failing read", func(t *testing.T, a, b *instance) {
			a.afterPut = once("holder."+a.HolderID(), errCut)
			if err := a.Renew(t.Context(), nil); !errors.Is(err, ErrUnknownOutcome) {
				t.Fatal(err)
			}
			a.beforeGet = func(string) error { return errDown }
		}, func(a, b *instance) string { return "" }},
		{"a copied state directory", func(t *testing.T, a, b *instance) {
			dir := t.TempDir()
			state, err := os.ReadFile(filepath.Join(a.state.Path(), stateFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, stateFile), state, 0o600); err != nil {
				t.Fatal(err)
			}
			start(t, js, a.clk, dir)
		}, func(a, b *instance) string { return a.HolderID() }},
		{"the cell is gone", func(t *testing.T, a, b *instance) {
			kv, err := js.KeyValue(t.Context(), DefaultBucket)
			if err != nil {
				t.Fatal(err)
			}
			if err := kv.Delete(t.Context(), "holder."+a.HolderID()); err != nil {
				t.Fatal(err)
			}
		}, func(a, b *instance) string { return "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clk := newClock()
			a, b := start(t, js, clk, ""), start(t, js, clk, "")
			a.lead("x-" + strings.ReplaceAll(tc.name[:4], " ", "-"))
			tc.do(t, a, b)
			err := a.Renew(t.Context(), nil)
			var f *Fenced
			if !errors.As(err, &f) || f.By != tc.by(a, b) {
				t.Fatalf("renewal: %v, want fenced by %q", err, tc.by(a, b))
			}
			if len(a.leases) != 0 {
				t.Errorf("claims %v survived", a.leases)
			}
			if err := a.FreshEnough(clk.now()); !errors.As(err, &f) {
				t.Errorf("fresh enough: %v, want fenced", err)
			}
			if err := a.Renew(t.Context(), nil); !errors.Is(err, ErrNoHolder) {
				t.Errorf("renewing again: %v, want ErrNoHolder", err)
			}
			a.reset()
			if err := a.StartHolder(t.Context()); err != nil {
				t.Fatalf("starting again: %v", err)
			}
			a.renew()
		})
	}
}

func TestE11_InFlightAndUnknownAreNoDeposal(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	epoch := a.lead("x")
	for _, cause := range []error{ErrInFlight, errCut, errDown, errNoBacking, context.DeadlineExceeded} {
		a.beforePut = once("holder."+a.HolderID(), fmt.Errorf("test: %w", cause))
		if err := a.Renew(t.Context(), nil); !errors.Is(err, cause) {
			t.Errorf("renewal: %v, want %v", err, cause)
		}
		if a.Held("x") != epoch {
			t.Errorf("%v cost the claim", cause)
		}
	}
	a.renew()
	if len(a.gets) != 1 { // of lead
		t.Errorf("read %v, want no read for what is no refusal", a.gets)
	}
}

func TestE13_TheEchoRidesOnTheRenewal(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "", func(c *Config) { c.Version, c.Instance = "1.2.3", "left" })
	a.lead("x")
	a.reset()
	want := `{"seq":7,"mode":"lead"}`
	if err := a.Renew(t.Context(), []byte(want)); err != nil {
		t.Fatal(err)
	}
	if len(a.gets) != 0 || len(a.puts) != 1 {
		t.Errorf("read %v, wrote %v; want the one renewal", a.gets, a.puts)
	}
	v, err := a.Look(t.Context(), "x")
	if err != nil || string(v.Holder.Echo) != want || v.Holder.Version != "1.2.3" || v.Holder.Instance != "left" {
		t.Errorf("echo %+v, %v", v.Holder, err)
	}
	for _, none := range [][]byte{nil, []byte("{not json"), []byte(`"` + strings.Repeat("x", maxEcho) + `"`)} {
		if err := a.Renew(t.Context(), []byte(want)); err != nil {
			t.Fatal(err)
		}
		if err := a.Renew(t.Context(), none); err != nil {
			t.Fatal(err)
		}
		if cell, _ := a.holderCell(); cell.Echo != nil {
			t.Errorf("the old echo was not cleared: %.40s", cell.Echo)
		}
	}
}

func TestE21_RenewalYoungerThanTheQuietWindowOnBothClocks(t *testing.T) {
	js := connect(t, runServer(t).ClientURL())
	a := start(t, js, newClock(), "", func(c *Config) { c.now = time.Now })
	a.renew()
	sent := a.me.sent
	window := a.QuietWindow()
	for _, tc := range []struct {
		name string
		now  time.Time
		ok   bool
	}{
		{"just sent", sent, true},
		{"just inside", sent.Add(window - 1), true},
		{"at the window", sent.Add(window), false},
		{"the machine slept: only the wall clock moved", sent.Round(0).Add(window), false},
	} {
		if err := a.FreshEnough(tc.now); (err == nil) != tc.ok || (!tc.ok && !errors.Is(err, ErrStale)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestE21_TheSendingCountsNotTheAnswer(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	sent := clk.now()
	a.afterPut = func(string) error { clk.advance(a.QuietWindow() - 1); return nil } // a slow answer
	a.renew()
	a.reset()
	if !a.me.sent.Equal(sent) {
		t.Fatalf("counted from %s, sent at %s", a.me.sent, sent)
	}
	if err := a.FreshEnough(clk.now()); err != nil {
		t.Error(err)
	}
	clk.advance(1)
	if err := a.FreshEnough(clk.now()); !errors.Is(err, ErrStale) {
		t.Errorf("%v, want stale", err)
	}
	if _, err := a.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrStale) {
		t.Errorf("claim step: %v, want stale: who can't renew can't lead", err)
	}
}

func TestE22_TwoNoRespondersAreTheQuietPolls(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	type answer struct {
		none bool
		err  error
	}
	var asked []string
	say := answer{none: true}
	presence := func(_ context.Context, holder string) (bool, error) {
		asked = append(asked, holder)
		return say.none, say.err
	}
	a := start(t, js, clk, "")
	b := start(t, js, clk, "", func(c *Config) { c.Presence = presence })
	a.lead("x")

	t.Log("two, less than a heartbeat apart")
	b.beat("x")
	clk.advance(heartbeat * 9 / 10)
	if c := b.step("x"); c.Next != heartbeat/10 {
		t.Fatalf("%+v, want to step again when the second question counts", c)
	}
	t.Log("an answer, an error, or a moved token in between starts over")
	for _, between := range []func(){
		func() { say = answer{none: false} },
		func() { say = answer{none: true, err: errDown} },
	} {
		between()
		if c := b.beat("x"); c.Next == 0 {
			t.Fatalf("%+v: deposed", c)
		}
		say = answer{none: true}
		if c := b.beat("x"); c.Next == 0 {
			t.Fatalf("%+v: one is not two in a row", c)
		}
		a.renew()
	}
	a.renew()
	if c := b.beat("x"); c.Next == 0 {
		t.Fatalf("%+v: the token moved", c)
	}
	t.Log("our own failing read is no silence, and starts over")
	b.beforeGet = once("holder."+a.HolderID(), errDown)
	clk.advance(heartbeat)
	b.renew()
	if _, err := b.ClaimStep(t.Context(), "x", 0); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	if c := b.beat("x"); c.Next == 0 {
		t.Fatalf("%+v: deposed over a failing read", c)
	}
	t.Log("two in a row, a heartbeat apart, unmoved")
	if c := b.beat("x"); c.Next != 0 {
		t.Fatalf("%+v, want deposed", c)
	}
	if c := b.step("x"); c.How != HowQuiet {
		t.Fatalf("%+v", c)
	}
	if s := b.Stats(); s.FastDeposals != 1 || s.Deposals != 1 {
		t.Errorf("stats %+v", s)
	}
	for _, h := range asked {
		if h != a.HolderID() {
			t.Errorf("asked %s", h)
		}
	}
	var f *Fenced
	if err := a.Renew(t.Context(), nil); !errors.As(err, &f) {
		t.Errorf("false deposal: %v, want fenced", err)
	}
}

func TestE18_StoppingMarksTheHolderAndFreesNothingUnreleased(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("released")
	a.lead("kept")
	if err := a.Release(t.Context(), "released"); err != nil {
		t.Fatal(err)
	}
	if err := a.StopHolder(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.StopHolder(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
	if cell, _ := a.holderCell(); cell.State != HolderStopped {
		t.Errorf("state %s", cell.State)
	}
	if c := b.step("released"); c.How != HowReleased {
		t.Errorf("%+v", c)
	}
	if c, steps := b.until("kept"); steps != 7 || c.How != HowQuiet {
		t.Errorf("an unreleased scope was taken %q after %d steps, want quiet after 7", c.How, steps)
	}
}

func TestE19_LookingMovesNothing(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	epoch := a.lead("x")
	_, token := a.holderCell()
	b.reset()
	for range 10 {
		clk.advance(heartbeat)
		v, err := b.Look(t.Context(), "x")
		if err != nil || v.Epoch() != epoch || v.Token != token || v.Holder.Holder != a.HolderID() {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if len(b.puts) != 0 || len(b.state.state.Observed) != 0 {
		t.Errorf("looking wrote %v, observed %v", b.puts, b.state.state.Observed)
	}
	if v, err := b.Look(t.Context(), "never"); err != nil || v.Cell != nil || v.Epoch() != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestCellsAreReadable(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	epoch := a.lead("x")
	kv, err := js.KeyValue(t.Context(), DefaultBucket) // as `nats kv get` does
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "scope.x")
	if err != nil || e.Revision() != epoch || !json.Valid(e.Value()) {
		t.Errorf("%v, %v", e, err)
	}
}
