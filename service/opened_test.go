package service

import (
	"fmt"
	"testing"
)

// TestOpenedValuesAreBounded: the first opened are let go.
func TestOpenedValuesAreBounded(t *testing.T) {
	var o opened
	for i := range 3 * maxOpened {
		let, want := o.add(fmt.Sprint(i)), ""
		if i >= maxOpened {
			want = fmt.Sprint(i - maxOpened)
		}
		if let != want {
			t.Fatalf("%d lets %q go, not %q", i, let, want)
		}
	}
}
