package bench

import (
	"flag"
	"testing"

	"github.com/leasesvc/leasesvc/bench/table"
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

// TestBench takes the whole table.
func TestBench(t *testing.T) {
	tb := &table.Table{}
	for _, part := range []struct {
		name string
		take func(*testing.T, *table.Table)
	}{{"append", appends}, {"get", gets}, {"leases", leases}, {"scopes", scopes}, {"day", day}, {"replay", replays}} {
		t.Run(part.name, func(t *testing.T) { part.take(t, tb) })
		tb.Write(t, *out) // each part as it is there
	}
	tb.Print(t)
}
