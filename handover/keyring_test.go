package handover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/handover/wire"
)

func ring(t *testing.T, current *Keys, others ...*Keys) *Keyring {
	t.Helper()
	r, err := NewKeyring(current, others...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARingOpensUnderEachKey(t *testing.T) {
	older, newer, foreign := newKeys(t), newKeys(t), newKeys(t)
	r := ring(t, newer, older)
	for _, k := range []*Keys{older, newer} {
		sealed, err := k.SealAtRest("prod", "db", 1, []byte(`{"a":"b"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.OpenAtRest("prod", "db", 1, sealed); err != nil || string(got) != `{"a":"b"}` {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := r.OpenAtRest("prod", "db", 2, sealed); !errors.Is(err, ErrBinding) {
			t.Errorf("another lease: %v", err)
		}
	}
	sealed, err := foreign.SealAtRest("prod", "db", 1, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.OpenAtRest("prod", "db", 1, sealed); !errors.Is(err, wire.ErrSeal) {
		t.Errorf("under a foreign key: %v", err)
	}
	if _, err := NewKeyring(newer, older, newer); !errors.Is(err, ErrSameKey) {
		t.Errorf("one key twice: %v", err)
	}
	if got := r.IDs(); !slices.Equal(got, []string{newer.ID(), older.ID()}) || r.ID() != newer.ID() {
		t.Errorf("%v, the first is %s", got, r.ID())
	}
}

// TestWhoPinsAKeyIsToldUnderIt, and who does not say under each.
func TestWhoPinsAKeyIsToldUnderIt(t *testing.T) {
	older, newer, foreign := newKeys(t), newKeys(t), newKeys(t)
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	to, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	r := ring(t, newer, older)
	for name, c := range map[string]struct {
		pinned []string
		want   []*Keys
	}{
		"the old one":  {[]string{older.Public()}, []*Keys{older}},
		"the new one":  {[]string{newer.Public()}, []*Keys{newer}},
		"both":         {[]string{older.Public(), newer.Public()}, []*Keys{newer}},
		"does not say": {nil, []*Keys{older, newer}},
		"a foreign":    {[]string{foreign.Public()}, []*Keys{older, newer}},
	} {
		sealed, err := r.SealFor(to, c.pinned, wire.Left{Incarnation: "01JDYAVT2R0000000000000001"})
		if err != nil || len(sealed) != len(c.want) {
			t.Errorf("%s: %d messages, %v", name, len(sealed), err)
			continue
		}
		for i, k := range c.want {
			if _, err := wire.Open(pair, k.Public(), sealed[i]); err != nil {
				t.Errorf("%s: message %d: %v", name, i, err)
			}
		}
	}
	if sealed, err := ring(t, newer).SealFor(to, []string{older.Public()}, wire.Left{Incarnation: "01JDYAVT2R0000000000000001"}); err != nil || len(sealed) != 1 {
		t.Errorf("with one key: %d messages, %v", len(sealed), err)
	}
}

func TestValuesAreSealedAnewInPlace(t *testing.T) {
	blobs, _, ctx := openBlobs(t)
	older, newer := newKeys(t), newKeys(t)
	r := ring(t, newer, older)
	sealed, err := older.SealWithOrigin("prod", "db", 1, []byte(`{"a":"b"}`), &Origin{LeaseID: "id", Guard: "g"})
	if err == nil {
		err = blobs.Put(ctx, "prod", "db", 1, sealed)
	}
	if err == nil {
		err = blobs.Probe(ctx, older, "prod")
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if changed, err := blobs.Reseal(ctx, r, "prod", "db", 1); changed != want || err != nil {
			t.Errorf("time %d: changed %t, %v", i, changed, err)
		}
		if changed, err := blobs.ResealProbe(ctx, r, "prod"); changed != want || err != nil {
			t.Errorf("the probe, time %d: changed %t, %v", i, changed, err)
		}
	}
	stored, err := blobs.Get(ctx, "prod", "db", 1)
	if err != nil {
		t.Fatal(err)
	}
	alone := ring(t, newer)
	if got, err := alone.OpenAtRest("prod", "db", 1, stored); err != nil || string(got) != `{"a":"b"}` {
		t.Errorf("%s, %v", got, err)
	}
	if from, err := alone.OriginAtRest("prod", "db", 1, stored); err != nil || from == nil || from.LeaseID != "id" || from.Guard != "g" {
		t.Errorf("%+v, %v", from, err)
	}
	if err := blobs.Probe(ctx, older, "prod"); !errors.Is(err, wire.ErrSeal) {
		t.Errorf("the probe opens with the old key: %v", err)
	}
	// What is gone stays gone, and what nobody opens is said.
	if err := blobs.Purge(ctx, "prod", "db", 1); err != nil {
		t.Fatal(err)
	}
	if changed, err := blobs.Reseal(ctx, r, "prod", "db", 1); changed || err != nil {
		t.Errorf("purged: changed %t, %v", changed, err)
	}
	if sealed, err = newKeys(t).SealAtRest("prod", "db", 2, []byte(`{}`)); err == nil {
		err = blobs.Put(ctx, "prod", "db", 2, sealed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.Reseal(ctx, r, "prod", "db", 2); !errors.Is(err, wire.ErrSeal) {
		t.Errorf("under a foreign key: %v", err)
	}
}

func TestPastKeysAreKeptUnderTheCurrentOne(t *testing.T) {
	blobs, _, ctx := openBlobs(t)
	older, newer := newKeys(t), newKeys(t)
	if err := blobs.KeepPast(ctx, ring(t, newer, older), "prod", PastOf(older)); err != nil {
		t.Fatal(err)
	}
	past, closed, err := blobs.Past(ctx, ring(t, newer), "prod")
	if err != nil || closed != 0 || len(past) != 1 || past[0].ID != older.ID() || !past[0].Needed || !slices.Equal(past[0].MACKey, older.MACKey()) {
		t.Errorf("%d, %d closed, %v", len(past), closed, err)
	}
	if said := fmt.Sprintf("%v %+v %#v", past, past[0], past[0]); strings.Contains(said, "MACKey") || !strings.Contains(said, "past seal key") {
		t.Error("printing it prints the key")
	}
	if past, closed, err := blobs.Past(ctx, ring(t, older), "prod"); err != nil || closed != 1 || len(past) != 0 {
		t.Errorf("with the old key: %d, %d closed, %v", len(past), closed, err)
	}
	if past, closed, err := blobs.Past(ctx, ring(t, newer), "other"); err != nil || closed != 0 || len(past) != 0 {
		t.Errorf("of another scope: %d, %d closed, %v", len(past), closed, err)
	}
	if list, err := blobs.List(ctx, "prod"); err != nil || len(list) != 0 {
		t.Errorf("it counts as a lease: %v, %v", list, err)
	}
	if err := blobs.DropPast(ctx, "prod", older.ID()); err != nil {
		t.Fatal(err)
	}
	if past, _, err := blobs.Past(ctx, ring(t, newer), "prod"); err != nil || len(past) != 0 {
		t.Errorf("%v, %v", past, err)
	}
}
