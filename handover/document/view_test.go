package document

import (
	"errors"
	"testing"
)

// TestL42_AnUpdateMayReferToALeaseThatIsStillComing: the place has no value
// until the lease's first install, readers are told so, and what was found is
// shown.
func TestL42_AnUpdateMayReferToALeaseThatIsStillComing(t *testing.T) {
	s := NewStore(NewGate(0))
	r := ReaderFunc(func(ref Reference) (Value, error) {
		switch ref.Name {
		case "db":
			return Value{}, ErrPending
		case "HOST":
			return FromAny("h")
		}
		return Value{}, ErrUnknown
	})
	content, err := Parse([]byte(`{"user":"lease://db#username","host":"env://HOST","second":["lease://db#x","env://HOST"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), Update{Document: "d", Content: &content}, r, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve("d", r); !errors.Is(err, ErrUnresolved) {
		t.Errorf("got %v", err)
	}
	v, err := s.View("d", r)
	if err != nil || !errors.Is(v.Missing(), ErrUnresolved) {
		t.Fatal(err, v.Missing())
	}
	if got := string(v.Encode()); got != `{"host":"h","second":"h","user":null}` {
		t.Errorf("got %s", got)
	}
	in, err := s.Install(t.Context(), "db", Values{"username": mustValue(t, "u")})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = func(Reference) (Value, error) { return FromAny("u") }
	if v, err = s.View("d", r); err != nil || v.Missing() != nil {
		t.Fatal(err, v.Missing())
	}
	if got := string(v.Encode()); got != `{"host":"h","second":"h","user":"u"}` {
		t.Errorf("got %s", got)
	}
}

// TestL46_ASecretIsPushedLikeALease writes its places and no others.
func TestL46_ASecretIsPushedLikeALease(t *testing.T) {
	s := NewStore(NewGate(0))
	read := func(text string) Reader {
		return ReaderFunc(func(Reference) (Value, error) { return FromAny(text) })
	}
	content, err := Parse([]byte(`{"a":"vault://kv/a#x","b":"vault://kv/b#x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), Update{Document: "d", Content: &content}, read("1"), nil); err != nil {
		t.Fatal(err)
	}
	pushed, err := s.PushSecret(t.Context(), "kv/a", read("2"))
	if err != nil || pushed.Written != 1 || len(pushed.Changes) != 1 {
		t.Fatal(pushed, err)
	}
	got, err := s.Resolve("d", read(""))
	if err != nil || string(got.Encode()) != `{"a":"2","b":"1"}` {
		t.Error(string(got.Encode()), err)
	}
}

func mustValue(t *testing.T, x any) Value {
	t.Helper()
	v, err := FromAny(x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
