package failover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

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

// table collects rows; a row of the same name takes the old one's place, so
// that parts can be measured again one by one.
type table struct{ rows []row }

// atMost adds a figure that must not exceed its target.
func (tb *table) atMost(t *testing.T, name, unit string, ours, target float64, how string) {
	t.Helper()
	holds := ours <= target
	tb.add(t, row{Name: name, Unit: unit, Ours: round(ours), Target: &target, Holds: &holds, How: how})
}

// figure adds one without a target.
func (tb *table) figure(t *testing.T, name, unit string, ours float64, how string) {
	t.Helper()
	tb.add(t, row{Name: name, Unit: unit, Ours: round(ours), How: how})
}

func (tb *table) add(t *testing.T, r row) {
	t.Helper()
	tb.rows = append(tb.rows, r)
	verdict := ""
	if r.Holds != nil {
		verdict = fmt.Sprintf("  target %v: %v", *r.Target, *r.Holds)
	}
	t.Logf("%-60s %10v %s%s", r.Name, r.Ours, r.Unit, verdict)
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

func round(v float64) float64 { return math.Round(v*10) / 10 }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile gives the smallest value that at least p percent do not exceed.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// spread adds p50, p99 and the greatest of a measurement; the target is that of
// the p99, 0: none.
func (tb *table) spread(t *testing.T, name string, all []time.Duration, target time.Duration, how string) {
	t.Helper()
	how = fmt.Sprintf("%s; n=%d", how, len(all))
	tb.figure(t, name+", p50", "ms", ms(percentile(all, 50)), how)
	if target > 0 {
		tb.atMost(t, name+", p99", "ms", ms(percentile(all, 99)), ms(target), how)
	} else {
		tb.figure(t, name+", p99", "ms", ms(percentile(all, 99)), how)
	}
}
