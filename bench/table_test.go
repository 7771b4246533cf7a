package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	size = flag.String("bench.size", "tiny", "how much is measured: tiny, short or full")
	out  = flag.String("bench.out", "", "the JSON file to bring up to date; empty: none")
)

// sized gives the value for the size that is asked for.
func sized[T any](tiny, short, full T) T {
	switch *size {
	case "full":
		return full
	case "short":
		return short
	default:
		return tiny
	}
}

// row is one line of the table, in the form that all benchmarks share.
type row struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	Ours   float64  `json:"ours"`
	Raw    *float64 `json:"raw"`
	Ratio  *float64 `json:"ratio"`
	Target *float64 `json:"target"`
	Holds  *bool    `json:"holds"`
	How    string   `json:"how"`
}

type table struct {
	mu   sync.Mutex
	rows []row
}

// beside adds a figure and the engine's, both rates (more is better) or both
// times (less is better); the ratio says which part of the engine's speed ours
// is. Target 0: none.
func (tb *table) beside(t *testing.T, name, unit string, ours, raw float64, times bool, target float64, how string) {
	t.Helper()
	ratio := ours / raw
	if times {
		ratio = raw / ours
	}
	r := row{Name: name, Unit: unit, Ours: round(ours), Raw: pointer(round(raw)), Ratio: pointer(math.Round(ratio*1000) / 1000), How: how}
	if target > 0 {
		r.Target, r.Holds = &target, pointer(ratio >= target)
	}
	tb.add(t, r)
}

// atMost adds a figure that must not exceed its target.
func (tb *table) atMost(t *testing.T, name, unit string, ours, target float64, how string) {
	t.Helper()
	tb.add(t, row{Name: name, Unit: unit, Ours: round(ours), Target: &target, Holds: pointer(ours <= target), How: how})
}

// figure adds one without a target.
func (tb *table) figure(t *testing.T, name, unit string, ours float64, how string) {
	t.Helper()
	tb.add(t, row{Name: name, Unit: unit, Ours: round(ours), How: how})
}

func (tb *table) add(t *testing.T, r row) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.rows = append(tb.rows, r)
	t.Log(r)
}

// String gives the row as a line of the table.
func (r row) String() string {
	cell := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	holds := ""
	if r.Holds != nil {
		holds = map[bool]string{true: "holds", false: "MISSED"}[*r.Holds]
	}
	return fmt.Sprintf("%-62s %12v %12s %-10s %7s %7s %s", r.Name, r.Ours, cell(r.Raw), r.Unit, cell(r.Ratio), cell(r.Target), holds)
}

func (tb *table) print(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	fmt.Fprintf(&lines, "\n%-62s %12s %12s %-10s %7s %7s\n", "", "ours", "raw", "unit", "ratio", "target")
	for _, r := range tb.rows {
		fmt.Fprintln(&lines, r)
	}
	t.Log(lines.String())
}

// write brings the file up to date.
func (tb *table) write(t *testing.T) {
	t.Helper()
	if *out == "" {
		return
	}
	var all []row
	b, err := os.ReadFile(*out)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatalf("%s: %v", *out, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	for _, r := range tb.rows {
		if i := slices.IndexFunc(all, func(old row) bool { return old.Name == r.Name }); i >= 0 {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	if b, err = json.MarshalIndent(all, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*out, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBench takes the whole table.
func TestBench(t *testing.T) {
	tb := &table{}
	for _, part := range []struct {
		name string
		take func(*testing.T, *table)
	}{{"append", appends}, {"get", gets}, {"leases", leases}, {"scopes", scopes}, {"day", day}, {"replay", replays}} {
		t.Run(part.name, func(t *testing.T) { part.take(t, tb) })
		tb.write(t) // each part as it is there
	}
	tb.print(t)
}

func pointer[T any](v T) *T { return &v }

func round(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	return math.Round(v*1000) / 1000
}

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median of some times.
func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
