package service

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestViewTableIsAMap: whatever is stored, dropped and looked for in whatever order.
func TestViewTableIsAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var table viewTable
		want := map[string]*view{}
		name := rapid.Map(rapid.IntRange(0, 12), func(n int) string { return fmt.Sprint("name-", n) })
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				n, v := name.Draw(t, "name"), &view{lease: rapid.Uint64().Draw(t, "lease")}
				table.store(n, v)
				want[n] = v
			},
			"drop": func(t *rapid.T) {
				n := name.Draw(t, "name")
				table.store(n, nil)
				delete(want, n)
			},
			"clear": func(*rapid.T) {
				table.clear()
				clear(want)
			},
			"load": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if got := table.load(n); got != want[n] {
					t.Fatalf("%s: %p, want %p", n, got, want[n])
				}
			},
			"each": func(t *rapid.T) {
				got := map[string]*view{}
				table.each(func(n string, v *view) { got[n] = v })
				if !maps.Equal(got, want) {
					t.Fatalf("%v, want %v", got, want)
				}
			},
		})
	})
}

// TestViewTableManyNames: readers see what was stored before they looked, and no
// name is copied more than a few times.
func TestViewTableManyNames(t *testing.T) {
	t.Parallel()
	const names, readers = 20_000, 4
	var table viewTable
	var wg sync.WaitGroup
	stored := make(chan string, 64)
	for range readers {
		wg.Go(func() {
			for n := range stored {
				if table.load(n) == nil {
					t.Errorf("%s was stored, and is not there", n)
				}
			}
		})
	}
	for i := range names {
		n := fmt.Sprint("name-", i)
		table.store(n, &view{lease: uint64(i + 1)})
		stored <- n
	}
	close(stored)
	wg.Wait()
	if fresh := len(table.fresh); fresh > names/2+1 {
		t.Errorf("%d of %d names are found under a lock", fresh, names)
	}
}

func BenchmarkViewTable(b *testing.B) {
	var table viewTable
	for i := range 100_000 {
		table.store(fmt.Sprint("name-", i), &view{lease: 1})
	}
	for i := 0; b.Loop(); i++ {
		if table.load("name-77777") == nil {
			b.Fatal("not there")
		}
	}
}
