package document

import (
	"slices"
	"strconv"
)

// trail is a path while a tree is walked: each step knows the one above. Making
// a [Path] for every node would cost the length of the path each time, which a
// deep document with many items turns into minutes. nil is the root.
type trail struct {
	up   *trail
	step Step
	size int // bytes of the path so far
}

func (t *trail) key(k string) *trail {
	size := len(k) + 1
	if !plain(k) {
		size = len(quote(k)) + 2
	}
	return &trail{t, Step{Key: k}, t.bytes() + size}
}

func (t *trail) index(i int) *trail {
	return &trail{t, Step{Index: i, IsIndex: true}, t.bytes() + len(strconv.Itoa(i)) + 2}
}

func (t *trail) bytes() int {
	if t == nil {
		return 0
	}
	return t.size
}

// long tells a path that no document may have.
func (t *trail) long() bool { return t.bytes() > MaxPath }

func (t *trail) path() Path {
	var steps []Step
	for ; t != nil; t = t.up {
		steps = append(steps, t.step)
	}
	slices.Reverse(steps)
	return join(steps)
}

// String gives the path for an error, cut when it is longer than it may be.
func (t *trail) String() string {
	if s := t.path().String(); len(s) <= MaxPath {
		return s
	}
	return t.path().String()[:32] + "..."
}
