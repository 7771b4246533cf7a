package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/leasecore"
)

// ErrUnknownName says that the log knew no such name at the moment.
var ErrUnknownName = errors.New("there is no such name")

const (
	// maxFolded bounds how many events of one name are read for its detail: its
	// latest.
	maxFolded = 50_000
	// maxListed bounds how many of them are listed.
	maxListed = 500
	// maxRead bounds the names whose events are kept.
	maxRead = 32
)

// Detail is all about one name at a moment.
type Detail struct {
	Scope    string     `json:"scope"`
	Name     string     `json:"name"`
	At       int64      `json:"at"`
	Live     bool       `json:"live"`
	Seq      uint64     `json:"seq"`
	State    string     `json:"state"`
	Kind     string     `json:"kind,omitempty"`
	Vault    string     `json:"vault,omitempty"`
	Path     string     `json:"path,omitempty"`
	Leases   []Lease    `json:"leases"` // the latest first
	Users    []Consumer `json:"consumers"`
	Next     []Step     `json:"next"`
	Story    []Line     `json:"story"`
	Events   []Record   `json:"events"` // the latest first
	Concerns []Concern  `json:"concerns"`
	// Earlier counts the events before those that are listed.
	Earlier int `json:"earlier,omitempty"`
}

// Lease is one lease of a name.
type Lease struct {
	Lease  uint64     `json:"lease"`
	ID     string     `json:"id,omitempty"`
	Public string     `json:"public,omitempty"`
	Vault  string     `json:"vault"`
	Path   string     `json:"path"`
	State  string     `json:"state"`
	Phase  int        `json:"phase"`
	Steps  []LeasedAs `json:"steps"`
	// Ends is when it expires unless it is renewed; 0: it does not, or is closed.
	Ends int64 `json:"ends,omitempty"`
}

// LeasedAs is when a lease became what.
type LeasedAs struct {
	At int64  `json:"at"`
	Is string `json:"is"`
}

// Consumer is an incarnation of a consumer and what it answered.
type Consumer struct {
	Consumer    string   `json:"consumer"`
	Instance    string   `json:"instance"`
	Incarnation string   `json:"incarnation"`
	Since       int64    `json:"since"`
	Left        int64    `json:"left,omitempty"`
	Why         string   `json:"why,omitempty"`
	Waiting     bool     `json:"waiting,omitempty"` // it is asked and has not answered
	Answers     []Answer `json:"answers"`
}

// Answer is what an incarnation said when it was asked.
type Answer struct {
	Lease  uint64 `json:"lease"`
	Yes    bool   `json:"yes"`
	Reason string `json:"reason,omitempty"`
	At     int64  `json:"at"`
	Took   int64  `json:"took_ms"` // since the hand-over began
}

// Record is one event.
type Record struct {
	Seq   uint64         `json:"seq"`
	At    int64          `json:"at"`
	Epoch uint64         `json:"epoch"`
	Lease uint64         `json:"lease,omitempty"`
	Type  string         `json:"type"`
	Actor string         `json:"actor,omitempty"`
	Says  string         `json:"says"`
	Data  map[string]any `json:"data"`
}

// details reads names' events and keeps those of the latest.
type details struct {
	history *History
	source  Source

	mu   sync.Mutex
	kept []*readName // the latest used last
}

// readName holds the events of a name from its first moment that is read on.
type readName struct {
	scope, name string
	mu          sync.Mutex
	log         []events.Event
}

// place is what the index says of a name at a moment.
type place struct {
	seqs     []uint64
	openings []events.Event
	detail   Detail
}

// Detail gives a name's detail at a moment, or [Now].
func (d *details) Detail(ctx context.Context, scope, name string, at int64) (*Detail, error) {
	p, err := d.history.place(scope, name, at)
	if err != nil {
		return nil, err
	}
	log, err := d.read(ctx, scope, name, p.seqs)
	if err != nil {
		return nil, err
	}
	p.fold(log)
	return &p.detail, nil
}

// place looks a name up.
func (h *History) place(scope, name string, at int64) (*place, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := h.scope(scope)
	var l *lane
	if s != nil {
		l = s.byName[name]
	}
	if l == nil || l.until(at) == 0 {
		return nil, fmt.Errorf("%w: %q in scope %q at that time", ErrUnknownName, name, scope)
	}
	n := l.until(at)
	p := &place{detail: Detail{
		Scope: scope, Name: name, At: at, Live: at == Now, Seq: l.moments[n-1].seq, State: l.state(at), Kind: string(l.kind), Path: l.path,
		Leases: []Lease{}, Users: []Consumer{}, Story: []Line{}, Events: []Record{}, Concerns: []Concern{},
	}}
	if at == Now {
		p.detail.At = time.Now().UnixMilli()
	}
	for i := max(0, n-maxFolded); i < n; i++ {
		p.seqs = append(p.seqs, l.moments[i].seq)
	}
	p.detail.Earlier = n - len(p.seqs)
	for i, e := range s.epochs {
		if e.from <= at {
			p.openings = append(p.openings, s.openings[i])
		}
	}
	p.detail.Concerns = append(p.detail.Concerns, l.concerns(s, at, p.detail.At, nil)...)
	for i := len(l.bars) - 1; i >= 0 && len(p.detail.Leases) < maxListed; i-- {
		if l.bars[i].begin() <= at {
			p.detail.Leases = append(p.detail.Leases, l.bars[i].lease64(at))
		}
	}
	return p, nil
}

func (b *bar) lease64(at int64) Lease {
	l := Lease{Lease: b.lease, ID: b.id, Public: b.public, Vault: b.vault, Path: b.path, Steps: []LeasedAs{}}
	for _, s := range b.steps {
		if s.at <= at {
			l.State, l.Phase = s.phase.String(), int(s.phase)
			l.Steps = append(l.Steps, LeasedAs{s.at, s.phase.String()})
		}
	}
	return l
}

// read gives the events of a name at some sequences, which counted when they were
// read in their places.
func (d *details) read(ctx context.Context, scope, name string, seqs []uint64) ([]events.Event, error) {
	r := d.keep(scope, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	first, last := seqs[0], seqs[len(seqs)-1]
	if len(r.log) > 0 && (r.log[0].Seq > first || len(r.log) > 2*maxFolded) {
		r.log = nil
	}
	from := first
	if n := len(r.log); n > 0 {
		from = r.log[n-1].Seq + 1
	}
	if from <= last {
		err := d.source.ReplayName(ctx, scope, name, from, last, func(m journal.Message) error {
			if e, err := events.Decode(m.Payload, m.Seq); err == nil { // what is no event was not counted either
				r.log = append(r.log, e)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]events.Event, 0, len(seqs))
	i := 0
	for _, seq := range seqs {
		for i < len(r.log) && r.log[i].Seq < seq {
			i++
		}
		if i < len(r.log) && r.log[i].Seq == seq {
			out = append(out, r.log[i])
		}
	}
	return out, nil
}

// keep finds or makes the place of a name's events.
func (d *details) keep(scope, name string) *readName {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range d.kept {
		if r.scope == scope && r.name == name {
			d.kept = append(append(d.kept[:i:i], d.kept[i+1:]...), r)
			return r
		}
	}
	if len(d.kept) >= maxRead {
		d.kept = slices.Clone(d.kept[1:])
	}
	r := &readName{scope: scope, name: name}
	d.kept = append(d.kept, r)
	return r
}

// fold tells the name's life from its events and the scope's openings.
func (p *place) fold(log []events.Event) {
	d := &p.detail
	all := append(slices.Clone(p.openings), log...)
	slices.SortFunc(all, func(a, b events.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	state := leasecore.NewState(d.Scope)
	users := users{}
	for i := range all {
		// A lease id that is shared with another name, whose events are not here,
		// may not fit; what comes next is then less exact.
		_ = state.Apply(&all[i])
		users.see(&all[i])
	}
	now := time.UnixMilli(d.At)
	d.Next = next(state, d.Name, now)
	d.Users = users.list()
	if n := state.Name(d.Name); n != nil {
		if n.Definition != nil {
			d.Kind, d.Vault, d.Path = string(n.Definition.Kind), n.Definition.Vault, n.Definition.Path
		}
		p.ends(n)
		d.waiting(n)
	}
	d.Story = tell(d.Name, all)
	if n := len(d.Story); n > maxListed {
		d.Story = d.Story[n-maxListed:]
	}
	for i := len(log) - 1; i >= 0 && len(d.Events) < maxListed; i-- {
		d.Events = append(d.Events, record(&log[i]))
	}
	d.Earlier += len(log) - len(d.Events)
}

// ends fills in when leases expire.
func (p *place) ends(n *leasecore.Name) {
	for i := range p.detail.Leases {
		if l := n.Lease(p.detail.Leases[i].Lease); l != nil {
			if end, ok := l.Expires(); ok {
				p.detail.Leases[i].Ends = end.UnixMilli()
			}
		}
	}
}

// waiting marks who is asked and has not answered.
func (d *Detail) waiting(n *leasecore.Name) {
	if n.Handover == nil || n.Handover.RollingBack {
		return
	}
	for i := range d.Users {
		if u := &d.Users[i]; u.Left == 0 {
			_, answered := n.Handover.Answers[u.Incarnation]
			u.Waiting = !answered
		}
	}
}

// users collects who registered and what they answered.
type users struct {
	all    []*Consumer
	began  map[uint64]int64 // by lease, when its hand-over began
	active map[string]*Consumer
}

const maxAnswers = 20

func (u *users) see(e *events.Event) {
	at := e.Time.UnixMilli()
	if u.active == nil {
		u.active, u.began = map[string]*Consumer{}, map[uint64]int64{}
	}
	switch d := e.Data.(type) {
	case *events.Registered:
		for _, c := range u.all {
			if c.Consumer == d.Consumer && c.Instance == d.Instance && c.Left == 0 {
				c.Left, c.Why = at, "replaced by its next incarnation"
			}
		}
		c := &Consumer{Consumer: d.Consumer, Instance: d.Instance, Incarnation: d.Incarnation, Since: at, Answers: []Answer{}}
		u.all, u.active[d.Incarnation] = append(u.all, c), c
	case *events.Left:
		if c := u.active[d.Incarnation]; c != nil {
			c.Left, c.Why = at, d.Reason
		}
	case *events.HandoverStarted:
		u.began[e.Lease] = at
	case *events.Prepared:
		if c := u.active[d.Incarnation]; c != nil {
			c.Answers = append(c.Answers, Answer{Lease: e.Lease, Yes: d.Yes, Reason: d.Reason, At: at, Took: at - u.began[e.Lease]})
			if len(c.Answers) > maxAnswers {
				c.Answers = c.Answers[1:]
			}
		}
	}
}

// list gives who is there first, then who left last.
func (u *users) list() []Consumer {
	out := []Consumer{}
	for _, c := range u.all {
		out = append(out, *c)
	}
	slices.SortStableFunc(out, func(a, b Consumer) int {
		if (a.Left == 0) != (b.Left == 0) {
			return cmp.Compare(min(a.Left, 1), min(b.Left, 1))
		}
		return cmp.Compare(b.Since, a.Since)
	})
	return out[:min(len(out), 100)]
}

// unshown are fields of events that are no secrets, and still nothing for a
// page: who has an accessor and some permission can do something with it.
var unshown = []string{"guard", "fingerprint", "key", "xkey", "subject", "seal_key", "attempt_id", "blob", "digest", "definition"}

func record(e *events.Event) Record {
	r := Record{Seq: e.Seq, At: e.Time.UnixMilli(), Epoch: e.Epoch, Lease: e.Lease, Type: string(e.Type()), Says: sentence(e), Data: map[string]any{}}
	if r.Actor = e.Actor.Name; e.Actor.Claimed {
		r.Actor += " (claimed)"
	}
	b, err := json.Marshal(e.Data)
	if err != nil || json.Unmarshal(b, &r.Data) != nil {
		r.Data = nil
		return r
	}
	for _, k := range unshown {
		delete(r.Data, k)
	}
	return r
}
