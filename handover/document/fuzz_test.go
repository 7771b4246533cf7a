package document

import (
	"errors"
	"strings"
	"testing"
)

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"$", `db.servers[0]["0"]`, `["\u00fc"][""]`, `["\ud83d\ude00"]`, `["\ud800"]`, "[01]", "a..b", `["\ufffd"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			if !errors.Is(err, ErrPath) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := ParsePath(p.String())
		if err != nil || again != p || join(p.Steps()) != p {
			t.Fatalf("%q became %q, %v", p, again, err)
		}
		for _, c := range []byte(p.String()) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q is printed with byte %d", p, c)
			}
		}
	})
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"lease://db#password", "vault://kv/data/a#b c", "env://HOME", "lease://a#b#c", "vault://../x#y", "env://A#b", "lease://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			if !errors.Is(err, ErrReference) || len(s) > 40 && strings.Contains(err.Error(), s) {
				t.Fatalf("%v", err)
			}
			return
		}
		if r.String() != s || !IsReference(s) {
			t.Fatalf("%q became %q", s, r)
		}
		if r.Name == "" || (r.Key == "") != (r.Scheme == Environment) {
			t.Fatalf("%q is %+v", s, r)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"a":["lease://db#x","env://Y"],"b":[{"0":"vault://kv/a#b"}],"c":"\\lease://x"}`, `[1.50,-0,1e9,true,null,"\ud83d\ude00"]`,
		`{"a":"\ud800"}`, `{"a":1,"a":2}`, `[1]x`, `"\ufffd"`, `{"a":"\\ufffd\ud800"}`, `[[[[`, `{"":{"":""}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := Parse(v.Encode())
		if err != nil && len(v.Encode()) <= MaxBytes || err == nil && !again.Equal(v) {
			t.Fatalf("%q became %q, %v", data, v.Encode(), err)
		}
		taken, err := FromAny(v.Reveal())
		if err != nil || !taken.Equal(v) {
			t.Fatalf("%q is not what it reveals: %v", data, err)
		}
		doc, err := New("app", 1, v)
		if err != nil {
			if !errors.Is(err, ErrDocument) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, use := range doc.References() {
			if _, err := doc.At(use.Path); err != nil {
				t.Fatalf("a reference is at no place: %v", err)
			}
			if p, err := ParsePath(use.Path.String()); err != nil || p != use.Path {
				t.Fatalf("%s: %v", use.Path, err)
			}
		}
		if _, err := Parse(doc.Redacted()); err != nil && len(doc.Redacted()) <= MaxBytes {
			t.Fatalf("redacted: %v", err)
		}
	})
}
