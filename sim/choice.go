package sim

import "math/rand/v2"

// choices is where everything random in a schedule comes from: one generator
// with one seed, or a recorded list. They are grouped by step, so that a step
// can be left out of a recording without moving the choices of the others.
//
// Choice 0 is always the dull one: nothing goes wrong, what is oldest comes
// first. A recording that ends early goes on dully.
type choices struct {
	rng    *rand.Rand
	replay [][]uint32 // nil: drawn from rng
	keep   bool
	made   [][]uint32
	group  int
	at     int
}

// newChoices draws from a seed.
func newChoices(seed uint64) *choices {
	return &choices{rng: rand.New(rand.NewPCG(seed, 0x1ea5e5)), group: -1}
}

// replayed follows a recording.
func replayed(made [][]uint32) *choices {
	return &choices{replay: append([][]uint32{}, made...), group: -1}
}

// begin begins the choices of the next step.
func (c *choices) begin() {
	c.group++
	c.at = 0
	if c.keep {
		c.made = append(c.made, nil)
	}
}

// below gives a number in [0, n).
func (c *choices) below(n int) int {
	if n <= 1 {
		return 0
	}
	v := 0
	if c.replay != nil {
		if c.group >= 0 && c.group < len(c.replay) && c.at < len(c.replay[c.group]) {
			v = int(c.replay[c.group][c.at]) % n
		}
		c.at++
	} else {
		v = int(c.rng.Uint32N(uint32(n)))
	}
	if c.keep {
		c.made[c.group] = append(c.made[c.group], uint32(v))
	}
	return v
}

// chance is true in permille of 1000 cases; the dull choice is false.
func (c *choices) chance(permille int) bool {
	return permille > 0 && c.below(1000) >= 1000-permille
}

// between gives a number in [low, high].
func (c *choices) between(low, high int) int { return low + c.below(high-low+1) }

// weighted gives an index with a probability by its weight; those of weight 0
// never come. All weights 0 gives -1. The dull choice is the first that can be.
func (c *choices) weighted(weights []int) int {
	total := 0
	for _, x := range weights {
		total += x
	}
	if total == 0 {
		return -1
	}
	v := c.below(total)
	for i, x := range weights {
		if v < x {
			return i
		}
		v -= x
	}
	return -1
}
