package handover

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

func TestSealAtRestRoundTrip(t *testing.T) {
	keys := newKeys(t)
	values := []byte(`{"password":"hunter2<>&","n":9007199254740993}`)
	sealed, err := keys.SealAtRest("prod", "db", 7, values)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) || bytes.Contains(sealed, []byte("prod")) {
		t.Error("not sealed")
	}
	opened, err := keys.OpenAtRest("prod", "db", 7, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"hunter2`; !bytes.Contains(opened, []byte(want)) || !bytes.Contains(opened, []byte("9007199254740993")) {
		t.Errorf("opened %s", opened)
	}
}

func TestSealAtRestIsBoundToItsLease(t *testing.T) {
	keys := newKeys(t)
	sealed, err := keys.SealAtRest("prod", "db", 7, []byte(`{"password":"hunter2"}`))
	if err != nil {
		t.Fatal(err)
	}
	message, err := keys.SealBody(keys.Public(), wire.Key{XKey: keys.Public(), KeyID: keys.ID()})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		open func() ([]byte, error)
		want error
	}{
		"other scope":   {func() ([]byte, error) { return keys.OpenAtRest("test", "db", 7, sealed) }, ErrBinding},
		"other name":    {func() ([]byte, error) { return keys.OpenAtRest("prod", "db2", 7, sealed) }, ErrBinding},
		"other lease":   {func() ([]byte, error) { return keys.OpenAtRest("prod", "db", 8, sealed) }, ErrBinding},
		"other key":     {func() ([]byte, error) { return newKeys(t).OpenAtRest("prod", "db", 7, sealed) }, wire.ErrSeal},
		"cut":           {func() ([]byte, error) { return keys.OpenAtRest("prod", "db", 7, sealed[:40]) }, wire.ErrSeal},
		"other message": {func() ([]byte, error) { return keys.OpenAtRest("prod", "db", 7, message) }, wire.ErrMalformed},
	} {
		_, err := tc.open()
		if !errors.Is(err, tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, err := keys.SealAtRest("prod", "db", 7, []byte(`{"password":"hunter2"`)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("broken JSON: %v", err)
	}
}

func TestKeysDeriveApartAndAgain(t *testing.T) {
	seed, err := NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewKeys(seed)
	if len(a.MACKey()) != 32 || !bytes.Equal(a.MACKey(), b.MACKey()) || !bytes.Equal(a.FingerprintKey(), b.FingerprintKey()) {
		t.Error("derived keys differ between two of the same seed")
	}
	if bytes.Equal(a.MACKey(), a.FingerprintKey()) || bytes.Equal(a.MACKey(), newKeys(t).MACKey()) {
		t.Error("derived keys do not differ by purpose and seed")
	}
	if a.ID() != b.ID() || a.ID() == newKeys(t).ID() || len(a.ID()) != 16 {
		t.Errorf("id %q", a.ID())
	}
	printed := fmt.Sprintf("%v %+v %#v %s", a, a, a, seed)
	if strings.Contains(printed, seed.Reveal()) || strings.Contains(printed, "raw") {
		t.Errorf("printed %s", printed)
	}
}

func TestNewKeysRefusesOtherSeeds(t *testing.T) {
	for _, bad := range []string{"", "SXAB", "SUAKYRHVIOREXV7EUZTBHUHL7NUMHPMAS7QMDU3GTIUWEI5LDNOXD43IZY"} {
		if _, err := NewKeys(secret.New(bad)); !errors.Is(err, ErrSealKey) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
