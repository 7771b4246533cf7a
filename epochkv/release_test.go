package epochkv

import (
	"errors"
	"fmt"
	"testing"
)

func TestE14_ReleaseDropsFirstMarksAndNeverDeletes(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	key := "scope.x"
	look := func() View {
		t.Helper()
		v, err := b.Look(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}

	t.Log("without a claim: nothing")
	a.reset()
	if err := a.Release(t.Context(), "x"); err != nil || len(a.puts)+len(a.gets) != 0 {
		t.Errorf("%v, read %v, wrote %v", err, a.gets, a.puts)
	}

	t.Log("the claim is dropped before anything is written, also when that fails")
	epoch := a.lead("x")
	a.beforePut = func(string) error {
		if a.Held("x") != 0 {
			t.Error("still held while releasing")
		}
		return errDown
	}
	if err := a.Release(t.Context(), "x"); !errors.Is(err, errDown) {
		t.Errorf("release: %v", err)
	}
	a.reset()
	if v := look(); v.Epoch() != epoch || a.Held("x") != 0 {
		t.Errorf("cell %+v, held %d", v.Cell, a.Held("x"))
	}

	t.Log("marked, not deleted")
	epoch = a.lead("x")
	if err := a.Release(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if v := look(); v.Cell == nil || !v.Cell.Released || v.Cell.Epoch != epoch || v.Cell.Holder != a.HolderID() {
		t.Errorf("cell %+v", v.Cell)
	}
	if got := a.state.epoch("x"); got != 0 {
		t.Errorf("epoch %d is remembered", got)
	}

	t.Log("a lost answer is read back")
	a.lead("x")
	a.afterPut = once(key, errCut)
	if err := a.Release(t.Context(), "x"); err != nil || !look().Cell.Released {
		t.Errorf("release: %v, cell %+v", err, look().Cell)
	}
	t.Log("a lost write is not taken for a release")
	a.reset()
	a.lead("x")
	a.beforePut = once(key, errCut)
	if err := a.Release(t.Context(), "x"); !errors.Is(err, ErrUnknownOutcome) || look().Cell.Released {
		t.Errorf("release: %v, cell %+v", err, look().Cell)
	}

	t.Log("in flight is repeated")
	a.reset()
	a.lead("x")
	a.beforePut = once(key, fmt.Errorf("test: %w", ErrInFlight))
	if err := a.Release(t.Context(), "x"); err != nil || !look().Cell.Released {
		t.Errorf("release: %v, cell %+v", err, look().Cell)
	}

	t.Log("refused because we were deposed: success")
	a.reset()
	a.lead("x")
	for range 8 { // a says nothing
		b.beat("x")
	}
	if b.Held("x") == 0 || a.Held("x") == 0 {
		t.Fatalf("held by b at %d, a believes %d", b.Held("x"), a.Held("x"))
	}
	if err := a.Release(t.Context(), "x"); err != nil {
		t.Errorf("release: %v", err)
	}
	if v := look(); v.Epoch() != b.Held("x") {
		t.Errorf("the release of a deposed holder changed the cell: %+v", v.Cell)
	}
}
