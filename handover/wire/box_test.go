package wire

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"
)

func curvePair(t testing.TB) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// TestBoxIsSealAndOpen: what one seals the other opens, both ways.
func TestBoxIsSealAndOpen(t *testing.T) {
	ours, ourKey := curvePair(t)
	theirs, theirKey := curvePair(t)
	_, stranger := curvePair(t)
	b, err := NewBox(ours)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("a credential")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				sealed, err := b.Seal(theirKey, text)
				if err != nil {
					t.Error(err)
					return
				}
				if plain, err := Open(theirs, ourKey, sealed); err != nil || !bytes.Equal(plain, text) {
					t.Error(err)
				}
				if sealed, err = Seal(theirs, ourKey, text); err != nil {
					t.Error(err)
					return
				}
				if plain, err := b.Open(theirKey, sealed); err != nil || !bytes.Equal(plain, text) {
					t.Error(err)
				}
				if _, err := b.Open(stranger, sealed); !errors.Is(err, ErrSeal) {
					t.Error("opened as somebody else's", err)
				}
			}
		})
	}
	all.Wait()
	one, _ := b.Seal(theirKey, text)
	two, _ := b.Seal(theirKey, text)
	if bytes.Equal(one, two) {
		t.Error("two seals are the same: the nonce is no nonce")
	}
	for _, broken := range [][]byte{nil, one[:10], one[:28], one[:len(one)-1], append([]byte("xkv2"), one[4:]...)} {
		if _, err := b.Open(theirKey, broken); !errors.Is(err, ErrSeal) {
			t.Errorf("%d bytes: %v", len(broken), err)
		}
	}
	mistyped := stranger[:20] + "A" + stranger[21:]
	if stranger[20] == 'A' {
		mistyped = stranger[:20] + "B" + stranger[21:]
	}
	for _, key := range []string{"", "X", mistyped, "U" + stranger[1:]} {
		if _, err := b.Seal(key, text); err == nil {
			t.Errorf("sealed to %q", key)
		}
		if _, err := b.Open(key, one); !errors.Is(err, ErrSeal) {
			t.Errorf("opened from %q: %v", key, err)
		}
	}
	if _, err := b.Seal(theirKey, make([]byte, MaxBytes)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestABoxRemembersSoManyPeers(t *testing.T) {
	ours, _ := curvePair(t)
	b, err := NewBox(ours)
	if err != nil {
		t.Fatal(err)
	}
	for range maxPeers {
		b.agreed[string(rune(len(b.agreed)))] = &[keyBytes]byte{}
	}
	_, theirKey := curvePair(t)
	if _, err := b.Seal(theirKey, nil); err != nil || len(b.agreed) != 1 {
		t.Fatalf("%d peers, %v", len(b.agreed), err)
	}
}

func BenchmarkSeal(b *testing.B) {
	ours, _ := curvePair(b)
	_, theirKey := curvePair(b)
	text := make([]byte, 300)
	b.Run("by-pair", func(b *testing.B) {
		for b.Loop() {
			if _, err := Seal(ours, theirKey, text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by-box", func(b *testing.B) {
		bx, err := NewBox(ours)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := bx.Seal(theirKey, text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
