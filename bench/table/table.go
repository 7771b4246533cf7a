package table

import (
	"encoding/json"
	"errors"
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

// Row is one line of the table.
type Row struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	Ours   float64  `json:"ours"`
	Raw    *float64 `json:"raw"`    // the engine's figure; nil: there is none
	Ratio  *float64 `json:"ratio"`  // which part of the engine's speed ours is
	Target *float64 `json:"target"` // of the ratio where there is one, else of ours
	Holds  *bool    `json:"holds"`
	How    string   `json:"how"` // how it was taken
}

// Table collects rows. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	rows []Row
}

// Beside adds a figure and the engine's, both rates (more is better) or both
// times or costs (less is better); the target is of the ratio. Target 0: none.
func (tb *Table) Beside(t testing.TB, name, unit string, ours, raw float64, less bool, target float64, how string) {
	t.Helper()
	ratio := ours / raw
	if less {
		ratio = raw / ours
	}
	r := Row{Name: name, Unit: unit, Ours: round(ours), Raw: new(round(raw)), Ratio: new(math.Round(ratio*1000) / 1000), How: how}
	if target > 0 {
		r.Target, r.Holds = &target, new(ratio >= target)
	}
	tb.add(t, r)
}

// AtMost adds a figure that must not exceed its target.
func (tb *Table) AtMost(t testing.TB, name, unit string, ours, target float64, how string) {
	t.Helper()
	tb.add(t, Row{Name: name, Unit: unit, Ours: round(ours), Target: &target, Holds: new(ours <= target), How: how})
}

// AtMostBeside adds a cost that must not exceed its target, and what the engine
// takes of it for the same work.
func (tb *Table) AtMostBeside(t testing.TB, name, unit string, ours, raw, target float64, how string) {
	t.Helper()
	tb.add(t, Row{
		Name: name, Unit: unit, Ours: round(ours), Raw: new(round(raw)), Ratio: new(math.Round(raw/ours*1000) / 1000),
		Target: &target, Holds: new(ours <= target), How: how,
	})
}

// Figure adds one without a target.
func (tb *Table) Figure(t testing.TB, name, unit string, ours float64, how string) {
	t.Helper()
	tb.add(t, Row{Name: name, Unit: unit, Ours: round(ours), How: how})
}

// Spread adds p50 and p99 of a measurement; the target is that of the p99, 0:
// none.
func (tb *Table) Spread(t testing.TB, name string, all []time.Duration, target time.Duration, how string) {
	t.Helper()
	how = fmt.Sprintf("%s; n=%d", how, len(all))
	tb.Figure(t, name+", p50", "ms", MS(Percentile(all, 50)), how)
	if target > 0 {
		tb.AtMost(t, name+", p99", "ms", MS(Percentile(all, 99)), MS(target), how)
	} else {
		tb.Figure(t, name+", p99", "ms", MS(Percentile(all, 99)), how)
	}
}

func (tb *Table) add(t testing.TB, r Row) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.rows = append(tb.rows, r)
	t.Log(r)
}

// String gives the row as a line of the table.
func (r Row) String() string {
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

// Print logs the whole table.
func (tb *Table) Print(t testing.TB) {
	t.Helper()
	var lines strings.Builder
	fmt.Fprintf(&lines, "\n%-62s %12s %12s %-10s %7s %7s\n", "", "ours", "raw", "unit", "ratio", "target")
	for _, r := range tb.rows {
		fmt.Fprintln(&lines, r)
	}
	t.Log(lines.String())
}

// Write brings a JSON file up to date: a row of the same name takes the old one's
// place, so that parts can be measured again one by one. No file: nothing is
// written.
func (tb *Table) Write(t testing.TB, file string) {
	t.Helper()
	if file == "" {
		return
	}
	var all []Row
	b, err := os.ReadFile(file)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	for _, r := range tb.rows {
		if i := slices.IndexFunc(all, func(old Row) bool { return old.Name == r.Name }); i >= 0 {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	if b, err = json.MarshalIndent(all, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func round(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	return math.Round(v*1000) / 1000
}

// MS gives a duration in milliseconds.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Rate gives how many there are in a second.
func Rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// Percentile gives the smallest value that at least p percent do not exceed, and
// 0 of none.
func Percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// Median gives the middle one.
func Median(all []time.Duration) time.Duration { return Percentile(all, 50) }
