package ledger

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// By says what the rows are of.
type By string

// The ways to add up.
const (
	ByName     By = "name"
	ByPath     By = "path"
	ByConsumer By = "consumer"
)

// Ledger is the exposure ledger of one scope.
type Ledger struct {
	// since is from when on seconds and events count.
	since time.Time
	// clock is the latest time that an event had.
	clock  time.Time
	seq    uint64
	names  map[string]*account
	totals map[By]map[string]*Totals
}

// account is what is open of a name.
type account struct {
	// Until is up to when the open leases have been added up.
	Until   time.Time `json:"until"`
	Leases  []*lease  `json:"leases,omitempty"`
	Members []member  `json:"members,omitempty"`
}

// lease is one that has not ended.
type lease struct {
	No    uint64 `json:"no"`
	Path  string `json:"path"`
	Phase phase  `json:"phase,omitempty"`
	// Began is when it was staged, SentAt when Vault was first asked.
	Began  time.Time `json:"began,omitzero"`
	SentAt time.Time `json:"sent_at,omitzero"`
	// Granted is how long after SentAt the grants end.
	Granted events.Seconds `json:"granted_s,omitzero"`
	Users   []user         `json:"users,omitempty"`
}

// member is a registered incarnation of a consumer.
type member struct {
	Consumer    string `json:"consumer"`
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
}

// user is an incarnation that has a lease.
type user struct {
	member
	From time.Time `json:"from"`
}

// New begins a ledger at the beginning of a scope's log. Seconds and events
// before since do not count (the zero time: all do).
func New(since time.Time) *Ledger {
	return &Ledger{
		since: since.UTC(), names: map[string]*account{},
		totals: map[By]map[string]*Totals{ByName: {}, ByPath: {}, ByConsumer: {}},
	}
}

// LastSeq gives the sequence of the last event that was seen.
func (l *Ledger) LastSeq() uint64 { return l.seq }

// See takes the next event. Events that do not count must not be given.
func (l *Ledger) See(e *events.Event) {
	if e.Seq > 0 && e.Seq <= l.seq {
		return
	}
	l.seq = e.Seq
	if e.Time.After(l.clock) {
		l.clock = e.Time
	}
	if strings.HasPrefix(e.Name, "_") {
		return
	}
	a := l.names[e.Name]
	if a == nil {
		a = &account{Until: l.clock}
		l.names[e.Name] = a
	}
	l.accrue(e.Name, a, l.clock, l.total)
	l.event(e, a)
	if len(a.Leases) == 0 && len(a.Members) == 0 {
		delete(l.names, e.Name)
	}
}

// total gives the totals to add to.
func (l *Ledger) total(by By, key string) *Totals {
	t := l.totals[by][key]
	if t == nil {
		t = &Totals{}
		l.totals[by][key] = t
	}
	return t
}

// counts tells whether what happens now counts.
func (l *Ledger) counts() bool { return !l.clock.Before(l.since) }

// accrue adds the time up to a moment to what is open of a name.
func (l *Ledger) accrue(name string, a *account, to time.Time, total func(By, string) *Totals) {
	from := a.Until
	if from.Before(l.since) {
		from = l.since
	}
	if to.After(a.Until) {
		a.Until = to
	}
	if !to.After(from) {
		return
	}
	passed := events.FromDuration(to.Sub(from))
	for _, x := range a.Leases {
		if x.Phase == "" {
			continue
		}
		total(ByName, name).spend(x.Phase, passed)
		total(ByPath, x.Path).spend(x.Phase, passed)
		for _, u := range x.Users {
			total(ByConsumer, u.Consumer).spend(x.Phase, passed)
		}
	}
}

// life notes how long a lease has lived, and its users have had it.
func (l *Ledger) life(name string, x *lease, at time.Time, total func(By, string) *Totals) {
	if at.Before(l.since) || x.Began.IsZero() {
		return
	}
	which := leaseName(name, x.No)
	lived := span(x.Began, at)
	total(ByName, name).longest(lived, which)
	total(ByPath, x.Path).longest(lived, which)
	for _, u := range x.Users {
		total(ByConsumer, u.Consumer).longest(span(u.From, at), which)
	}
}

func leaseName(name string, no uint64) string { return name + "/" + strconv.FormatUint(no, 10) }

func span(from, to time.Time) events.Seconds {
	if !to.After(from) {
		return events.Seconds{}
	}
	return events.FromDuration(to.Sub(from))
}

func (a *account) lease(no uint64) *lease {
	for _, x := range a.Leases {
		if x.No == no {
			return x
		}
	}
	return nil
}

// Row is one line of the ledger.
type Row struct {
	// Of is the name, path or consumer.
	Of string `json:"of"`
	Totals
	// Lived is staged, in use, overlapped and exposed together.
	LivedSeconds events.Seconds `json:"lived_s"`
	// Open counts the leases that have not ended, or are had.
	Open int `json:"open"`
}

// Rows gives the totals up to a moment (not before the last event), sorted by
// what they are of. It changes nothing.
func (l *Ledger) Rows(by By, until time.Time) []Row {
	if until.Before(l.clock) {
		until = l.clock
	}
	rows := map[string]*Row{}
	row := func(key string) *Row {
		r := rows[key]
		if r == nil {
			r = &Row{Of: key}
			rows[key] = r
		}
		return r
	}
	for key, t := range l.totals[by] {
		row(key).Totals = *t
	}
	spare := &Totals{}
	total := func(b By, key string) *Totals {
		if b != by {
			return spare
		}
		return &row(key).Totals
	}
	for _, name := range sorted(l.names) {
		a := *l.names[name]
		l.accrue(name, &a, until, total)
		for _, x := range a.Leases {
			if x.Phase == "" {
				continue
			}
			l.life(name, x, until, total)
			l.open(by, name, x, row)
		}
	}
	out := make([]Row, 0, len(rows))
	for _, r := range rows {
		r.LivedSeconds = r.Lived()
		out = append(out, *r)
	}
	slices.SortFunc(out, func(x, y Row) int { return strings.Compare(x.Of, y.Of) })
	return out
}

func (l *Ledger) open(by By, name string, x *lease, row func(string) *Row) {
	switch by {
	case ByName:
		row(name).Open++
	case ByPath:
		row(x.Path).Open++
	case ByConsumer:
		for _, u := range x.Users {
			row(u.Consumer).Open++
		}
	}
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
