package sim

import (
	"errors"
	"slices"
)

// Minimise looks for a short schedule that breaks the same rule as a failed
// one: it leaves steps out, and then makes what is left dull, while it still
// fails. It replays at most budget schedules.
func Minimise(opts Options, budget int) Result {
	c := newChoices(opts.Seed)
	c.keep = true
	best := run(opts, c)
	rule := ruleOf(best.Err)
	if rule == "" {
		return best
	}
	left := budget
	try := func(made [][]uint32) bool {
		if left <= 0 {
			return false
		}
		left--
		o := opts
		o.Steps = len(made) - 1 // the first group is the set-up's
		if o.Steps < 1 {
			return false
		}
		r := run(o, replayed(made))
		if ruleOf(r.Err) != rule {
			return false
		}
		r.choices = made[:min(len(made), r.Made+2)]
		best = r
		return true
	}
	if !try(best.choices) {
		return best
	}
	for size := len(best.choices) / 2; size >= 1; size /= 2 {
		for at := len(best.choices) - size; at >= 1; at -= size {
			if at+size > len(best.choices) {
				continue
			}
			try(slices.Delete(slices.Clone(best.choices), at, at+size))
		}
	}
	for g := range best.choices {
		if g >= len(best.choices) {
			break
		}
		for i := range best.choices[g] {
			if g >= len(best.choices) || i >= len(best.choices[g]) || best.choices[g][i] == 0 {
				continue
			}
			made := slices.Clone(best.choices)
			made[g] = slices.Clone(made[g])
			made[g][i] = 0
			try(made)
		}
	}
	opts.Trace = true
	opts.Steps = len(best.choices) - 1
	out := run(opts, replayed(best.choices))
	out.choices = best.choices
	return out
}

func ruleOf(err error) string {
	var v *Violation
	if errors.As(err, &v) {
		return v.Rule
	}
	return ""
}
