package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hidden begins every value of these tests, so that one that leaks is found.
const hidden = "s3cr3t-"

// vaultOf is a reader of leases that a test changes at will.
type vaultOf map[string]Held

func (v vaultOf) sources() Sources {
	return Sources{
		Lease:       func(name string) (Held, bool) { h, ok := v[name]; return h, ok },
		Environment: func(name string) (string, bool) { return hidden + "env-" + name, name != "UNSET" },
	}
}

func (v vaultOf) Read(r Reference) (Value, error) { return v.sources().Read(r) }

func tree(t rapid.TB, json string) Value {
	t.Helper()
	v, err := Parse([]byte(json))
	if err != nil {
		t.Fatalf("parsing a test's tree: %v", err)
	}
	return v
}

func values(t rapid.TB, json string) Values {
	t.Helper()
	v, err := ParseValues([]byte(json))
	if err != nil {
		t.Fatalf("parsing a test's values: %v", err)
	}
	return v
}

func path(t rapid.TB, s string) Path {
	t.Helper()
	p, err := ParsePath(s)
	if err != nil {
		t.Fatalf("parsing a test's path: %v", err)
	}
	return p
}

func place(t rapid.TB, document, s string) Place { return Place{document, path(t, s)} }

// fresh is a store with a gate at which updates wait for 10 s.
func fresh() *Store { return NewStore(NewGate(10 * time.Second)) }

func put(t rapid.TB, s *Store, r Reader, name, json string) Change {
	t.Helper()
	var expected uint64
	if d, err := s.Document(name); err == nil {
		expected = d.Revision()
	}
	content := tree(t, json)
	change, err := s.Update(context.Background(), Update{Document: name, Expected: expected, Content: &content}, r, nil)
	if err != nil {
		t.Fatalf("putting %s: %v", name, err)
	}
	return change
}

func install(t rapid.TB, s *Store, lease, json string) *Install {
	t.Helper()
	in, err := s.Install(context.Background(), lease, values(t, json))
	if err != nil {
		t.Fatalf("installing %s: %v", lease, err)
	}
	return in
}

func restore(t rapid.TB, in *Install) Restored {
	t.Helper()
	done, err := in.Restore(context.Background())
	if err != nil {
		t.Fatalf("restoring: %v", err)
	}
	end(t, in)
	return done
}

func commit(t rapid.TB, in *Install) {
	t.Helper()
	if err := in.Commit(context.Background()); err != nil {
		t.Fatalf("committing: %v", err)
	}
	end(t, in)
}

func end(t rapid.TB, in *Install) {
	t.Helper()
	if err := in.End(context.Background()); err != nil {
		t.Fatalf("ending: %v", err)
	}
}

// dump writes down all that a store holds, values included.
func dump(s *Store) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.documents)) {
		h := s.documents[name]
		fmt.Fprintf(&b, "%s@%d %s => %s", name, h.doc.Revision(), h.doc.Encode(), h.tree().Encode())
		for _, p := range h.unresolved() {
			fmt.Fprintf(&b, " unresolved %s", p)
		}
		b.WriteByte('\n')
	}
	for _, at := range slices.SortedFunc(maps.Keys(s.registry.filledBy), Place.compare) {
		fmt.Fprintf(&b, "%s <- %s\n", at, s.registry.filledBy[at])
	}
	for _, src := range slices.SortedFunc(maps.Keys(s.registry.places), func(a, b source) int {
		return strings.Compare(string(a.scheme)+a.name, string(b.scheme)+b.name)
	}) {
		fmt.Fprintf(&b, "%s %s: %v\n", src.scheme, src.name, slices.SortedFunc(maps.Keys(s.registry.places[src]), Place.compare))
	}
	return b.String()
}

func wantDump(t rapid.TB, s *Store, want, after string) {
	t.Helper()
	if got := dump(s); got != want {
		t.Fatalf("%s the store is\n%s\nbut was\n%s", after, got, want)
	}
}

func wantIs(t rapid.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("the error is %v, want %v", err, target)
		}
	}
	if err != nil && strings.Contains(err.Error(), hidden) {
		t.Fatalf("a value is in the error %v", err)
	}
}

// now gives what stands in the store's tree, candidates included.
func now(t rapid.TB, s *Store, document, at string) string {
	t.Helper()
	return string(atIn(t, s.documents[document].tree(), path(t, at)).Encode())
}

func atIn(t rapid.TB, v Value, p Path) Value {
	t.Helper()
	for _, step := range p.Steps() {
		next, err := v.step(step)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		v = next
	}
	return v
}

func wantNow(t rapid.TB, s *Store, document, at, want string) {
	t.Helper()
	if got := now(t, s, document, at); got != want {
		t.Fatalf("%s of %s is %s, want %s", at, document, got, want)
	}
}

func texts(paths []Path) string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = p.String()
	}
	return strings.Join(all, " ")
}

func changesText(changes []Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Document.Name()+": "+texts(c.Paths))
	}
	return strings.Join(all, "; ")
}

func wantText(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}
