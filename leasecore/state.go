package leasecore

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Head is what a scope's state holds beside its names.
type Head struct {
	Scope string
	// Epoch is that of the last opened, Fence its sequence, Holder who opened.
	Epoch, Fence uint64
	Holder       string
	// OpenedAt is when the epoch began, Began the sequence of its first opened;
	// a reopening moves neither.
	OpenedAt time.Time
	Began    uint64
	// Overlap is how long after OpenedAt a deposed holder may still answer
	// readers, of this epoch's beginning or of an earlier one's.
	Overlap time.Duration
	// LastSeq is the sequence of the last applied event.
	LastSeq uint64
	// LastLease is the highest lease number given out.
	LastLease uint64
	// Revision and Digest are those of the definitions in force.
	Revision uint64
	Digest   string
	// Lowered are the names whose good_for was lowered in this epoch.
	Lowered []string
	// Documents are the settings documents by name. The map is never changed,
	// only replaced, since drafts share it.
	Documents map[string]Document
	// Formats are the versions of events that may be written into the log. Like
	// the documents they are only replaced.
	Formats events.Formats
	// Spent is when the scope's budget of acquisitions would be whole again.
	Spent time.Time
	// Released: the holder gave the scope back and nobody has opened since;
	// Shutdown: by hand, with everything revoked.
	Released, Shutdown bool
	ReleasedAt         time.Time
}

// State is what a scope's log says. The zero value is not usable; call
// [NewState].
type State struct {
	Head
	names map[string]*Name
	// confirmed holds, per name and incarnation, the highest n it confirmed to
	// this holder. It is memory, not log: a new epoch begins without (P13).
	confirmed map[confirmation]uint64
	// polled holds, per name, the last reading of its secret without lease
	// (L38). It is memory as well.
	polled map[string]polled
	// installed holds, per name, when this holder knew its last commit to be in
	// the log: until then readers were still promised the lease before.
	installed map[string]time.Time
	// redefined holds, per name, until when the promises last that were made
	// before a definition with a lower good_for was known to be in the log.
	redefined map[string]time.Time
	// took is when this holder knew its epoch to be opened in the log. What was
	// committed before was committed by then, which the time that the opening
	// event was stamped with does not say: an append of the holder before may
	// have landed between the two. It is memory as well.
	took time.Time
	// back holds, per Vault connection, when it was last seen to be back after
	// an outage. It is memory as well.
	back map[string]time.Time
	// owners holds who has a lease id, where there is one (L26).
	owners map[leaseID][]owner
	// moved holds the names that were changed since the state was frozen: the others
	// belong to who froze it, too. nil: it is not frozen.
	moved map[string]bool
	// like is the definition that came last: the next one is like it.
	like *events.Definition
}

type confirmation struct{ name, incarnation string }

// polled is the last reading of a secret without lease.
type polled struct {
	at     time.Time
	failed int           // readings in a row that failed
	reread time.Duration // what the secret's own clock said, 0: nothing
}

// leaseID is a lease id of Vault's and the connection it was obtained by.
type leaseID struct{ vault, id string }

// owner is one of our leases under a lease id.
type owner struct {
	name string
	no   uint64
}

// NewState gives the state of a scope whose log is empty.
func NewState(scope string) *State {
	return &State{
		Head: Head{Scope: scope}, names: map[string]*Name{}, confirmed: map[confirmation]uint64{},
		polled: map[string]polled{}, installed: map[string]time.Time{}, back: map[string]time.Time{}, redefined: map[string]time.Time{}, owners: map[leaseID][]owner{},
	}
}

// Name gives a name's state, nil when there is none. The result must not be
// changed and is valid until the next Apply.
func (s *State) Name(name string) *Name { return s.names[name] }

// Len gives the number of names.
func (s *State) Len() int { return len(s.names) }

// Names walks the names in no order.
func (s *State) Names() iter.Seq[*Name] { return maps.Values(s.names) }

// SortedNames gives the names in their order.
func (s *State) SortedNames() []string { return slices.Sorted(maps.Keys(s.names)) }

// Confirm remembers that an incarnation confirmed n. It is the only change to
// a state that is no event.
func (s *State) Confirm(name, incarnation string, n uint64) {
	key := confirmation{name, incarnation}
	if s.confirmed[key] < n {
		s.confirmed[key] = n
	}
}

// Confirmed gives the highest n that an incarnation confirmed to this holder.
func (s *State) Confirmed(name, incarnation string) uint64 {
	return s.confirmed[confirmation{name, incarnation}]
}

// target is what events are applied to: the state itself, or a draft over it.
type target interface {
	head() *Head
	// Name gives a name to read, edit one to change; nil: there is none.
	Name(name string) *Name
	edit(name string) *Name
	create(name string) *Name
	drop(name string)
	forgetConfirmations()
	forgetIncarnation(name, incarnation string)
	// own and disown keep the index of lease ids.
	own(l *Lease, name string)
	disown(l *Lease, name string)
	// ownersOf gives who has the lease id of l, in order of being recorded.
	ownersOf(l *Lease) []owner
}

func (s *State) head() *Head { return &s.Head }
func (s *State) edit(name string) *Name {
	n := s.names[name]
	if n == nil || s.moved == nil || s.moved[name] {
		return n
	}
	n = n.clone()
	s.names[name], s.moved[name] = n, true
	return n
}
func (s *State) create(name string) *Name {
	n := &Name{Name: name}
	s.names[name] = n
	if s.moved != nil {
		s.moved[name] = true
	}
	return n
}
func (s *State) drop(name string) {
	delete(s.names, name)
	delete(s.polled, name)
	delete(s.installed, name)
	delete(s.redefined, name)
}
func (s *State) forgetConfirmations() { clear(s.confirmed) }
func (s *State) forgetIncarnation(name, incarnation string) {
	delete(s.confirmed, confirmation{name, incarnation})
}

// Installed remembers when a commit of this holder was known to be in the log.
// Like [State.Confirm] it is no event.
func (s *State) Installed(name string, at time.Time) {
	if s.names[name] != nil {
		s.installed[name] = at
	}
}

// Took remembers when this holder knew its epoch to be opened in the log. Like
// [State.Confirm] it is no event.
func (s *State) Took(at time.Time) { s.took = at }

// VaultBack remembers that a Vault connection works again: what failed before,
// because it was out, is due at once.
func (s *State) VaultBack(vault string, at time.Time) { s.back[vault] = at }

// overdue tells whether a retry that a failure planned is due at now: its time
// has come, or the Vault that failed has come back since.
func (s *State) overdue(vault string, r events.Retry, now time.Time) bool {
	if !now.Before(r.At) {
		return true
	}
	failed := r.At.Add(-Backoff(r.Attempt))
	return s.back[vault].After(failed)
}

// Redefined remembers when a definition of this holder was known to be in the
// log: until then readers were promised what the one before said.
func (s *State) Redefined(name string, at time.Time) {
	if n := s.names[name]; n != nil && n.promisedBefore().For > 0 {
		s.redefined[name] = latest(s.redefined[name], at.Add(n.promisedBefore().For))
	}
}

// promised gives when the last promise of a replaced lease ends: good_for after
// readers began to see its successor. Readers of an earlier holder saw it at the
// latest when our epoch began.
func (s *State) promised(n *Name, l *Lease) time.Time {
	since := l.Replaced.At
	if l.GateN > s.Began {
		since = latest(since, s.installed[n.Name])
	}
	if l.GateN < s.Began {
		since = latest(since, s.OpenedAt, s.took)
	}
	if s.Overlap > 0 {
		since = latest(since, s.OpenedAt.Add(s.Overlap))
	}
	return latest(since.Add(l.Replaced.GoodFor), n.promisedBefore().Until, s.redefined[n.Name])
}

// Sharing gives the other names with a lease under the lease id of this one: what
// its next event says of the lease id concerns them too (L26).
func (s *State) Sharing(name string, lease uint64) []string {
	n := s.names[name]
	if n == nil {
		return nil
	}
	l := n.Lease(lease)
	if l == nil || l.LeaseID == "" {
		return nil
	}
	var names []string
	for _, o := range s.ownersOf(l) {
		if o.name != name {
			names = append(names, o.name)
		}
	}
	return names
}

func without(owners []owner, o owner) []owner {
	return slices.DeleteFunc(owners, func(other owner) bool { return other == o })
}

// latest gives the last of some times.
func latest(t time.Time, more ...time.Time) time.Time {
	for _, m := range more {
		if m.After(t) {
			t = m
		}
	}
	return t
}

// Polled remembers a reading of a secret without lease, which failed or not, and
// what its own clock said (L38, L39). Like [State.Confirm] it is no event.
func (s *State) Polled(name string, at time.Time, failed bool, reread time.Duration) {
	if s.names[name] == nil {
		return
	}
	p := polled{at: at, reread: reread}
	if failed {
		p.failed = min(s.polled[name].failed+1, MaxAttempt)
	}
	s.polled[name] = p
}

func (s *State) own(l *Lease, name string) {
	if l.LeaseID == "" {
		return
	}
	key := leaseID{l.Vault, l.LeaseID}
	s.owners[key] = append(s.owners[key], owner{name, l.No})
}

func (s *State) disown(l *Lease, name string) {
	if l.LeaseID == "" {
		return
	}
	key := leaseID{l.Vault, l.LeaseID}
	rest := without(s.owners[key], owner{name, l.No})
	if len(rest) == 0 {
		delete(s.owners, key)
		return
	}
	s.owners[key] = rest
}

func (s *State) ownersOf(l *Lease) []owner { return s.owners[leaseID{l.Vault, l.LeaseID}] }

// Draft is a state with decisions on it that are not in the log yet. It leaves
// the state below it alone and is thrown away: what was appended is applied to
// the state as it came out of the log, with its sequences.
type Draft struct {
	base  *State
	h     Head
	names map[string]*Name // nil value: dropped
	// owners holds those of the lease ids whose owners the draft changes.
	owners map[leaseID][]owner
}

// NewDraft begins a draft over a state.
func NewDraft(s *State) *Draft {
	return &Draft{base: s, h: s.Head, names: map[string]*Name{}, owners: map[leaseID][]owner{}}
}

// Name gives a name's state as the draft has it.
func (d *Draft) Name(name string) *Name {
	if n, ok := d.names[name]; ok {
		return n
	}
	return d.base.names[name]
}

// sortedNames gives the names that are there in the draft, in their order.
func (d *Draft) sortedNames() []string {
	var out []string
	for name := range d.base.names {
		if d.Name(name) != nil {
			out = append(out, name)
		}
	}
	for name, n := range d.names {
		if n != nil && d.base.names[name] == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (d *Draft) head() *Head { return &d.h }
func (d *Draft) edit(name string) *Name {
	if n, ok := d.names[name]; ok {
		return n
	}
	n := d.base.names[name]
	if n == nil {
		return nil
	}
	c := n.clone()
	d.names[name] = c
	return c
}
func (d *Draft) create(name string) *Name {
	n := &Name{Name: name}
	d.names[name] = n
	return n
}
func (d *Draft) drop(name string)                 { d.names[name] = nil }
func (d *Draft) forgetConfirmations()             {}
func (d *Draft) forgetIncarnation(string, string) {}
func (d *Draft) own(l *Lease, name string) {
	if l.LeaseID != "" {
		d.owners[leaseID{l.Vault, l.LeaseID}] = append(slices.Clip(d.ownersOf(l)), owner{name, l.No})
	}
}
func (d *Draft) disown(l *Lease, name string) {
	if l.LeaseID != "" {
		d.owners[leaseID{l.Vault, l.LeaseID}] = without(slices.Clone(d.ownersOf(l)), owner{name, l.No})
	}
}
func (d *Draft) ownersOf(l *Lease) []owner {
	if o, ok := d.owners[leaseID{l.Vault, l.LeaseID}]; ok {
		return o
	}
	return d.base.ownersOf(l)
}

// sharer gives another lease that goes on under the lease id of l (L26); nil:
// there is none. One that is being revoked counts: it is told to Vault once.
func sharer(t target, name string, l *Lease) *owner {
	if l.LeaseID == "" {
		return nil
	}
	for _, o := range t.ownersOf(l) {
		if o == (owner{name, l.No}) {
			continue
		}
		if n := t.Name(o.name); n != nil {
			if other := n.Lease(o.no); other != nil && other.State != Retired {
				return &o
			}
		}
	}
	return nil
}

// gate tells whether every registered incarnation has confirmed at least seq
// (P13); in a draft seq may be 0, which nobody can have confirmed yet.
func (d *Draft) gate(n *Name, seq uint64) bool { return len(d.unconfirmed(n, seq)) == 0 }

func (d *Draft) unconfirmed(n *Name, seq uint64) []string {
	var missing []string
	for i := range n.Consumers {
		id := n.Consumers[i].ID
		if seq == 0 || d.base.Confirmed(n.Name, id) < seq {
			missing = append(missing, id)
		}
	}
	return missing
}

// InconsistentError says that an event does not fit the state that the events
// before it made. Either the log or this program is wrong: stop, never guess.
type InconsistentError struct {
	Seq  uint64
	Type string
	Name string
	Why  string
}

// Error implements error.
func (e *InconsistentError) Error() string {
	return fmt.Sprintf("the %s of %s at sequence %d does not fit what the log says before it: %s", e.Type, e.Name, e.Seq, e.Why)
}
