package leasecore

import (
	"maps"
	"slices"
)

// Public are the values of a lease that may be told, by key and sorted: there is
// one, rarely more, and a map of one takes eight times the room.
type Public []PublicValue

// PublicValue is one of them.
type PublicValue struct{ Key, Value string }

func publicOf(values map[string]string) Public {
	if len(values) == 0 {
		return nil
	}
	out := make(Public, 0, len(values))
	for _, k := range slices.Sorted(maps.Keys(values)) {
		out = append(out, PublicValue{k, values[k]})
	}
	return out
}

// Get gives the value of a key; "": there is none.
func (p Public) Get(key string) string {
	for i := range p {
		if p[i].Key == key {
			return p[i].Value
		}
	}
	return ""
}

// Map gives all of them; nil: there is none.
func (p Public) Map() map[string]string {
	if len(p) == 0 {
		return nil
	}
	out := make(map[string]string, len(p))
	for _, v := range p {
		out[v.Key] = v.Value
	}
	return out
}
