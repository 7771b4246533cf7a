package epochkv

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestE1_OneReadAndAtMostOneCompareAndSet(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	dead, ch := start(t, js, clk, ""), start(t, js, clk, "")
	const n = 50
	for i := range n {
		dead.lead(fmt.Sprintf("s%d", i))
	}
	dead.crash()
	claimed, rounds := map[string]bool{}, 0
	for ; len(claimed) < n && rounds < 20; rounds++ {
		clk.advance(heartbeat)
		ch.renew()
		holderReads := 0
		for i := range n {
			scope := fmt.Sprintf("s%d", i)
			if claimed[scope] {
				continue
			}
			ch.reset()
			c := ch.step(scope)
			claimed[scope] = c.Claimed()
			if !claimed[scope] {
				delete(claimed, scope)
			}
			for _, key := range ch.gets {
				if key == "holder."+dead.HolderID() {
					holderReads++
				} else if key != "scope."+scope {
					t.Errorf("step of %s read %s", scope, key)
				}
			}
			if scopeReads := len(slices.DeleteFunc(slices.Clone(ch.gets), func(k string) bool { return k != "scope."+scope })); scopeReads != 1 {
				t.Errorf("step of %s read its cell %d times", scope, scopeReads)
			}
			if len(ch.puts) > 1 {
				t.Errorf("step of %s wrote %v", scope, ch.puts)
			}
		}
		if holderReads > 1 {
			t.Errorf("round %d read the holder's cell %d times for %d scopes", rounds, holderReads, n)
		}
	}
	if rounds != 8 && rounds != 7 {
		t.Errorf("all scopes claimed after %d rounds, want the 7th read to depose", rounds)
	}
	if got := ch.Stats(); got.Deposals != 1 || got.Claims != n {
		t.Errorf("stats %+v, want 1 deposal for %d claims", got, n)
	}
}

func TestE2_NoCellIsCreatedAndALostRaceWaits(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	b.beforePut = func(key string) error { // a is faster than b, once
		if key == "scope.x" && a.Held("x") == 0 {
			if c := a.step("x"); c.How != HowFresh {
				t.Errorf("a took it %q, want fresh", c.How)
			}
		}
		return nil
	}
	c := b.step("x")
	if c.Claimed() || a.Held("x") == 0 {
		t.Fatalf("b claimed %+v over a's %d", c, a.Held("x"))
	}
	if b.Stats().LostRaces != 1 {
		t.Errorf("lost races %d, want 1", b.Stats().LostRaces)
	}
	if c = b.step("x"); c.Claimed() || c.Holder != a.HolderID() {
		t.Errorf("then %+v, want to wait for %s", c, a.HolderID())
	}
}

func TestE3_TheSeventhReadOfAnUnmovedTokenTakes(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	first := a.lead("x")
	for i := range 6 {
		if c := b.beat("x"); c.Claimed() || c.QuietPolls != i || c.Next == 0 {
			t.Fatalf("read %d: %+v, want %d quiet polls", i+1, c, i)
		}
	}
	a.renew() // moved at the last moment: from zero
	for i := range 6 {
		if c := b.beat("x"); c.Claimed() || c.QuietPolls != i || c.Next == 0 {
			t.Fatalf("after it moved, read %d: %+v, want %d quiet polls", i+1, c, i)
		}
	}
	c := b.beat("x") // the 7th read deposes, and the step after, at once, takes
	if c.Claimed() || c.Next != 0 || b.Stats().Deposals != 1 {
		t.Fatalf("7th read: %+v, stats %+v; want deposed, step again at once", c, b.Stats())
	}
	c = b.step("x")
	if c.How != HowQuiet || c.Epoch <= first {
		t.Fatalf("claimed %+v, want quiet, above %d", c, first)
	}
	var f *Fenced
	if err := a.Renew(t.Context(), nil); !errors.As(err, &f) || f.By != b.HolderID() {
		t.Errorf("the deposed holder renewed: %v", err)
	}
}

func TestE3_EarlyStepsDoNotCount(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	b.beat("x")
	for range 50 {
		b.refresh() // as a hint does
		if c := b.step("x"); c.QuietPolls != 0 {
			t.Fatalf("%+v: 50 steps within one heartbeat counted", c)
		}
	}
}

func TestE3_SilenceDoesNotCountWhileOurOwnRenewalsFail(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	for range 4 {
		b.beat("x")
	}
	b.beforePut = func(string) error { return errDown } // reads go on, as from a leader without quorum
	for range 5 {
		clk.advance(heartbeat)
		if err := b.Renew(t.Context(), nil); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		c := b.step("x")
		if c.QuietPolls > 6 || c.Next == 0 {
			t.Fatalf("counted %+v", c)
		}
	}
	if c := b.step("x"); c.QuietPolls != 0 {
		t.Errorf("%+v: want the count to start from zero", c)
	}
	b.reset()
	if c := b.beat("x"); c.QuietPolls > 1 {
		t.Errorf("%+v after the store came back", c)
	}
}

func TestE4_ARestartedProcessResumesAndAStrangerWaits(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	dir := filepath.Join(t.TempDir(), "b")
	b := start(t, js, clk, dir)
	a.lead("x")
	for range 5 {
		b.beat("x")
	}
	if c := b.step("x"); c.QuietPolls != 4 {
		t.Fatalf("%+v, want 4 quiet polls", c)
	}
	b.crash()
	b2 := start(t, js, clk, dir)
	if b2.HolderID() != b.HolderID() {
		t.Fatalf("holder id %s became %s over a restart", b.HolderID(), b2.HolderID())
	}
	if c := b2.beat("x"); c.QuietPolls != 5 {
		t.Errorf("restarted: %+v, want the 5th quiet poll", c)
	}
	stranger := start(t, js, clk, "")
	if c := stranger.beat("x"); c.QuietPolls != 0 {
		t.Errorf("stranger: %+v, want to count from zero", c)
	}
	b2.renew()
	if c := b2.beat("x"); c.Next != 0 {
		t.Errorf("resumed: %+v, want the holder deposed", c)
	}
}

func TestE6_TheSetReplacesTheObservedTokenOnly(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	for range 6 {
		b.beat("x")
	}
	clk.advance(heartbeat)
	b.renew()

	t.Log("any other error leaves the observation as it was")
	b.beforePut = once("holder."+a.HolderID(), errDown)
	if _, err := b.ClaimStep(t.Context(), "x", 0); !errors.Is(err, errDown) {
		t.Fatalf("claim step: %v, want the store's error", err)
	}
	if o := b.state.observed("holder." + a.HolderID()); o.QuietPolls != 6 {
		t.Errorf("observation %+v, want 6 quiet polls still", o)
	}
	b.beforePut = once("holder."+a.HolderID(), fmt.Errorf("10164: %w", ErrInFlight))
	if _, err := b.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrInFlight) {
		t.Fatalf("claim step: %v, want ErrInFlight", err)
	}
	if o := b.state.observed("holder." + a.HolderID()); o.QuietPolls != 6 {
		t.Errorf("observation %+v after 10164, want 6 quiet polls still", o)
	}

	t.Log("a lost race starts from zero, persisted")
	b.beforePut = func(key string) error {
		if key == "holder."+a.HolderID() {
			a.renew()
		}
		return nil
	}
	if c := b.step("x"); c.Claimed() || c.Next == 0 || b.Stats().LostRaces != 1 {
		t.Fatalf("%+v, stats %+v: want a lost race", c, b.Stats())
	}
	b.reset()
	if err := a.FreshEnough(clk.now()); err != nil {
		t.Errorf("a: %v", err)
	}
	clk.advance(heartbeat) // let it be written
	b.renew()
	b.crash()
	restarted := start(t, js, clk, b.state.Path())
	if o := restarted.state.observed("holder." + a.HolderID()); o.QuietPolls != 0 {
		t.Errorf("persisted observation %+v, want none", o)
	}
}

func TestE6_ALostDepositionAnswerIsFoundByTheNextRead(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	for range 6 {
		b.beat("x")
	}
	clk.advance(heartbeat)
	b.renew()
	b.afterPut = once("holder."+a.HolderID(), errCut)
	if _, err := b.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("claim step: %v, want an unknown outcome", err)
	}
	if c := b.step("x"); c.How != HowQuiet {
		t.Fatalf("then %+v, want claimed", c)
	}
}

func TestE8_ACrashBetweenSetAndFenceIsNotOurOwn(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	dir := filepath.Join(t.TempDir(), "a")
	a := start(t, js, clk, dir)
	claimed := a.step("x")
	if claimed.How != HowFresh {
		t.Fatalf("%+v", claimed)
	}
	a.crash() // before Opened

	b := start(t, js, clk, dir)
	c, steps := b.until("x")
	if c.How != HowQuiet || steps != 7 {
		t.Errorf("taken %q after %d steps, want quiet after 7: the claim was never opened", c.How, steps)
	}
	if err := b.Opened("x", c.Epoch); err != nil {
		t.Fatal(err)
	}
	clk.advance(heartbeat)
	b.renew()
	b.crash()

	d := start(t, js, clk, dir)
	if got := d.step("x"); got.How != HowOwn {
		t.Errorf("opened, then crashed: %+v, want own at once", got)
	}
	if err := d.Opened("x", c.Epoch); err == nil {
		t.Error("an epoch that is not held was noted as opened")
	}
}

func TestE8_AStrangerMayTakeWhatNobodyOpened(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.step("x")
	a.crash()
	again := start(t, js, clk, a.state.Path()) // renews, but never asks for x
	b := start(t, js, clk, "")
	steps := 0
	for c := (Claim{}); !c.Claimed() && steps < 20; steps++ {
		again.renew()
		c = b.beat("x")
	}
	if steps != 7 {
		t.Errorf("claimed after %d steps, want 7", steps)
	}
	again.renew() // the other incarnation was not deposed for it
	if b.Stats().Deposals != 0 {
		t.Errorf("stats %+v, want no deposal", b.Stats())
	}
}

func TestE8_AClaimWhoseAnswerWasLostIsTakenAgain(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.afterPut = once("scope.x", errCut)
	if _, err := a.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("claim step: %v, want an unknown outcome", err)
	}
	lost, err := a.Look(t.Context(), "x")
	if err != nil || lost.Cell == nil || lost.Cell.Holder != a.HolderID() {
		t.Fatalf("the write whose answer was lost is not there: %+v, %v", lost, err)
	}
	c := a.step("x")
	if c.How != HowQuiet || c.Epoch <= lost.Revision {
		t.Errorf("%+v, want a new epoch above %d, and no clean hand-over", c, lost.Revision)
	}
}

func TestE9_ReleasedAndOwnNeedNoQuietPolls(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	own := a.lead("y")
	if err := a.Release(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if c := b.step("x"); c.How != HowReleased {
		t.Errorf("%+v, want released at once", c)
	}
	clk.advance(heartbeat)
	a.renew()
	a.crash()
	again := start(t, js, clk, a.state.Path())
	if c := again.step("y"); c.How != HowOwn || c.Epoch <= own {
		t.Errorf("%+v, want own at once, above %d", c, own)
	}
}

func TestClaimStepDropsTheOldClaimFirst(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.lead("x")
	a.beforeGet = func(string) error { return errDown }
	if _, err := a.ClaimStep(t.Context(), "x", 0); !errors.Is(err, errDown) || a.Held("x") != 0 {
		t.Errorf("%v, held %d", err, a.Held("x"))
	}
}

func TestE11_AClaimThatEndsAfterTheFenceIsNone(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.afterPut = func(key string) error {
		if key == "scope.x" { // while the claim's answer was on its way
			_ = a.fenced("somebody", errDown)
		}
		return nil
	}
	if _, err := a.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrNoHolder) || a.Held("x") != 0 {
		t.Errorf("%v, held %d", err, a.Held("x"))
	}
}

func TestE1_ACellReadBeforeItsHolderStartedAgainIsReadAgain(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	b.step("x")
	a.crash()
	again := start(t, js, clk, a.state.Path())
	again.lead("y") // all within the same instant
	b.reset()
	b.step("y")
	if want := "holder." + a.HolderID(); len(b.gets) != 2 || b.gets[1] != want {
		t.Errorf("read %v, want %s again: y was claimed after it was read", b.gets, want)
	}
	if o := b.state.observed("scope.y"); o.Token != "" {
		t.Errorf("y is taken for nobody's: %+v", o)
	}
}

func TestClaimStepRefusesBadNamesAndNoHolder(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := open(t, js, clk, "")
	for _, bad := range []string{"", "_x", "a.b", "a>b", "*", strings.Repeat("a", 65), "-a"} {
		if _, err := a.ClaimStep(t.Context(), bad, 0); !errors.Is(err, errBadName) {
			t.Errorf("scope %q: %v", bad, err)
		}
	}
	if _, err := a.ClaimStep(t.Context(), "x", 0); !errors.Is(err, ErrNoHolder) {
		t.Errorf("without a holder cell: %v", err)
	}
}

func TestHintsMakeOthersStepNow(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b, third := start(t, js, clk, ""), start(t, js, clk, ""), start(t, js, clk, "")
	hints, err := b.Hints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		select {
		case s := <-hints:
			return s
		case <-time.After(10 * time.Second):
			t.Fatal("no hint")
			return ""
		}
	}
	a.lead("x")
	a.lead("y")
	if err := a.Release(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "x" {
		t.Errorf("hint %q, want x", got)
	}
	if c := b.step("x"); !c.Claimed() {
		t.Errorf("%+v, want claimed", c)
	}
	for quiet := 0; third.Stats().Deposals == 0; {
		clk.advance(heartbeat)
		b.renew()
		third.renew()
		if quiet >= 4 { // so that b has just read the holder's cell when it is deposed
			b.step("y")
		}
		quiet = third.step("y").QuietPolls
	}
	if b.Stats().Deposals != 0 {
		t.Fatal("b was to be told, not to do it")
	}
	if got := next(); got != "" {
		t.Errorf("hint %q, want that of a deposed holder", got)
	}
	if c := b.step("y"); c.How != HowQuiet {
		t.Errorf("%+v, want claimed at once: the other deposed its holder", c)
	}
}
