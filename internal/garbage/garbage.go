// Package garbage keeps the collector of a program that holds little from running all
// the time: by itself it does so whenever the heap has doubled, which for a heap of 4
// MiB is after each 4 MiB of garbage, a dozen hand-overs, and each of its runs makes
// what goes on beside it some milliseconds slower.
//
// It guarantees nothing and costs address space, and memory of the size of the floor at
// most, while garbage waits; a large heap is collected as before. It is for programs,
// not for libraries. Concurrency: [Floor] may be called by several goroutines.
//
// How it is tested: by counting collections.
package garbage

import "sync"

// FloorSize is what the heap seems to hold at least after [Floor], in bytes. It is never
// written to, so the operating system gives no memory for it.
const FloorSize = 32 << 20

var (
	once sync.Once
	held []byte
)

// Floor has the collector run no more often than every 32 MiB of garbage, from now on.
func Floor() { once.Do(func() { held = make([]byte, FloorSize) }) }
