package story

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Held is one lease and who worked with it.
type Held struct {
	Name    string `json:"name"`
	Lease   uint64 `json:"lease"`
	LeaseID string `json:"lease_id,omitempty"`
	// Public are the values that identify the account, as the user name.
	Public map[string]string `json:"public,omitempty"`
	Path   string            `json:"path"`
	// Acquired is when Vault was asked for it; Active from when on readers saw
	// it, Replaced until when; Retired when nobody used it any more; Ended when it
	// was revoked, expired or given up, which How tells. Zero: it was not, or not
	// yet.
	Acquired time.Time `json:"acquired,omitzero"`
	Active   time.Time `json:"active,omitzero"`
	Replaced time.Time `json:"replaced,omitzero"`
	Retired  time.Time `json:"retired,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	How      string    `json:"how,omitempty"`
	// Users are the incarnations of consumers that had it.
	Users []User `json:"users"`
}

// User is one incarnation that had a lease.
type User struct {
	Consumer    string `json:"consumer"`
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	// From is when it was given the credential at the earliest: when it was asked
	// to prove it, or registered while the lease was active.
	From time.Time `json:"from"`
	// Until is when it certainly did not use it any more, or was cut off; zero:
	// it may still.
	Until  time.Time `json:"until,omitzero"`
	CutOff bool      `json:"cut_off,omitempty"`
	// Proved tells that it said yes to it.
	Proved bool `json:"proved,omitempty"`
}

// Holders finds who had a credential. The zero value is not usable:
// [NewHolders].
type Holders struct {
	query string
	names map[string]*nameHolders
	found []*Held
}

type nameHolders struct {
	registered []User // From: when it registered
	leases     map[uint64]*Held
	active     *Held
}

// NewHolders looks for a user name or another public value, a lease id of
// Vault's (or its last part), or a lease of ours as "name/7".
func NewHolders(query string) *Holders {
	return &Holders{query: query, names: map[string]*nameHolders{}}
}

// See takes the next event of the scope.
func (h *Holders) See(e *events.Event) {
	if strings.HasPrefix(e.Name, "_") {
		return
	}
	n := h.names[e.Name]
	if n == nil {
		n = &nameHolders{leases: map[uint64]*Held{}}
		h.names[e.Name] = n
	}
	switch d := e.Data.(type) {
	case *events.Registered:
		n.register(e, d)
	case *events.Left:
		n.leave(d.Incarnation, e.Time)
	case *events.Requested:
		n.leases[e.Lease] = &Held{Name: e.Name, Lease: e.Lease, Path: d.Vault + "/" + d.Path, Users: []User{}}
	case *events.Adopted:
		n.leases[e.Lease] = &Held{Name: e.Name, Lease: e.Lease, Path: d.Vault + "/" + d.Path, Users: []User{}}
		h.acquired(n.leases[e.Lease], &d.Acquired)
	default:
		if l := n.leases[e.Lease]; l != nil {
			h.see(n, l, e)
		}
	}
}

func (h *Holders) see(n *nameHolders, l *Held, e *events.Event) {
	switch d := e.Data.(type) {
	case *events.Acquired:
		h.acquired(l, d)
	case *events.HandoverStarted:
		for _, id := range d.Asked {
			n.give(l, id, e.Time)
		}
	case *events.Prepared:
		n.give(l, d.Incarnation, e.Time)
		if u := l.user(d.Incarnation); u != nil {
			u.Proved = d.Yes
		}
	case *events.Installed:
		if n.active != nil {
			n.active.Replaced = e.Time
		}
		n.active, l.Active = l, e.Time
		for _, c := range n.registered {
			n.give(l, c.Incarnation, e.Time)
		}
	case *events.VerifyFailed:
		l.Retired = e.Time
	case *events.RolledBack:
		if d.Safe {
			l.Retired = e.Time
		}
		for i := range l.Users {
			if u := &l.Users[i]; !slices.Contains(d.Unconfirmed, u.Incarnation) {
				u.end(e.Time)
			}
		}
	case *events.Retired:
		n.retire(l, e.Time, d.CutOff)
	case *events.Expired:
		n.retire(l, e.Time, nil)
		if d.By == events.ExpiredByVault {
			n.close(l, e, "expired")
		}
	case *events.Revoked:
		n.close(l, e, "revoked")
	case *events.AcquireFailed:
		if d.LeaseID == "" && d.Guard == "" {
			n.close(l, e, "came to nothing")
		}
	case *events.Orphaned:
		n.close(l, e, "orphaned")
	}
}

// acquired matches a grant against the question.
func (h *Holders) acquired(l *Held, d *events.Acquired) {
	l.LeaseID, l.Public, l.Acquired = d.LeaseID, d.Public, d.SentAt
	if h.matches(l) {
		h.found = append(h.found, l)
	}
}

func (h *Holders) matches(l *Held) bool {
	q := h.query
	if q == "" {
		return false
	}
	for _, v := range l.Public {
		if v == q {
			return true
		}
	}
	return l.LeaseID == q || l.LeaseID != "" && strings.HasSuffix(l.LeaseID, "/"+q) || l.Name+"/"+strconv.FormatUint(l.Lease, 10) == q
}

func (n *nameHolders) register(e *events.Event, d *events.Registered) {
	for _, c := range n.registered {
		if c.Consumer == d.Consumer && c.Instance == d.Instance {
			n.leave(c.Incarnation, e.Time)
			break
		}
	}
	n.registered = append(n.registered, User{Consumer: d.Consumer, Instance: d.Instance, Incarnation: d.Incarnation, From: e.Time})
	if n.active != nil {
		n.give(n.active, d.Incarnation, e.Time)
	}
}

// leave ends all that an incarnation had.
func (n *nameHolders) leave(id string, at time.Time) {
	n.registered = slices.DeleteFunc(n.registered, func(u User) bool { return u.Incarnation == id })
	for _, l := range n.leases {
		if u := l.user(id); u != nil {
			u.end(at)
		}
	}
}

// give notes that an incarnation was given a lease.
func (n *nameHolders) give(l *Held, id string, at time.Time) {
	if l.user(id) != nil {
		return
	}
	for _, c := range n.registered {
		if c.Incarnation == id {
			c.From = at
			l.Users = append(l.Users, c)
		}
	}
}

func (n *nameHolders) retire(l *Held, at time.Time, cutOff []string) {
	l.Retired = at
	if n.active == l {
		n.active = nil
	}
	for i := range l.Users {
		u := &l.Users[i]
		u.CutOff = slices.Contains(cutOff, u.Incarnation)
		u.end(at)
	}
}

// close ends a lease; its story is kept only where it was asked for.
func (n *nameHolders) close(l *Held, e *events.Event, how string) {
	l.Ended, l.How = e.Time, how
	delete(n.leases, l.Lease)
}

func (l *Held) user(id string) *User {
	for i := range l.Users {
		if l.Users[i].Incarnation == id {
			return &l.Users[i]
		}
	}
	return nil
}

func (u *User) end(at time.Time) {
	if u.Until.IsZero() {
		u.Until = at
	}
}

// Found gives the leases that match, in the order of the log.
func (h *Holders) Found() []Held {
	out := make([]Held, 0, len(h.found))
	for _, l := range h.found {
		out = append(out, *l)
	}
	return out
}
