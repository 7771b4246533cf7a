package leasecore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Owner is one of our leases under a lease id of Vault's.
type Owner struct {
	Name  string
	Lease uint64
}

// Shared is a lease id that more than one lease has (L26), with them in the
// order of being recorded, which decides who inherits.
type Shared struct {
	Vault, LeaseID string
	Owners         []Owner
}

// Shared gives the lease ids that more than one lease has, in no order. With the
// head and the names it is all that a state holds of its log ([Restore]).
func (s *State) Shared() []Shared {
	var out []Shared
	for id, owners := range s.owners {
		if len(owners) < 2 {
			continue
		}
		one := Shared{Vault: id.vault, LeaseID: id.id}
		for _, o := range owners {
			one.Owners = append(one.Owners, Owner{o.name, o.no})
		}
		out = append(out, one)
	}
	return out
}

// Frozen is what a state holds of its log as it was at one moment.
type Frozen struct {
	Head   Head
	Names  []*Name
	Shared []Shared
}

// Freeze gives the state as it is now, for who reads it elsewhere while the state
// goes on: until [State.Thaw] a name is copied before it is changed. It takes far
// less time than to read it all. What was frozen before stays as it is, too.
func (s *State) Freeze() Frozen {
	s.moved = map[string]bool{}
	return Frozen{Head: s.Head, Names: slices.AppendSeq(make([]*Name, 0, len(s.names)), maps.Values(s.names)), Shared: s.Shared()}
}

// Thaw says that nobody reads what was frozen any more.
func (s *State) Thaw() { s.moved = nil }

var errRestore = errors.New("this is no state of a scope")

// Restore gives the state that was frozen, but for what is memory of the holder
// that it was taken from: that, a new epoch forgets. It keeps the names. An error:
// they contradict themselves.
func Restore(f Frozen) (*State, error) {
	names := f.Names
	s := NewState(f.Head.Scope)
	s.Head = f.Head
	s.names = make(map[string]*Name, len(names))
	s.owners = make(map[leaseID][]owner, len(names))
	for _, n := range names {
		if n.Name == "" || s.names[n.Name] != nil {
			return nil, fmt.Errorf("%w: name %q is there twice, or empty", errRestore, n.Name)
		}
		s.names[n.Name] = n
		for i := range n.Leases {
			if l := &n.Leases[i]; l.State == Grace && l.Replaced == nil {
				return nil, fmt.Errorf("%w: lease %d of %s is replaced, and nothing says when", errRestore, l.No, n.Name)
			}
			s.own(&n.Leases[i], n.Name)
		}
	}
	for _, id := range f.Shared {
		key := leaseID{id.Vault, id.LeaseID}
		if len(s.owners[key]) != len(id.Owners) {
			return nil, fmt.Errorf("%w: %d leases share a lease id, not %d", errRestore, len(s.owners[key]), len(id.Owners))
		}
		for i, o := range id.Owners {
			s.owners[key][i] = owner{o.Name, o.Lease}
		}
	}
	s.shareAll()
	return s, nil
}
