package events

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

var key = []byte("0123456789abcdef0123456789abcdef")

// written gives a log of two epochs, sealed.
func written(t *testing.T) [][]byte {
	t.Helper()
	c := NewChain(key)
	var out [][]byte
	for i, typ := range []Type{TypeOpened, TypeRequested, TypeAcquired, TypeInstalled, TypeOpened, TypeOpened, TypeRevoking, TypeRevoked} {
		e := sample(typ)
		e.ID = fmt.Sprint("e", i)
		b, err := c.Seal(&e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func admit(key []byte, log [][]byte) (seq uint64, err error) {
	c := NewChain(key)
	for i, b := range log {
		if _, err := c.Admit(b, uint64(i+1)); err != nil {
			return uint64(i + 1), err
		}
	}
	return 0, nil
}

func TestChainHolds(t *testing.T) {
	log := written(t)
	for _, k := range [][]byte{key, nil} {
		if seq, err := admit(k, log); err != nil {
			t.Errorf("sequence %d: %v", seq, err)
		}
	}
}

func TestChainShowsWhatWasDone(t *testing.T) {
	for name, c := range map[string]struct {
		damage func([][]byte) [][]byte
		seq    uint64
		want   error
	}{
		"one edited":               {func(l [][]byte) [][]byte { l[2] = bytes.Replace(l[2], []byte(`"text"`), []byte(`"test"`), 1); return l }, 3, ErrForged},
		"one removed":              {func(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) }, 3, ErrBroken},
		"two swapped":              {func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l }, 2, ErrBroken},
		"one twice":                {func(l [][]byte) [][]byte { l[2] = l[1]; return l }, 3, ErrBroken},
		"the last of a segment":    {func(l [][]byte) [][]byte { return append(l[:3:3], l[4:]...) }, 6, ErrBroken},
		"an opened between opened": {func(l [][]byte) [][]byte { return append(l[:4:4], l[5:]...) }, 6, ErrBroken},
		"a stranger's": {func(l [][]byte) [][]byte {
			e := sample(TypeRevoked)
			b, _ := Encode(&e)
			l[3] = b
			return l
		}, 4, ErrForged},
		"a stranger's of the future": {func(l [][]byte) [][]byte {
			e := sample(TypeRevoked)
			b, _ := Encode(&e)
			l[3] = bytes.Replace(b, []byte(`"version":1`), []byte(`"version":9`), 1)
			return l
		}, 4, ErrForged},
	} {
		seq, err := admit(key, c.damage(written(t)))
		if !errors.Is(err, c.want) || seq != c.seq {
			t.Errorf("%s: sequence %d, %v; want %d, %v", name, seq, err, c.seq, c.want)
		}
	}
}

func TestAnotherKeyHoldsNothing(t *testing.T) {
	if seq, err := admit([]byte("another key, another key, another"), written(t)); seq != 1 || !errors.Is(err, ErrForged) {
		t.Fatal(seq, err)
	}
}

// TestChainAnyFlippedBitShows flips one bit anywhere in a log.
func TestChainAnyFlippedBitShows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := written(t)
		i := rapid.IntRange(0, len(log)-1).Draw(rt, "event")
		j := rapid.IntRange(0, len(log[i])-1).Draw(rt, "byte")
		log[i] = bytes.Clone(log[i])
		log[i][j] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if seq, err := admit(key, log); err == nil || seq != uint64(i+1) {
			rt.Fatalf("bit of byte %d of event %d: sequence %d, %v", j, i+1, seq, err)
		}
	})
}

func TestChainResumes(t *testing.T) {
	log := written(t)
	for cut := range log {
		a := NewChain(key)
		for i, b := range log[:cut] {
			if _, err := a.Admit(b, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		b := NewChain(key)
		b.Resume(a.State())
		for i, p := range log[cut:] {
			if _, err := b.Admit(p, uint64(i)); err != nil {
				t.Fatalf("resumed at %d: %v", cut, err)
			}
		}
	}
}
