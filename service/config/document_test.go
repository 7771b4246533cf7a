package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A script writes JSON, which YAML is a superset of. The library would keep all
// tokens of one big bracket, seven times what the same needs in block style; see
// beginDocument.
func TestJSONTakesNoMoreMemoryThanBlocks(t *testing.T) {
	const count = 20_000
	var json, block strings.Builder
	json.WriteString("# generated\n  {\"leases\":{")
	block.WriteString("leases:\n")
	for i := range count {
		fmt.Fprintf(&json, `"l%d":{"path":"database/creds/r%d","kind":"postgresql"},`, i, i)
		fmt.Fprintf(&block, "  l%d:\n    path: database/creds/r%d\n    kind: postgresql\n", i, i)
	}
	json.WriteString("}}")
	allocated := func(src string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := readDocument("x", src)
		runtime.ReadMemStats(&after)
		if err != nil || len(d.root.Content) != 2 || len(d.root.Content[1].Content) != 2*count {
			t.Fatalf("read %v, %v", d, err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	asJSON, asBlock := allocated(json.String()), allocated(block.String())
	t.Logf("%d bytes for a lease as JSON, %d in block style", asJSON/count, asBlock/count)
	if asJSON > 2*asBlock {
		t.Errorf("%d bytes for a lease as JSON, %d in block style", asJSON/count, asBlock/count)
	}
}
