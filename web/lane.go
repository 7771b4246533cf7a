package web

import (
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// moment is one event of a name: when, where in the log, what, of which lease.
type moment struct {
	at    int64 // milliseconds since 1970, never below the one before
	seq   uint64
	bar   int32 // index of the lane's bar; -1: none
	typ   uint8 // index of events.Types
	flags uint8
}

const (
	flagNo    = 1 << iota // an answer was no, a roll back was not safe
	flagCut               // somebody was cut off
	flagQuiet             // an incarnation left without a word
	flagByHand
)

// step is when a lease changed its phase.
type step struct {
	at    int64
	seq   uint64
	phase phase
}

// bar is one lease of a name.
type bar struct {
	lease       uint64
	vault, path string
	id, public  string // Vault's lease id and what identifies the account
	steps       []step
}

// phaseAt gives the bar's phase at a moment; none: it was not there yet.
func (b *bar) phaseAt(at int64) phase {
	i := sort.Search(len(b.steps), func(i int) bool { return b.steps[i].at > at })
	if i == 0 {
		return phaseNone
	}
	return b.steps[i-1].phase
}

func (b *bar) begin() int64 { return b.steps[0].at }

// end gives when the bar was closed; false: it was not.
func (b *bar) end() (int64, bool) {
	last := &b.steps[len(b.steps)-1]
	return last.at, last.phase.closed()
}

// lane is a name with its leases.
type lane struct {
	scope, name string
	moments     []moment
	bars        []bar
	open        []int32 // bars that are not closed
	kind        events.Kind
	path        string   // of the last definition, in lower case with its name: what a search looks at
	consumers   []string // names of consumers that ever registered, or may
	hay         string
	// calm is how many moments there were when nothing was of concern that time
	// alone could change: until the next one nothing is.
	calm      atomic.Int64
	there     bool    // it is defined or has a lease that is open
	overspent []span  // when the budget of acquisitions forbade the next one
	defs      []int32 // the moments at which a definition came or went
}

// span is a time from when on and until when.
type span struct{ from, end int64 }

// fold records an event that counts, after the state has it.
func (l *lane) fold(h *history, e *events.Event, at int64) {
	m := moment{at: at, seq: e.Seq, bar: -1, typ: typeIndex[e.Type()]}
	switch d := e.Data.(type) {
	case *events.Requested:
		m.bar = l.begin(e.Lease, h.intern(d.Vault), h.intern(d.Path))
	case *events.Adopted:
		m.bar = l.begin(e.Lease, h.intern(d.Vault), h.intern(d.Path))
		l.granted(m.bar, &d.Acquired)
	default:
		m.bar = l.openBar(e.Lease)
	}
	switch d := e.Data.(type) {
	case *events.Acquired:
		l.granted(m.bar, d)
	case *events.Applied:
		if d.Definition != nil {
			l.kind, l.path = d.Definition.Kind, h.intern(d.Definition.Path)
			for _, c := range d.Definition.Consumers {
				l.consumer(h.intern(c.Name))
			}
			l.rehay()
		}
	case *events.Registered:
		if l.consumer(h.intern(d.Consumer)) {
			l.rehay()
		}
	case *events.Prepared:
		m.flags |= flagIf(!d.Yes, flagNo)
	case *events.RolledBack:
		m.flags |= flagIf(!d.Safe, flagNo)
	case *events.Retired:
		m.flags |= flagIf(len(d.CutOff) > 0, flagCut) | flagIf(d.Reason == events.RetiredByHand, flagByHand)
	case *events.Left:
		m.flags |= flagIf(d.Reason == events.LeftSilent, flagQuiet)
	}
	if t := e.Type(); t == events.TypeApplied || t == events.TypeRemoved {
		l.defs = append(l.defs, int32(len(l.moments)))
	}
	l.moments = append(l.moments, m)
	l.spent(h.projection.State().Name(e.Name), e, at)
	l.follow(h, h.projection.State().Name(e.Name), e, at)
	if there := len(l.open) > 0 || l.defined(len(l.moments)); there != l.there {
		l.there = there
		if there {
			h.names++
		} else {
			h.names--
		}
	}
}

func flagIf(is bool, flag uint8) uint8 {
	if is {
		return flag
	}
	return 0
}

// begin adds a lease's bar.
func (l *lane) begin(lease uint64, vault, path string) int32 {
	i := int32(len(l.bars))
	l.bars = append(l.bars, bar{lease: lease, vault: vault, path: path})
	l.open = append(l.open, i)
	return i
}

func (l *lane) openBar(lease uint64) int32 {
	if lease == 0 {
		return -1
	}
	for _, i := range l.open {
		if l.bars[i].lease == lease {
			return i
		}
	}
	return -1
}

func (l *lane) granted(i int32, d *events.Acquired) {
	if i < 0 {
		return
	}
	b := &l.bars[i]
	b.id = d.LeaseID
	// One value identifies an account; the first in the order of their keys is
	// the same on every replay.
	key := ""
	for k, v := range d.Public {
		if v != "" && (key == "" || k == "username" || key != "username" && k < key) {
			key, b.public = k, v
		}
	}
}

// follow takes the phases of the lane's leases from the state.
func (l *lane) follow(h *history, n *leasecore.Name, e *events.Event, at int64) {
	still := l.open[:0]
	for _, i := range l.open {
		b := &l.bars[i]
		now := phaseNone
		if n != nil {
			if lease := n.Lease(b.lease); lease != nil {
				now = phaseOf(lease.State)
			}
		}
		if now == phaseNone {
			now = ending(e)
		}
		if len(b.steps) == 0 || b.steps[len(b.steps)-1].phase != now {
			if k := len(b.steps); k > 0 {
				h.phases[b.steps[k-1].phase]--
			}
			h.phases[now]++
			b.steps = append(b.steps, step{at, e.Seq, now})
		}
		if !now.closed() {
			still = append(still, i)
		}
	}
	l.open = still
}

// spent follows when the name's budget forbids the next acquisition, as
// leasecore's budget has it: a bucket that holds an hour's worth.
func (l *lane) spent(n *leasecore.Name, e *events.Event, at int64) {
	if n == nil || n.Definition == nil {
		return
	}
	if k := len(l.overspent); e.Type() == events.TypeInstalled && k > 0 {
		l.overspent[k-1].end = min(l.overspent[k-1].end, at)
	}
	if e.Type() != events.TypeRequested || n.Spent.IsZero() {
		return
	}
	each := time.Hour / time.Duration(max(n.Definition.AcquisitionsPerHour, 1))
	until := n.Spent.Add(each - time.Hour).UnixMilli()
	if until <= at {
		return
	}
	if k := len(l.overspent); k > 0 && l.overspent[k-1].end >= at {
		l.overspent[k-1].end = until
		return
	}
	l.overspent = append(l.overspent, span{at, until})
}

// ending tells how an event closed a lease.
func ending(e *events.Event) phase {
	switch e.Data.(type) {
	case *events.Expired:
		return phaseExpired
	case *events.AcquireFailed:
		return phaseFailed
	case *events.Orphaned:
		return phaseOrphaned
	default:
		return phaseRevoked
	}
}

func (l *lane) consumer(name string) (added bool) {
	for _, c := range l.consumers {
		if c == name {
			return false
		}
	}
	l.consumers = append(l.consumers, name)
	return true
}

// rehay renews what a search looks at.
func (l *lane) rehay() {
	l.hay = strings.ToLower(l.name + "\n" + l.path + "\n" + strings.Join(l.consumers, "\n"))
}

// until gives how many of the lane's moments are not after at.
func (l *lane) until(at int64) int {
	return sort.Search(len(l.moments), func(i int) bool { return l.moments[i].at > at })
}

// types in the catalogue's order, and back.
var (
	typeWords = events.Types()
	typeIndex = func() map[events.Type]uint8 {
		m := map[events.Type]uint8{}
		for i, t := range typeWords {
			m[t] = uint8(i)
		}
		return m
	}()
)

func (m *moment) is(t events.Type) bool { return typeWords[m.typ] == t }
