package garbage

import (
	"runtime"
	"testing"
)

var sink []byte

// TestFloorSpacesCollections: the same garbage is collected far less often.
func TestFloorSpacesCollections(t *testing.T) {
	collections := func() uint32 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 64 << 10 { // 64 MiB in all
			sink = make([]byte, 1<<10)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	without := collections()
	Floor()
	if with := collections(); with > 3 || without < 3*max(with, 1) {
		t.Errorf("64 MiB of garbage are collected %d times without a floor and %d times with one", without, with)
	}
	if len(held) != FloorSize {
		t.Error("there is no floor")
	}
}
