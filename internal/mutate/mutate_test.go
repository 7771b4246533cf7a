package mutate_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
	"github.com/leasesvc/leasesvc/internal/mutate"
)

const source = `package sample

import "time"

const limit = 3

// Allowed has tests for all but its boundary.
func Allowed(n int, forced bool) bool {
	return n < limit || forced
}

// Sum would loop for ever without its increment.
func Sum(n int) (sum int) {
	for i := 0; i < n; {
		i++
		sum += i
	}
	return sum
}

func Due(at, now time.Time) bool { return !now.Before(at) }

func Kind(n int) string {
	switch {
	case n == 0:
		return "none"
	default:
		return "some"
	}
}

type Box struct{ n int }

// Put has no test, and its one mutant does not compile: unused is not used then.
func (b *Box) Put(n int) {
	unused := n
	b.n = unused
}
`

const tests = `package sample

import (
	"testing"
	"time"
)

func TestAllowed(t *testing.T) {
	if !Allowed(0, false) || Allowed(9, false) || !Allowed(9, true) {
		t.Error("wrong")
	}
}

func TestSum(t *testing.T) {
	if Sum(3) != 6 {
		t.Error("wrong")
	}
}

func TestDue(t *testing.T) {
	now := time.Unix(10, 0)
	if Due(now.Add(1), now) || !Due(now, now) || !Due(now.Add(-1), now) {
		t.Error("wrong")
	}
}

func TestKind(t *testing.T) {
	if Kind(0) != "none" || Kind(1) != "some" {
		t.Error("wrong")
	}
}

func TestSlow(t *testing.T) { t.Log("nothing") }
`

// module writes a module of one package and gives its directory.
func module(t *testing.T, source, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/sample\n\ngo 1.26\n", "sample/sample.go": source, "sample/sample_test.go": tests,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, cfg mutate.Config) (*mutate.Report, string) {
	t.Helper()
	var out strings.Builder
	cfg.Package, cfg.Parallel, cfg.Verbose = "./sample", 2, true
	r, err := mutate.Run(context.Background(), cfg, &out)
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestSurvivorsAreWhatNoTestSees(t *testing.T) {
	dir := module(t, source, tests)
	r, out := run(t, mutate.Config{Dir: dir})
	var survivors []string
	for _, m := range r.Survivors {
		survivors = append(survivors, m.String())
	}
	want := []string{
		"sample/sample.go:5: limit: `3` → `(3 + 1)`",
		"sample/sample.go:9: Allowed: `n < limit` → `n <= limit`",
	}
	if !slices.Equal(survivors, want) {
		t.Errorf("survivors:\n%s\nwant:\n%s", strings.Join(survivors, "\n"), strings.Join(want, "\n"))
	}
	if r.Found <= r.Tried || r.Tried != r.Killed+len(r.Survivors) {
		t.Errorf("%d found, %d tried, %d killed", r.Found, r.Tried, r.Killed)
	}
	for _, line := range []string{
		"killed    sample/sample.go:9: Allowed: `n < limit || forced` → `n < limit && forced` (by TestAllowed)",
		"killed    sample/sample.go:15: Sum: `i++` → `(removed)` (by the time limit)",
		"killed    sample/sample.go:21: Due: `now.Before(at)` → `!now.After(at)` (by TestDue)",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in:\n%s", line, out)
		}
	}
	if again, _ := os.ReadFile(filepath.Join(dir, "sample", "sample.go")); string(again) != source {
		t.Error("the tree was written to")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "sample")); len(left) != 2 {
		t.Errorf("files were left: %v", left)
	}
}

func TestEquivalentOnesAreReportedApart(t *testing.T) {
	dir := module(t, source, tests)
	table, err := mutate.ReadEquivalents(strings.NewReader("text\n\n" +
		"| file | function | mutation | reason |\n|---|---|---|---|\n" +
		"| sample/sample.go | Allowed | `n < limit` → `n <= limit` | nobody asks for it |\n" +
		"| sample/sample.go | Allowed | `n < limit \\|\\| forced` → `n < limit && forced` | wrong: a test sees it |\n" +
		"| sample/sample.go | Gone | `a` → `b` | there is no such function |\n" +
		"| other/other.go | Gone | `a` → `b` | of another package |\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, out := run(t, mutate.Config{Dir: dir, Only: regexp.MustCompile(`:Allowed$`), Equivalent: table})
	if len(r.Equivalent) != 1 || len(r.Survivors) != 0 || r.Score() != 100 || !strings.Contains(out, "(nobody asks for it)") {
		t.Errorf("%d equivalent, %d survivors, score %g:\n%s", len(r.Equivalent), len(r.Survivors), r.Score(), out)
	}
	if len(r.Stale) != 2 || !strings.Contains(r.Stale[0], "killed by TestAllowed") || !strings.Contains(r.Stale[1], "no such mutant") {
		t.Errorf("stale: %q", r.Stale)
	}
}

func TestARowWithoutReasonIsRefused(t *testing.T) {
	_, err := mutate.ReadEquivalents(strings.NewReader("| file | function | mutation | reason |\n|--|--|--|--|\n| f.go | F | `a` → `b` | |\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v", err)
	}
	none, err := mutate.ReadEquivalents(strings.NewReader("| other | table |\n|--|--|\n| 1 | 2 |\n"))
	if err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

func TestASampleIsSpreadAndTheSameEachTime(t *testing.T) {
	dir := module(t, source, tests)
	r, first := run(t, mutate.Config{Dir: dir, Sample: 4})
	_, second := run(t, mutate.Config{Dir: dir, Sample: 4})
	if r.Tried != 4 || first != second || !strings.Contains(first, ":5: limit") || !strings.Contains(first, ": Due") {
		t.Errorf("%d tried:\n%s\n%s", r.Tried, first, second)
	}
}

func TestTestsThatFailAnywayAreAnError(t *testing.T) {
	dir := module(t, source, strings.Replace(tests, "!= 6", "!= 7", 1))
	_, err := mutate.Run(context.Background(), mutate.Config{Dir: dir, Package: "./sample"}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "TestSum") {
		t.Errorf("%v", err)
	}
	r, _ := run(t, mutate.Config{Dir: dir, Skip: "TestSum", Only: regexp.MustCompile(`:Sum$`)})
	if r.Killed != 0 || len(r.Survivors) == 0 {
		t.Errorf("%d killed by tests that are left out", r.Killed)
	}
}

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{Why: "It works on any module, and knows nothing of this one."})
}
