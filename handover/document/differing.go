package document

import (
	"maps"
	"slices"
)

// MaxPaths bounds the paths of a [Change].
const MaxPaths = 256

// differing gives the places that a draft changes: where something else is
// written, where another reference fills the place, and where the same one
// gives another value.
func (s *Store) differing(was *held, d draft) []Path {
	if was == nil {
		return []Path{{}}
	}
	found := map[Path]bool{}
	for _, p := range differ(nil, was.doc.Content(), d.doc.Content()) {
		found[p] = true
	}
	for p, ref := range d.winners {
		old, ok := s.registry.filledBy[Place{d.doc.Name(), p}]
		if !ok || old != ref || !was.values[p].Equal(d.values[p]) {
			found[p] = true
		}
	}
	return bounded(outermost(found))
}

// differ gives the places at and below a place where two revisions differ in
// what is written, no more than [MaxPaths].
func differ(at *trail, before, after Value) []Path {
	if before.at == after.at {
		return nil
	}
	inside := before.Kind() == after.Kind() && !isChain(before) && !isChain(after)
	switch {
	case inside && before.Kind() == Map:
		return differInMaps(at, before, after)
	case inside && before.Kind() == List && before.Len() == after.Len():
		var below [][]Path
		for i := range before.at.items {
			below = append(below, differ(at.index(i), before.at.items[i], after.at.items[i]))
		}
		return gather(at, below, func(i int) *trail { return at.index(i) })
	case before.Equal(after):
		return nil
	}
	return []Path{at.path()}
}

func differInMaps(at *trail, before, after Value) []Path {
	keys := append(before.keys(), after.keys()...)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	below := make([][]Path, len(keys))
	for i, k := range keys {
		x, inBefore := before.at.fields[k]
		y, inAfter := after.at.fields[k]
		if inBefore != inAfter {
			below[i] = []Path{at.key(k).path()}
		} else {
			below[i] = differ(at.key(k), x, y)
		}
	}
	return gather(at, below, func(i int) *trail { return at.key(keys[i]) })
}

// gather puts together what differs below the children of a place; when that is
// too much the children that differ, when these are too many the place.
func gather(at *trail, below [][]Path, child func(int) *trail) []Path {
	all := slices.Concat(below...)
	if len(all) <= MaxPaths {
		return all
	}
	all = nil
	for i, paths := range below {
		if len(paths) > 0 {
			all = append(all, child(i).path())
		}
	}
	if len(all) <= MaxPaths {
		return all
	}
	return []Path{at.path()}
}

// outermost sorts paths and leaves out those that lie within others.
func outermost(found map[Path]bool) []Path {
	var paths []Path
	for _, p := range slices.SortedFunc(maps.Keys(found), Path.compare) {
		if !slices.ContainsFunc(p.above(), func(o Path) bool { return found[o] }) {
			paths = append(paths, p)
		}
	}
	return paths
}

// above gives the paths that lead to p, without p.
func (p Path) above() []Path {
	steps := p.Steps()
	paths := make([]Path, len(steps))
	for i := range steps {
		paths[i] = join(steps[:i])
	}
	return paths
}

// bounded shortens the longest paths until there are few enough of them.
func bounded(paths []Path) []Path {
	deepest := 0
	for _, p := range paths {
		deepest = max(deepest, len(p.Steps()))
	}
	for depth := deepest - 1; len(paths) > MaxPaths; depth-- {
		short := map[Path]bool{}
		for _, p := range paths {
			steps := p.Steps()
			short[join(steps[:min(depth, len(steps))])] = true
		}
		paths = outermost(short)
	}
	return paths
}
