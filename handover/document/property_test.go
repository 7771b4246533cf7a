package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// leaf draws what stands at a place: a text, a reference, a fallback list.
func leaf(t *rapid.T, label string) any {
	ref := func() any {
		return fmt.Sprintf("lease://%s#%s",
			rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, label+" lease"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, label+" key"))
	}
	switch rapid.IntRange(0, 4).Draw(t, label+" kind") {
	case 0:
		return rapid.SampledFrom([]any{nil, false, 0, hidden + "t"}).Draw(t, label)
	case 1:
		return []any{ref(), ref()}
	case 2:
		return []any{1, []any{ref()}, map[string]any{"0": ref()}}
	}
	return ref()
}

func drawContent(t *rapid.T, label string) Value {
	content := map[string]any{}
	for _, k := range []string{"p", "q", "0", "r"} {
		if rapid.Bool().Draw(t, label+" has "+k) {
			content[k] = leaf(t, label+" "+k)
		}
	}
	v, err := FromAny(content)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// drawVault draws leases in which any may be missing, expired or lack a key.
func drawVault(t *rapid.T, label string, complete bool) vaultOf {
	vault := vaultOf{}
	for _, lease := range []string{"a", "b", "c"} {
		h := Held{Values: drawValues(t, label+" "+lease, complete)}
		if !complete && rapid.IntRange(0, 4).Draw(t, label+" "+lease+" is there") == 0 {
			continue
		}
		h.Expired = !complete && rapid.IntRange(0, 4).Draw(t, label+" "+lease+" expired") == 0
		vault[lease] = h
	}
	return vault
}

func drawValues(t *rapid.T, label string, complete bool) Values {
	data := Values{}
	for _, k := range []string{"x", "y"} {
		if !complete && rapid.IntRange(0, 9).Draw(t, label+" lacks "+k) == 0 {
			continue
		}
		// Few values, so that the same one comes again.
		v, err := FromAny(rapid.SampledFrom([]any{false, nil, hidden + "1", hidden + "2", hidden + "3", map[string]any{"k": hidden + "4"}}).Draw(t, label+" "+k))
		if err != nil {
			t.Fatal(err)
		}
		data[k] = v
	}
	return data
}

// expected is what a document must resolve to, told without a store.
func expected(t *rapid.T, content any, r Reader) any {
	read := func(texts ...any) (any, bool) {
		for _, text := range texts {
			ref, err := ParseReference(text.(string))
			if err != nil {
				t.Fatal(err)
			}
			if v, err := r.Read(ref); err == nil {
				return v.Reveal(), true
			}
		}
		return nil, false
	}
	switch c := content.(type) {
	case string:
		if IsReference(c) {
			v, _ := read(c)
			return v
		}
	case []any:
		isRef := func(x any) bool { s, ok := x.(string); return ok && IsReference(s) }
		if len(c) > 0 && !slices.ContainsFunc(c, func(x any) bool { return !isRef(x) }) {
			v, _ := read(c...)
			return v
		}
		for i := range c {
			c[i] = expected(t, c[i], r)
		}
	case map[string]any:
		for k := range c {
			c[k] = expected(t, c[k], r)
		}
	}
	return content
}

// failAt is a reader that fails at its n-th call, and counts them.
type failAt struct {
	Reader
	n, calls int
}

var errCut = errors.New("cut off")

func (f *failAt) Read(ref Reference) (Value, error) {
	f.calls++
	if f.calls == f.n {
		return Value{}, errCut
	}
	return f.Reader.Read(ref)
}

// TestL42_AFailureAtAnyStepChangesNothing does the same update many times, each
// time cut off at another step, and once to the end.
func TestL42_AFailureAtAnyStepChangesNothing(t *testing.T) {
	var failed, done int
	rapid.Check(t, func(t *rapid.T) {
		s := fresh()
		full := drawVault(t, "first", true)
		first := drawContent(t, "first")
		if _, err := s.Update(context.Background(), Update{Document: "app", Content: &first}, full, nil); err != nil {
			t.Fatal(err)
		}
		vault := drawVault(t, "second", rapid.Bool().Draw(t, "second complete"))
		u := Update{Document: "app", Expected: 1}
		if rapid.Bool().Draw(t, "whole content") {
			c := drawContent(t, "second")
			u.Content = &c
		} else {
			for i := range rapid.IntRange(0, 3).Draw(t, "assignments") {
				at := rapid.SampledFrom([]string{"p", "q", `["0"]`, "r", "p[1]", `p[2]["0"]`, "q[0]", "nope"}).Draw(t, "at "+strconv.Itoa(i))
				v, _ := FromAny(leaf(t, "to "+strconv.Itoa(i)))
				u.Assign = append(u.Assign, Assignment{path(t, at), v})
			}
		}
		before := dump(s)
		refused := errors.New("the log refused it")
		attempt := func(cutAt int, publishes bool) (calls int, err error) {
			r := &failAt{Reader: vault, n: cutAt}
			change, err := s.Update(context.Background(), u, r, func(_ context.Context, c Change) error {
				if len(c.Paths) == 0 || c.Document.Revision() != 2 || dump(s) != before {
					t.Fatal("what is published is no change, or is seen already")
				}
				if !publishes {
					return refused
				}
				return nil
			})
			wantIs(t, err)
			if err != nil {
				failed++
				wantDump(t, s, before, fmt.Sprintf("after %v", err))
				if change.Paths != nil {
					t.Fatal("an error comes with a change")
				}
			}
			return r.calls, err
		}
		// How far it comes without a failure of ours, short of being published.
		steps, err := attempt(0, false)
		for cut := 1; cut <= steps; cut++ {
			if _, err := attempt(cut, true); !errors.Is(err, errCut) {
				t.Fatalf("cut off at %d: %v", cut, err)
			}
		}
		if err != nil && !errors.Is(err, refused) {
			return // refused for good
		}
		if _, err := attempt(0, true); err != nil {
			t.Fatalf("in the end: %v", err)
		}
		done++
		doc, _ := s.Document("app")
		want, _ := FromAny(expected(t, doc.Content().Reveal(), vault))
		if got := s.documents["app"].tree(); !got.Equal(want) {
			t.Fatalf("resolved to %s, want %s", got.Encode(), want.Encode())
		}
		if len(s.registry.filledBy) != len(doc.References()) {
			t.Fatalf("registered are %v", s.registry.filledBy)
		}
	})
	t.Logf("%d failures, %d done", failed, done)
	if failed < 100 || done < 20 {
		t.Fatalf("only %d failures and %d updates that were done: the test shows too little", failed, done)
	}
}

// model is what must stand at each place, and by which reference.
type model map[Place]slot

type slot struct {
	by    Reference
	bound bool
	value string
}

func modelOf(s *Store) model {
	m := model{}
	for name, h := range s.documents {
		for p := range h.doc.at.chains {
			by, ok := s.registry.filledBy[Place{name, p}]
			m[Place{name, p}] = slot{by, ok, string(h.values[p].Encode())}
		}
	}
	return m
}

// TestI5_RestorePutsBackWhatItChangedAndNothingElse runs installs of several
// leases among writes of others, and restores them in any order.
func TestI5_RestorePutsBackWhatItChangedAndNothingElse(t *testing.T) {
	var back, kept, overtaken int
	rapid.Check(t, func(t *rapid.T) {
		s := fresh()
		vault := drawVault(t, "vault", false)
		for _, name := range []string{"one", "two"} {
			doc, err := New(name, 1, drawContent(t, name))
			if err == nil {
				_, err = s.Load(context.Background(), doc, vault)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		type wrote struct{ before, after slot }
		open := map[string]*Install{}
		writes := map[string]map[Place]wrote{}

		begin := func(lease string) {
			before := modelOf(s)
			text := dump(s)
			in, err := s.Install(context.Background(), lease, drawValues(t, "candidate", false))
			if err != nil {
				wantIs(t, err, ErrMissingKey)
				wantDump(t, s, text, "after a failed install")
				return
			}
			open[lease], writes[lease] = in, map[Place]wrote{}
			for at, after := range modelOf(s) {
				if after != before[at] {
					if after.by.source() != (source{Lease, lease}) {
						t.Fatalf("the install of %s wrote %s, filled by %s", lease, at, after.by)
					}
					writes[lease][at] = wrote{before[at], after}
				}
			}
			if (len(writes[lease]) > 0) != in.Changed() {
				t.Fatalf("changed is %t with %d writes", in.Changed(), len(writes[lease]))
			}
		}
		settle := func(lease string, commits bool) {
			in := open[lease]
			delete(open, lease)
			before := modelOf(s)
			if commits {
				commit(t, in)
			} else {
				done := restore(t, in)
				for at, w := range writes[lease] {
					if now, ok := before[at]; !ok || now != w.after {
						kept++
						if !slices.Contains(done.Kept, at) {
							t.Fatalf("%s is not said to be kept", at)
						}
						continue
					}
					back++
					before[at] = w.before
				}
			}
			if after := modelOf(s); !maps.Equal(after, before) {
				t.Fatalf("after settling %s the places are\n%v\nwant\n%v", lease, after, before)
			}
		}
		write := func() {
			name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "document")
			doc, _ := s.Document(name)
			content := drawContent(t, "later")
			s.gate.wait = 0 // what an install is in the way of is not part of this test
			_, err := s.Update(context.Background(), Update{Document: name, Expected: doc.Revision(), Content: &content}, vault, nil)
			if err == nil {
				overtaken += len(open)
			}
			wantIs(t, err)
		}
		for range rapid.IntRange(3, 25).Draw(t, "steps") {
			lease := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "lease")
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
			case op <= 1 && open[lease] == nil:
				begin(lease)
			case op <= 1:
				settle(lease, op == 0 && rapid.Bool().Draw(t, "commits"))
			case op <= 3:
				write()
			case op == 4:
				vault[lease] = Held{Values: drawValues(t, "pushed", false)}
				if _, err := s.Push(context.Background(), lease, vault); err != nil {
					t.Fatal(err)
				}
			default:
				vault = drawVault(t, "later", false)
			}
			committedOnly(t, s, vault, open)
		}
		for _, lease := range slices.Sorted(maps.Keys(open)) {
			settle(lease, false)
		}
		if len(s.installs) > 0 || len(s.gate.running) > 0 {
			t.Fatal("an install is left in flight")
		}
	})
	t.Logf("%d places went back, %d were kept, %d updates among installs", back, kept, overtaken)
	if back < 50 || kept < 10 || overtaken < 10 {
		t.Fatal("the test shows too little")
	}
}

// committedOnly checks D1: what a reader sees is what restoring every install
// would leave.
func committedOnly(t *rapid.T, s *Store, vault vaultOf, open map[string]*Install) {
	for _, name := range s.Names() {
		seen, err := s.Resolve(name, vault)
		wantIs(t, err)
		if err != nil {
			continue
		}
		want := &held{s.documents[name].doc, maps.Clone(s.documents[name].values)}
		for _, in := range open {
			for _, snap := range in.snapshots {
				if snap.at.Document == name && s.untouched(snap) {
					if want.values[snap.at.Path] = snap.before; !snap.filled {
						delete(want.values, snap.at.Path)
					}
				}
			}
		}
		if !seen.Value().Equal(want.tree()) || len(want.unresolved()) > 0 {
			t.Fatalf("a reader of %s sees a candidate or a place without a value", name)
		}
	}
}

func TestPathsAndValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var steps []Step
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "index") {
				steps = append(steps, Step{Index: rapid.IntRange(0, 1<<31-1).Draw(t, "i"), IsIndex: true})
			} else {
				steps = append(steps, Step{Key: strings.ToValidUTF8(rapid.String().Draw(t, "key"), "")})
			}
		}
		p := join(steps)
		again, err := ParsePath(p.String())
		if err != nil || again != p || !slices.Equal(again.Steps(), steps) {
			t.Fatalf("%q became %q, %v", p, again, err)
		}
		v := drawContent(t, "content")
		parsed, err := Parse(v.Encode())
		if err != nil || !parsed.Equal(v) {
			t.Fatalf("%s: %v", v.Encode(), err)
		}
	})
}
