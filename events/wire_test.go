package events

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// samples gives an event of every type and version.
func samples() (out []Event) {
	for _, typ := range Types() {
		for version := 1; version <= latest(typ); version++ {
			out = append(out, sampleOf(typ, version))
		}
	}
	return out
}

// corpus gives whole events of every type with every field, with none, and with
// values at the edges.
func corpus(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, e := range samples() {
		for _, change := range []func(*Event){
			func(*Event) {},
			func(e *Event) { e.Data, e.Version = newData(e.Type()), 0 },
			func(e *Event) { e.Lease, e.Cause, e.Actor = 0, "", Actor{} },
			func(e *Event) { e.ID, e.Cause = "<&> \u2028 é\n\"\\", "\x7f" },
			func(e *Event) {
				e.Time = time.Date(2026, 1, 1, 1, 1, 1, 0, time.FixedZone("", 3600))
				e.Lease = 1<<64 - 1
			},
		} {
			e := e
			change(&e)
			b, err := marshal(&e, "prev", "segment")
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	return out
}

// TestGoldenNeedsNoReflection: every field of every type is read and written
// without reflection; one that was added and is not listed in wire.go is not.
func TestGoldenNeedsNoReflection(t *testing.T) {
	for _, payload := range corpus(t) {
		var e Event
		if _, ok := scan(payload, &e); !ok {
			t.Errorf("read by reflection: %s", payload)
			continue
		}
		got, ok := write(&e, "prev", "segment")
		if !ok || !bytes.Equal(got, payload) {
			t.Errorf("written as\n%s, not as\n%s (%v)", got, payload, ok)
		}
	}
}

// agree holds the scanner to the reference, and the writer to its own.
func agree(t *testing.T, payload []byte) {
	t.Helper()
	if !utf8.Valid(payload) {
		return // refused before either is asked
	}
	fast := Event{Seq: 3}
	got, ok := scan(payload, &fast)
	slow, want, err := unmarshal(payload, 3)
	switch {
	case ok && err != nil:
		t.Fatalf("the scanner reads what is refused: %v\n%s", err, payload)
	case err != nil:
		return
	case ok:
		if string(got.prev) != string(want.prev) || string(got.segment) != string(want.segment) || string(got.mac) != string(want.mac) {
			t.Fatalf("other links: %q, %q\n%s", got, want, payload)
		}
		if fast.Version != slow.Version {
			t.Fatalf("read as version %d, by reflection as %d", fast.Version, slow.Version)
		}
		a, errA := marshal(&fast, "", "")
		b, errB := marshal(&slow, "", "")
		if errA != nil || errB != nil || !bytes.Equal(a, b) || fast.Seq != slow.Seq || !fast.Time.Equal(slow.Time) {
			t.Fatalf("read as\n%s (%v), by reflection as\n%s (%v)", a, errA, b, errB)
		}
		// Nil or empty, and times' zones, which JSON does not tell.
		if !reflect.DeepEqual(withoutSeconds(fast.Data), withoutSeconds(slow.Data)) {
			t.Fatalf("read as %#v, by reflection as %#v", fast.Data, slow.Data)
		}
	}
	a, written := write(&slow, "p", "")
	b, err := marshal(&slow, "p", "")
	if written && (err != nil || !bytes.Equal(a, b)) {
		t.Fatalf("written as\n%s, by reflection as\n%s (%v)", a, b, err)
	}
}

// withoutSeconds gives a copy without its decimals, whose insides may differ.
func withoutSeconds(d Data) any {
	v := reflect.New(reflect.TypeOf(d).Elem()).Elem()
	v.Set(reflect.ValueOf(d).Elem())
	var clear func(v reflect.Value)
	clear = func(v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[Seconds]():
			v.SetZero()
		case v.Kind() == reflect.Pointer && !v.IsNil():
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			clear(c.Elem())
			v.Set(c)
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
			for i := range v.NumField() {
				clear(v.Field(i))
			}
		}
	}
	clear(v)
	return v.Interface()
}

// variants makes of a payload what a writer never writes and JSON allows, and
// what it does not.
func variants(payload string) []string {
	out := []string{payload, " " + payload, payload + "\n", payload + "}", payload + "x", payload[:len(payload)-1]}
	for _, r := range [][2]string{
		{`":`, `": `}, {`"lease":7`, `"lease":0`}, {`"lease":7`, `"lease":07`}, {`"lease":7`, `"lease":18446744073709551616`},
		{`"lease":7`, `"lease":18446744073709551615`}, {`"lease":7`, `"lease":7,"lease":8`}, {`"epoch"`, `"Epoch"`}, {`3600.5`, `3600.50`},
		{`3600.5`, `-0`}, {`3600.5`, `-0.000`}, {`3600.5`, `00.5`}, {`3600.5`, `1e3`}, {`3600.5`, `"3600.5"`}, {`3600.5`, `5.`}, {`3600.5`, `.5`},
		{`3600.5`, `3600`}, {`3600.5`, `999999999.999999999`}, {`3600.5`, `9999999999.999999999`}, {`3600.5`, `1000000000000`}, {`3600.5`, `-12.25`},
		{`3600.5`, `0.0000000001`}, {`3600.5`, `- 1`}, {`3600.5`, `null`}, {`"text"`, `null`}, {`"text"`, `"\u00e9\ud800"`}, {`"text"`, `"\x"`}, {`"text"`, "\"\t\""},
		{`"text"`, `"a\"b\\"`}, {`["text"]`, `[]`}, {`["text"]`, `null`}, {`["text"]`, `["a","b"]`}, {`["text"]`, `["a",]`}, {`["text"]`, `["a" ]`},
		{`{"text":"text"}`, `{}`}, {`{"text":"text"}`, `{"a":"b","a":"c"}`}, {`{"text":3}`, `{"a":-1}`}, {`{"text":3}`, `{"a":1.0}`}, {`{"text":3}`, `{"a":9223372036854775808}`},
		{`true`, `false`}, {`true`, `trues`}, {`true`, `null`}, {`"attempt":3`, `"attempt":-3`}, {`"attempt":3`, `"attempt":03`},
		{`2026-03-01T12:30:00.123456789Z`, `2026-03-01T12:30:00+02:00`}, {`2026-03-01T12:30:00.123456789Z`, `2026-03-01t12:30:00z`}, {`2026-03-01T12:30:00.123456789Z`, `2026-03-01T12:30:0\u0030Z`},
		{`2026-03-01T12:30:00.123456789Z`, `2026-13-01T12:30:00Z`}, {`"version":1`, `"version":1.0`}, {`"version":1`, `"version":2`}, {`"id":"01J0.0"`, `"id":""`},
		{`"data":{`, `"data":{"unknown":1,`}, {`"data":{`, `"data":[{`}, {`"prev":"prev"`, `"prev":"pr\u0065v"`}, {`"prev":"prev",`, ``}, {`"segment":"segment"`, `"segment":""`},
		{`"actor":{`, `"actor":{}`}, {`"optional":true`, `"optional":1`}, {`"key":"text",`, ``},
	} {
		if strings.Contains(payload, r[0]) {
			out = append(out, strings.Replace(payload, r[0], r[1], 1), strings.ReplaceAll(payload, r[0], r[1]))
		}
	}
	return append(out, payload[:len(payload)-1]+`,"mac":"mac"}`, payload[:len(payload)-1]+`,"mac":1}`)
}

func TestScannerAgreesWithReflection(t *testing.T) {
	for _, payload := range corpus(t) {
		for _, v := range variants(string(payload)) {
			agree(t, []byte(v))
		}
		for cut := range payload {
			agree(t, payload[:cut])
		}
	}
}

// FuzzScanner: what is read without reflection, reflection reads as the same,
// and what is written without it is the same bytes.
func FuzzScanner(f *testing.F) {
	for _, payload := range corpus(f) {
		f.Add(payload)
	}
	old, err := filepath.Glob("testdata/fuzz/FuzzDecode/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range old {
		if b, err := os.ReadFile(path); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(agree)
}

// sealed gives events of a life as a holder writes them.
func sealed(b *testing.B) (key []byte, payloads [][]byte) {
	key = []byte("0123456789abcdef0123456789abcdef")
	chain := NewChain(key)
	for _, typ := range []Type{TypeOpened, TypeApplied, TypeRequested, TypeAcquired, TypeGuardExtended, TypeVerified, TypeHandoverStarted, TypePrepared, TypeInstalled, TypeRenewed, TypeRetired, TypeRevoking, TypeRevoked} {
		e := sample(typ)
		payload, err := chain.Seal(&e)
		if err != nil {
			b.Fatal(err)
		}
		payloads = append(payloads, payload)
	}
	return key, payloads
}

func BenchmarkAdmit(b *testing.B) {
	key, payloads := sealed(b)
	admit := func(b *testing.B, read func([]byte) error) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := read(payloads[i%len(payloads)]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("decode", func(b *testing.B) {
		admit(b, func(p []byte) error { _, err := Decode(p, 1); return err })
	})
	b.Run("decode-by-reflection", func(b *testing.B) {
		admit(b, func(p []byte) error { _, _, err := unmarshal(p, 1); return err })
	})
	b.Run("mac", func(b *testing.B) {
		k := newMACKey(key)
		admit(b, func(p []byte) error {
			if !k.genuine(p) {
				return ErrForged
			}
			return nil
		})
	})
	b.Run("encode", func(b *testing.B) {
		e := sample(TypeAcquired)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Encode(&e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
