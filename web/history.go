package web

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

const (
	// maxNotes bounds the failures whose words are kept; beyond it only their
	// events have them.
	maxNotes = 200_000
	// maxMessage bounds a failure's message, in bytes.
	maxMessage = 400
	// maxAhead is how far an event's time may be ahead of the server's clock
	// before the latter is taken: a clock that was wrong for a while must not
	// hold up all that came after.
	maxAhead = 5 * time.Second
)

// History is what the log says of some scopes, at any moment.
type History struct {
	mu     sync.RWMutex
	scopes []*history // by name
	seq    uint64     // the last sequence that was looked at
	read   uint64     // messages that were looked at
	ready  bool       // what was there at the start is read
	feed   *feed
	// presence is what is not in the log.
	presence presence
}

// NewHistory begins the history of scopes. Without a key (nil) MACs are not
// checked.
func NewHistory(scopes []string, key []byte) *History {
	h := &History{feed: newFeed()}
	for _, name := range slices.Sorted(slices.Values(scopes)) {
		h.scopes = append(h.scopes, newHistory(name, key))
	}
	return h
}

// Trust has the events of a scope up to a sequence count without their MACs, as
// [projector.Projection.Trust] says. It is called before the history is read.
func (h *History) Trust(scope string, upTo uint64) {
	if s := h.scope(scope); s != nil {
		s.projection.Trust(upTo)
	}
}

// Rering has the events of a scope count under any key of a ring. It is called
// before the history is read.
func (h *History) Rering(scope string, ring *events.Keyring) {
	if s := h.scope(scope); s != nil {
		s.projection.Rering(ring)
	}
}

// history is that of one scope.
type history struct {
	scope      string
	projection *projector.Projection
	at         int64 // of the last event
	lanes      []*lane
	byName     map[string]*lane
	epochs     []epoch
	openings   []events.Event // those of the epochs, for stories
	outages    []outage
	pauses     []pause
	down       map[string]int // the open outage of a Vault, by connection
	revisions  []revision
	notes      map[uint64]note
	strings    map[string]string
	events     uint64
	stopped    string
	behind     bool // it is a later release's event that stopped it
	// What is there at the end of what was read: leases by phase (those that are
	// closed are never taken out), and names.
	phases [len(phaseWords)]int
	names  int
}

// epoch is one holder's time.
type epoch struct {
	epoch, seq uint64
	holder     string
	how        string
	from       int64
	released   int64 // 0: it was not
	shutdown   bool
}

// outage is a time in which something outside did not work. Open ones have no
// end.
type outage struct {
	what      string // "vault main", "nats"
	why       string
	from, end int64
	seq       uint64
}

// pause is a time in which a Vault refused our credentials.
type pause struct {
	vault, kind string
	from, end   int64
	seq         uint64
}

type revision struct {
	at       int64
	revision uint64
}

// note keeps the words of a failure.
type note struct{ kind, message string }

func newHistory(scope string, key []byte) *history {
	return &history{
		scope: scope, projection: projector.New(scope, key), byName: map[string]*lane{}, down: map[string]int{},
		notes: map[uint64]note{}, strings: map[string]string{},
	}
}

// intern keeps one copy of what comes again and again.
func (h *history) intern(s string) string {
	if kept, ok := h.strings[s]; ok {
		return kept
	}
	if len(h.strings) < maxNotes {
		h.strings[s] = s
	}
	return s
}

// Add looks at the next message of the log.
func (h *History) Add(m journal.Message) {
	scope, _, _, err := events.ParseSubject(m.Subject)
	if err != nil {
		scope = "" // somebody else wrote it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq, h.read = max(h.seq, m.Seq), h.read+1
	s := h.scope(scope)
	if s == nil || s.stopped != "" {
		return
	}
	switch e := s.add(m); {
	case e == nil:
	case h.ready:
		h.feed.add(e)
	default:
		h.feed.remember(e)
	}
}

// scope finds a scope's history; nil: it is not one of ours.
func (h *History) scope(name string) *history {
	for _, s := range h.scopes {
		if s.scope == name {
			return s
		}
	}
	return nil
}

// caughtUp says that what was there at the start is read.
func (h *History) caughtUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ready { // a follower that was interrupted comes here again
		h.feed.start(h.seq)
	}
	h.ready = true
}

// add gives the event if it counts.
func (h *history) add(m journal.Message) *events.Event {
	before := h.at
	e, err := h.projection.Apply(m.Seq, m.Payload)
	if err != nil {
		var future *events.FutureError
		h.stopped, h.behind = err.Error(), errors.As(err, &future)
		return nil
	}
	if e == nil {
		return nil
	}
	h.events++
	h.at = max(h.at, instant(e.Time, m.Stored))
	switch d := e.Data.(type) {
	case *events.Opened:
		h.opened(e, d, before)
	case *events.Released:
		if n := len(h.epochs); n > 0 {
			h.epochs[n-1].released, h.epochs[n-1].shutdown = h.at, d.Shutdown
		}
	case *events.Paused:
		h.pauses = append(h.pauses, pause{vault: d.Vault, kind: d.Kind, from: h.at, seq: e.Seq})
	case *events.Resumed:
		for i := range h.pauses {
			if p := &h.pauses[i]; p.vault == d.Vault && p.end == 0 {
				p.end = h.at
			}
		}
	case *events.Applied:
		if d.Definition == nil {
			h.revisions = append(h.revisions, revision{h.at, d.Revision})
		}
	}
	if len(e.Name) > 0 && e.Name[0] != '_' && e.Type() != events.TypeUpdated && e.Type() != events.TypeRejected {
		h.ofName(e)
	}
	return e
}

// instant gives an event's time as it is shown.
func instant(decided, stored time.Time) int64 {
	if !stored.IsZero() && decided.After(stored.Add(maxAhead)) {
		decided = stored
	}
	return decided.UnixMilli()
}

// longestOutage bounds the outage of NATS that a reopening shows.
const longestOutage = time.Minute

func (h *history) opened(e *events.Event, d *events.Opened, before int64) {
	if d.How == events.HowReopened {
		// An append of unknown outcome: NATS was not there since the event before,
		// or since some time after it if that is long ago.
		from := max(before, h.at-longestOutage.Milliseconds())
		h.outages = append(h.outages, outage{what: "NATS", why: "an answer was lost; the scope was reopened", from: from, end: h.at, seq: e.Seq})
		return
	}
	h.epochs = append(h.epochs, epoch{epoch: e.Epoch, seq: e.Seq, holder: d.Holder, how: d.How, from: h.at})
	h.openings = append(h.openings, *e)
}

func (h *history) ofName(e *events.Event) {
	l := h.byName[e.Name]
	if l == nil {
		l = &lane{scope: h.scope, name: e.Name}
		l.rehay()
		h.byName[e.Name] = l
		i, _ := slices.BinarySearchFunc(h.lanes, e.Name, func(l *lane, name string) int { return compare(l.name, name) })
		h.lanes = slices.Insert(h.lanes, i, l)
	}
	l.fold(h, e, h.at)
	if f := failureOf(e); f != nil && len(h.notes) < maxNotes {
		message := f.Message
		if len(message) > maxMessage {
			message = message[:maxMessage] + "…"
		}
		h.notes[e.Seq] = note{h.intern(f.Kind), h.intern(message)}
	}
	h.vault(l, e)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// failureOf gives what went wrong by an event; nil: nothing.
func failureOf(e *events.Event) *events.Failure {
	switch d := e.Data.(type) {
	case *events.AcquireFailed:
		return &d.Failure
	case *events.VerifyFailed:
		return &d.Failure
	case *events.RollbackStarted:
		return &d.Failure
	case *events.RenewFailed:
		return &d.Failure
	case *events.RevokeFailed:
		return &d.Failure
	case *events.Prepared:
		if !d.Yes {
			return &events.Failure{Kind: "no", Message: d.Incarnation + ": " + d.Reason}
		}
	}
	return nil
}

// out has the kinds of failure that say that Vault itself did not work.
var out = map[string]bool{
	"unreachable": true, "timeout": true, "sealed": true, "standby": true, "uninitialised": true, "transient": true, "quota": true,
}

// vault follows which Vaults work, by what asking them came to.
func (h *history) vault(l *lane, e *events.Event) {
	last := &l.moments[len(l.moments)-1]
	if last.bar < 0 {
		return
	}
	name := l.bars[last.bar].vault
	open, isOut := h.down[name]
	switch e.Data.(type) {
	case *events.AcquireFailed, *events.RenewFailed, *events.RevokeFailed:
		f := failureOf(e)
		if !isOut && out[f.Kind] {
			h.down[name] = len(h.outages)
			h.outages = append(h.outages, outage{what: "Vault " + name, why: f.Kind, from: h.at, seq: e.Seq})
		}
	case *events.Acquired, *events.Renewed, *events.Revoked, *events.GuardExtended:
		if isOut {
			h.outages[open].end = h.at
			delete(h.down, name)
		}
	}
}

// epochAt gives the index of the epoch in force at a moment; -1: none.
func (h *history) epochAt(at int64) int {
	i := len(h.epochs) - 1
	for i >= 0 && h.epochs[i].from > at {
		i--
	}
	return i
}
