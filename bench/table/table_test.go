package table

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWriteTakesAnOldRowsPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out", "all.json")
	var first, again Table
	first.Figure(t, "memory", "B", 3, "before")
	first.Beside(t, "append", "events/s", 80, 100, false, 0.7, "in turns")
	first.Write(t, file)
	again.AtMost(t, "memory", "B", 2, 1, "again")
	again.Spread(t, "hand-over", []time.Duration{time.Second, 3 * time.Second, 2 * time.Second}, 2*time.Second, "three")
	again.Write(t, file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0].How != "again" || *rows[0].Holds || *rows[1].Ratio != 0.8 || !*rows[1].Holds || rows[2].Ours != 2000 || *rows[3].Holds {
		t.Errorf("%s", b)
	}
}

func TestLessIsBetterTurnsTheRatio(t *testing.T) {
	var tb Table
	tb.Beside(t, "restart", "ms", 200, 100, true, 0.7, "")
	tb.AtMostBeside(t, "idle", "%", 4, 1, 3, "")
	if *tb.rows[0].Ratio != 0.5 || *tb.rows[0].Holds || *tb.rows[1].Ratio != 0.25 || *tb.rows[1].Holds {
		t.Errorf("%+v", tb.rows)
	}
}
