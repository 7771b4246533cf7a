package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

var (
	chainKey = []byte("a key of thirty-two bytes, just so")
	day      = time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.UTC)
)

// fill sets every field that a layout can hold to something that is not zero.
func fill(v reflect.Value, no *int) {
	*no++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(day.Add(time.Duration(*no) * time.Second)))
		return
	case events.Seconds:
		v.Set(reflect.ValueOf(events.MustSeconds(fmt.Sprintf("%d.5", *no))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *no))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*no) << 20)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*no) & 0xff)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), no)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), no)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), no)
		fill(v.Index(1), no)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, no)
			fill(e, no)
			v.SetMapIndex(k, e)
		}
	default:
		panic(v.Type().String())
	}
}

func key(t testing.TB) Key {
	k, err := NewKey(chainKey, "v1")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// filled gives a projection whose state has something in every field.
func filled(t testing.TB) *projector.Projection {
	t.Helper()
	no := 0
	var head leasecore.Head
	fill(reflect.ValueOf(&head).Elem(), &no)
	var a, b leasecore.Name
	fill(reflect.ValueOf(&a).Elem(), &no)
	fill(reflect.ValueOf(&b).Elem(), &no)
	b.Leases[0].LeaseID, b.Leases[0].Vault = a.Leases[1].LeaseID, a.Leases[1].Vault
	shared := []leasecore.Shared{{Vault: a.Leases[1].Vault, LeaseID: a.Leases[1].LeaseID, Owners: []leasecore.Owner{{Name: b.Name, Lease: b.Leases[0].No}, {Name: a.Name, Lease: a.Leases[1].No}}}}
	state, err := leasecore.Restore(leasecore.Frozen{Head: head, Names: []*leasecore.Name{&a, &b, {Name: "empty"}}, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	chain := events.NewChain(chainKey)
	chain.Resume("last", "segment", true)
	return projector.Resume(state, chain, head.LastSeq+3, 2)
}

func everyField(t testing.TB, s *leasecore.State) string {
	t.Helper()
	all := []any{s.Head, s.Shared()}
	for _, n := range s.SortedNames() {
		all = append(all, s.Name(n))
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryFieldIsSaved: what is added to the state is in a snapshot, or can't be
// and is found here.
func TestEveryFieldIsSaved(t *testing.T) {
	k, p, ahead := key(t), filled(t), []Ahead{{"a", 7, time.Minute}}
	back, at, gotAhead, err := k.Decode(k.Encode(Take(p, day, ahead)))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := everyField(t, p.State()), everyField(t, back.State()); a != b {
		t.Fatalf("saved:\n%s\nrestored:\n%s", a, b)
	}
	n, _ := back.Skipped()
	want := Position{Scope: p.State().Scope, StreamCreated: day, LastSeq: p.LastSeq(), Applied: p.State().LastSeq, Skipped: 2, Last: "last", Segment: "segment", AtOpened: true}
	if at != want || back.LastSeq() != p.LastSeq() || n != 2 || back.Unsaved() != 0 || !reflect.DeepEqual(gotAhead, ahead) {
		t.Fatalf("it stands at %+v", at)
	}
	chain := back.Chain()
	if last, segment, atOpened := chain.State(); last != "last" || segment != "segment" || !atOpened {
		t.Fatal("the chain is lost")
	}
}

// TestAnotherReleasesSnapshotIsToldApart: by its name, and by the layout of its
// state.
func TestAnotherReleasesSnapshotIsToldApart(t *testing.T) {
	other, err := NewKey(chainKey, "v2")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := other.Decode(key(t).Encode(Take(filled(t), day, nil))); !errors.Is(err, ErrLayout) {
		t.Error(err)
	}
	type one struct{ A, B string }
	type two struct{ B, A string }
	type three struct {
		A string
		B uint64
	}
	fingerprints := map[[8]byte]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[one](), reflect.TypeFor[two](), reflect.TypeFor[three]()} {
		fingerprints[layoutOf(of).fingerprint] = true
	}
	if len(fingerprints) != 3 {
		t.Error("two layouts have one fingerprint")
	}
}

func TestWhatIsNotASnapshotOfOursIsRefused(t *testing.T) {
	k := key(t)
	good := k.Encode(Take(filled(t), day, nil))
	other, err := NewKey([]byte("another key of thirty-two bytes!!!"), "v1")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"nothing": nil, "short": []byte("x"), "another key's": other.Encode(Take(filled(t), day, nil)), "cut": good[:len(good)-1], "more": append(bytes.Clone(good), 0)} {
		if _, _, _, err := k.Decode(b); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		if _, _, _, err := k.Decode(b); !errors.Is(err, ErrForged) {
			t.Fatalf("with byte %d changed: %v", i, err)
		}
	}
	body := good[:len(good)-32]
	resealed := func(b []byte) []byte { return append(bytes.Clone(b), macOf(k.keys[0], b)...) }
	if _, _, _, err := k.Decode(resealed(append([]byte("leasesvc snapshot 2\n"), body[20:]...))); !errors.Is(err, ErrLayout) {
		t.Errorf("another version: %v", err)
	}
	if _, _, _, err := k.Decode(resealed(body[:len(body)-1])); !errors.Is(err, ErrDamaged) {
		t.Errorf("genuine and cut short: %v", err)
	}
	if _, _, _, err := k.Decode(resealed(append(bytes.Clone(body), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("genuine with more: %v", err)
	}
}

// FuzzDecode: bytes under a good MAC, as a defect of ours could make them, give a
// projection or an error, never a panic and no memory without bound.
func FuzzDecode(f *testing.F) {
	k := key(f)
	good := k.Encode(Take(filled(f), day, []Ahead{{"a", 1, 2}}))
	f.Add(good[len(k.begin) : len(good)-32])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		b := append(bytes.Clone(k.begin), content...)
		p, _, _, err := k.Decode(append(b, macOf(k.keys[0], b)...))
		if err == nil {
			if _, _, _, err := k.Decode(k.Encode(Take(p, day, nil))); err != nil {
				t.Fatalf("decoded, and does not come back: %v", err)
			}
		}
	})
}

// crowd gives a projection of many names with an active lease each.
func crowd(t testing.TB, n int) *projector.Projection {
	t.Helper()
	head := leasecore.Head{Scope: "prod", Epoch: 3, Fence: 5, Holder: "h", LastSeq: uint64(8 * n)}
	names := make([]*leasecore.Name, n)
	for i := range names {
		d := events.DefaultDefinition()
		d.Vault, d.Path, d.Kind = "main", fmt.Sprintf("database/creds/app-%06d", i), events.KindPostgreSQL
		d.Consumers = []events.Consumer{{Name: "shop", Key: "UABC"}}
		at := day.Add(time.Duration(i) * time.Millisecond)
		names[i] = &leasecore.Name{
			Name: fmt.Sprintf("app-%06d", i), Definition: &d, Active: uint64(i + 1), N: uint64(8*i + 7), Spent: at,
			Leases: []leasecore.Lease{{
				No: uint64(i + 1), State: leasecore.Active, Epoch: 3, Vault: "main", Path: d.Path, Reason: events.ReasonFirst,
				LeaseID: fmt.Sprintf("%s/%024d", d.Path, i), Guard: fmt.Sprintf("accessor%016d", i), GrantedAt: at, TTL: time.Hour, Renewable: true,
				GuardAt: at, GuardTTL: time.Hour, GuardExtended: true, Public: leasecore.Public{{Key: "username", Value: fmt.Sprintf("v-token-app-%020d", i)}},
				Fingerprint: fmt.Sprintf("%022d", i), Verified: true,
			}},
		}
	}
	state, err := leasecore.Restore(leasecore.Frozen{Head: head, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return projector.Resume(state, events.NewChain(chainKey), head.LastSeq, 0)
}

// TestSnapshotIsSmall holds the design's number: 400 bytes for each lease.
func TestSnapshotIsSmall(t *testing.T) {
	const n = 10_000
	b := key(t).Encode(Take(crowd(t, n), day, nil))
	t.Logf("%d bytes for each lease", len(b)/n)
	if len(b)/n > 400 {
		t.Errorf("%d bytes for each lease, at most 400", len(b)/n)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	const n = 100_000
	k, p := key(b), crowd(b, n)
	encoded := k.Encode(Take(p, day, nil))
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			k.Encode(Take(p, day, nil))
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			if _, _, _, err := k.Decode(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("memory", func(b *testing.B) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			p, _, _, err := k.Decode(encoded)
			if err != nil {
				b.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/lease")
			runtime.KeepAlive(p)
		}
	})
}
