package epochkv

import (
	"errors"
	"strings"
	"testing"
)

func TestE7_EpochsOnlyGrow(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	last := a.lead("x")
	grow := func(what string) {
		t.Helper()
		epoch := a.stepAbove("x", last).Epoch
		if epoch <= last {
			t.Fatalf("after %s: epoch %d, not above %d", what, epoch, last)
		}
		last = epoch
	}
	grow("an own claim")
	if err := a.Release(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	grow("a release")
	kv, err := js.KeyValue(t.Context(), DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), "scope.x"); err != nil {
		t.Fatal(err)
	}
	grow("a delete")

	t.Log("the bucket is recreated behind our back")
	if err := js.DeleteStream(t.Context(), "KV_"+DefaultBucket); err != nil {
		t.Fatal(err)
	}
	a.crash()
	b := start(t, js, clk, a.state.Path())
	if len(b.state.state.Epochs) != 0 {
		t.Errorf("epochs %v of another bucket were kept", b.state.state.Epochs)
	}
	const logEpoch = 1000
	_, err = b.ClaimStep(t.Context(), "x", logEpoch)
	var behind *EpochBehind
	if !errors.As(err, &behind) || !strings.Contains(err.Error(), "leasesvc recover") {
		t.Fatalf("claim step: %v, want a refusal that names the way out", err)
	}
	if v, err := b.Look(t.Context(), "x"); err != nil || v.Cell != nil {
		t.Errorf("the refused claim wrote %+v (%v)", v.Cell, err)
	}
	if err := Recreate(t.Context(), js, DefaultBucket, 1, logEpoch); err != nil {
		t.Fatal(err)
	}
	b.crash()
	c := start(t, js, clk, a.state.Path())
	if got := c.stepAbove("x", logEpoch); got.Epoch <= logEpoch {
		t.Errorf("after recover: epoch %d, want above %d", got.Epoch, logEpoch)
	}
}

func TestE7_ARevisionThatComesOutTooLowIsRefused(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	last, err := a.store.lastRevision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var behind *EpochBehind
	if _, err := a.ClaimStep(t.Context(), "x", last+1); !errors.As(err, &behind) {
		t.Fatalf("claim step: %v, want EpochBehind", err)
	}
	a.lieLast = 2 * last // the backstop, should the bucket's state be told wrong
	if _, err := a.ClaimStep(t.Context(), "x", last+2); !errors.As(err, &behind) || len(a.puts) != 1 {
		t.Fatalf("claim step: %v after %v, want EpochBehind after the write", err, a.puts)
	}
	if a.Held("x") != 0 {
		t.Errorf("held at %d", a.Held("x"))
	}
}
