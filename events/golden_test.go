package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

var day = time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.UTC)

// fill sets every field of a payload to something that shows in JSON.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(day))
		return
	case Seconds:
		v.Set(reflect.ValueOf(MustSeconds("3600.5")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(1 << 60)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 1, 1)
		fill(s.Index(0), depth+1)
		v.Set(s)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		m.SetMapIndex(key, value)
		v.Set(m)
	default:
		panic(fmt.Sprintf("fill does not know %s", v.Type()))
	}
}

func sample(t Type) Event { return sampleOf(t, 1) }

// sampleOf gives an event with every field that its version has.
func sampleOf(t Type, version int) Event {
	data := newData(t)
	fill(reflect.ValueOf(data).Elem(), 0)
	return Event{
		ID: "01J0.0", Scope: "prod", Name: "orders", Lease: 7, Epoch: 12, Time: day, Cause: "01J",
		Actor: Actor{Name: "leasesvc/a", Key: "UA", Claimed: true}, Data: Fit(data, version), Version: version,
	}
}

// golden gives the file of a type and version; what only the release of the tests
// of upgrades has is kept apart.
func golden(t Type, version int) string {
	dir := "golden"
	if t == TypeInstalled && version == 2 {
		dir = "nextrelease"
	}
	return filepath.Join("testdata", dir, fmt.Sprintf("%s.v%d.json", t, version))
}

// TestGolden holds every type at its version to the bytes that were written
// once: what is in a log today decodes for ever.
func TestGolden(t *testing.T) {
	if len(Types()) != 32 {
		t.Errorf("the catalogue has %d types; a change of this number is a change for every reader", len(Types()))
	}
	for _, typ := range Types() {
		for version := 1; version <= latest(typ); version++ {
			goldenOf(t, typ, version)
		}
	}
}

func goldenOf(t *testing.T, typ Type, version int) {
	t.Helper()
	e := sampleOf(typ, version)
	got, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	path := golden(typ, version)
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.TrimSuffix(want, []byte("\n"))
	if !bytes.Equal(got, want) {
		t.Errorf("%s is written differently now:\n got %s\nwant %s", path, got, want)
	}
	back, err := Decode(want, 9)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	if back.Seq != 9 || back.Version != version {
		t.Errorf("%s: the sequence or the version is lost", path)
	}
	again, err := Encode(&back)
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("%s comes back as\n%s (%v)", path, again, err)
	}
}

func TestEveryGoldenFileDecodes(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) < len(Types()) {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(bytes.TrimSpace(b), 1); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestFutureVersionIsRefusedWithItsSequence(t *testing.T) {
	e := sample(TypeInstalled)
	b, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	next := fmt.Appendf(nil, `"version":%d`, latest(TypeInstalled)+1)
	for name, payload := range map[string][]byte{
		"a later version":                  bytes.Replace(b, []byte(`"version":1`), next, 1),
		"a later version with a new field": bytes.Replace(b, []byte(`"version":1`), append(next, `,"tenant":"x"`...), 1),
		"an unknown type":                  bytes.Replace(b, []byte(`"type":"installed"`), []byte(`"type":"teleported"`), 1),
	} {
		_, err := Decode(payload, 4711)
		var future *FutureError
		if !errors.As(err, &future) || future.Seq != 4711 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestGarbageIsRefused(t *testing.T) {
	e := sample(TypeInstalled)
	good, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string]string{
		"empty": "", "null": "null", "a list": "[]", "no envelope": "{}", "not UTF-8": "{\"id\":\"\xff\"}",
		"something behind": string(good) + "{}", "cut short": string(good[:len(good)-2]),
		"an unknown field of a known version": string(bytes.Replace(good, []byte(`"version":1`), []byte(`"version":1,"x":1`), 1)),
		"version 0":                           string(bytes.Replace(good, []byte(`"version":1`), []byte(`"version":0`), 1)),
		"a negative version":                  string(bytes.Replace(good, []byte(`"version":1`), []byte(`"version":-1`), 1)),
		"a huge lease":                        string(bytes.Replace(good, []byte(`"lease":7`), []byte(`"lease":1e30`), 1)),
		"data of another type":                string(bytes.Replace(good, []byte(`"type":"installed"`), []byte(`"type":"retired"`), 1)),
	} {
		if _, err := Decode([]byte(payload), 5); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "orders-db": true, "9": true, "A-": true, string(bytes.Repeat([]byte("a"), 64)): true,
		"": false, "-a": false, "a.b": false, "_a": false, "a_b": false, "a b": false, "ä": false, "a*": false, "a>": false,
		string(bytes.Repeat([]byte("a"), 65)): false,
	} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSubjects(t *testing.T) {
	e := sample(TypeGuardExtended)
	if e.Subject() != "lease.prod.orders.guard-extended" {
		t.Fatal(e.Subject())
	}
	scope, name, typ, err := ParseSubject(e.Subject())
	if err != nil || scope != "prod" || name != "orders" || typ != TypeGuardExtended {
		t.Fatal(scope, name, typ, err)
	}
	for _, s := range []string{"", "lease", "lease.a.b", "lease.a.b.c.d", "other.a.b.c", "lease..b.c"} {
		if _, _, _, err := ParseSubject(s); !errors.Is(err, ErrSubject) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// FuzzDecode: whatever comes, decoding gives an event that encodes to the same
// fact again, or one of the two errors; it never panics.
func FuzzDecode(f *testing.F) {
	for _, typ := range Types() {
		e := sample(typ)
		b, err := Encode(&e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"id":"x","type":"installed","version":99,"scope":"s","name":"n","data":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b, 3)
		if err != nil {
			var future *FutureError
			if !errors.Is(err, ErrEvent) && !errors.As(err, &future) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		out, err := Encode(&e)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		back, err := Decode(out, 3)
		if err != nil {
			t.Fatalf("encoded, but does not decode: %v\n%s", err, out)
		}
		if !reflect.DeepEqual(jsonOf(t, e.Data), jsonOf(t, back.Data)) {
			t.Fatalf("the fact changed:\n%s\n%s", jsonOf(t, e.Data), jsonOf(t, back.Data))
		}
	})
}

func jsonOf(t *testing.T, d Data) string {
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryEventHasASentence: whoever adds a type says it in words too.
func TestEveryEventHasASentence(t *testing.T) {
	for _, typ := range Types() {
		e := sample(typ)
		if s := Sentence(&e); s == "" || s == string(typ) {
			t.Errorf("%s has no sentence", typ)
		}
	}
}
