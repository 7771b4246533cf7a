//go:build mutants

package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// coreMutants are deliberate faults of the core: a place in its code and what
// stands there instead. The code itself has no switch for them; the compiler is
// given the changed file in place of the true one.
var coreMutants = []struct{ name, file, old, new string }{
	{"hand over before guard-extended", "settle.go", `return l.Guard == "" || l.LeaseID == "" || l.GuardExtended`, `return true`},
	{"take an empty set of consumers for a yes", "settle.go", `case !n.Definition.NeedsConsumer():`, `case true:`},
	{"drop a pending retry", "apply.go", `n.Pending = &Pending{Retry: r,`, `n.Pending = &Pending{Retry: events.Retry{Attempt: r.Attempt},`},
	{"revoke the candidate although a consumer may hold it", "settle.go", `Safe: len(missing) == 0`, `Safe: true`},
	{"revoke the replaced one before everybody follows", "settle.go", `case len(missing) == 0:`, `default:`},
	{"revoke the kept one before everybody is back", "settle.go", `case l.State == Kept && n.Handover == nil && w.gate(n, n.N):`, `case l.State == Kept && n.Handover == nil:`},
	{"leave intents of earlier epochs open", "settle.go", `l.State == Requested && l.Epoch != w.h.Epoch`, `l.State == Requested && l.Epoch > w.h.Epoch`},
	{"register without compare and replace", "decide.go", `case now.ID != r.Replaces || r.Incarnation < now.ID:`, `case false:`},
	{"take an older revision of the definitions", "decide.go", `case c.Revision < w.h.Revision:`, `case false:`},
	{"forget ownership of what came with a failure", "apply.go", `if d.LeaseID == "" && d.Guard == "" {`, `if true {`},
	{"serve expired", "lease.go", `return !ends || now.Before(end)`, `return !ends || !end.IsZero()`},
	{"forget the guard's end", "lease.go", `g := l.GuardAt.Add(l.GuardTTL); end.IsZero() || g.Before(end)`, `g := l.GuardAt.Add(l.GuardTTL); end.IsZero() && g.Before(end)`},
	{"confirm what was never asked", "state.go", `if seq == 0 || d.base.Confirmed`, `if seq != 0 && d.base.Confirmed`},
	{"tell nobody again", "owed.go", `case n.N > 0 && s.Confirmed(n.Name, id) < n.N:`, `case n.N > 0 && s.Confirmed(n.Name, id) > n.N:`},
}

// TestCoreMutants proves that the simulator sees faults of the core itself: each
// is caught within the short run.
func TestCoreMutants(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range coreMutants {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(root, "leasecore", m.file)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%q stands %d times in leasecore/%s: name the place anew", m.old, n, m.file)
			}
			changed := filepath.Join(dir, m.file)
			overlay := filepath.Join(dir, "overlay.json")
			binary := filepath.Join(dir, "sim.test")
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string][]byte{changed: []byte(strings.Replace(string(source), m.old, m.new, 1)), overlay: replace} {
				if err := os.WriteFile(name, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
				t.Fatalf("the mutant does not compile: %v\n%s", err, out)
			}
			out, err := exec.Command(binary, "-test.run", "^TestSim$", "-test.v", "-within", "3m").CombinedOutput()
			said := string(out)
			at := strings.Index(said, " breaks ")
			if err == nil || at < 0 || strings.HasPrefix(said[at:], " breaks panic") {
				t.Fatalf("not caught: %v\n%s", err, said)
			}
			t.Logf("%s;%s", firstLine(said[strings.Index(said, "sim_test.go"):]), firstLine(said[at:]))
		})
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
