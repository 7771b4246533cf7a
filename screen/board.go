package screen

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/service/api"
)

// Seen is what the holders said at one moment.
type Seen struct {
	Time   time.Time
	Scopes []Scope
}

// Scope is what one holder said; Problem, if it said nothing.
type Scope struct {
	Name    string
	Status  api.Status
	Leases  api.Leases
	Problem string
}

// Order is how the leases are sorted.
type Order int

// The orders.
const (
	ByUrgency Order = iota
	ByName
	ByLeft
	ByAge
	orders
)

var orderNames = [orders]string{"urgency", "name", "time left", "age"}

// String gives the order's name.
func (o Order) String() string { return orderNames[o] }

// Board is the state of the screen. The zero value is one that has seen nothing.
type Board struct {
	seen, before Seen
	order        Order
	filter       string
	typing       bool // the filter
	at           int  // the row that is chosen
	looked       *Row // the row that is looked into
	told         []string
}

// Row is one lease on the board.
type Row struct {
	Scope string
	Lease api.Lease
	// Now is the holder's clock.
	Now time.Time
}

// Take takes what was seen.
func (b *Board) Take(s Seen) { b.before, b.seen = b.seen, s }

// Looked gives the row that is looked into; nil: none is.
func (b *Board) Looked() *Row { return b.looked }

// Tell gives the story of the row that is looked into, as lines.
func (b *Board) Tell(scope, name string, lines []string) {
	if b.looked != nil && b.looked.Scope == scope && b.looked.Lease.Name == name {
		b.told = lines
	}
}

// Key takes a key by its name; quit tells that the board is to be left.
func (b *Board) Key(key string) (quit bool) {
	switch {
	case key == "ctrl+c":
		return true
	case b.typing:
		b.typed(key)
	case b.looked != nil:
		if key == "esc" || key == "enter" || key == "q" {
			b.looked, b.told = nil, nil
		}
	default:
		return b.pressed(key)
	}
	return false
}

func (b *Board) typed(key string) {
	switch key {
	case "enter":
		b.typing = false
	case "esc":
		b.typing, b.filter = false, ""
	case "backspace":
		if r := []rune(b.filter); len(r) > 0 {
			b.filter = string(r[:len(r)-1])
		}
	default:
		if len([]rune(key)) == 1 {
			b.filter += key
		}
	}
	b.at = 0
}

func (b *Board) pressed(key string) (quit bool) {
	switch key {
	case "q":
		return true
	case "s":
		b.order = (b.order + 1) % orders
	case "/":
		b.typing = true
	case "esc":
		b.filter = ""
	case "down", "j":
		b.at++
	case "up", "k":
		b.at--
	case "enter":
		if rows := b.rows(); len(rows) > 0 {
			b.looked = &rows[b.chosen(len(rows))]
		}
	}
	b.at = b.chosen(len(b.rows()))
	return false
}

// chosen keeps the chosen row among those there are.
func (b *Board) chosen(rows int) int { return max(0, min(b.at, rows-1)) }

// rows gives the leases that the filter leaves, in their order.
func (b *Board) rows() []Row {
	var out []Row
	for _, s := range b.seen.Scopes {
		for _, l := range s.Leases.Names {
			text := strings.ToLower(s.Name + "/" + l.Name + " " + l.State + " " + l.Path + " " + l.Public)
			if strings.Contains(text, strings.ToLower(b.filter)) {
				out = append(out, Row{s.Name, l, s.Leases.Time})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y Row) int {
		return cmp.Or(b.compare(&x, &y), strings.Compare(x.Scope, y.Scope), strings.Compare(x.Lease.Name, y.Lease.Name))
	})
	return out
}

func (b *Board) compare(x, y *Row) int {
	switch b.order {
	case ByName:
		return 0
	case ByLeft:
		return cmp.Compare(x.left(), y.left())
	case ByAge:
		return cmp.Compare(y.age(), x.age())
	default:
		return cmp.Or(cmp.Compare(x.urgency(), y.urgency()), cmp.Compare(x.left(), y.left()))
	}
}

// The degrees of urgency.
const (
	urgentNone    = iota // nobody can use the name
	urgentFailing        // it can be used, and something failed
	urgentMoving         // a hand-over is in flight
	urgentNot
)

// urgency tells how much a row needs an eye.
func (r *Row) urgency() int {
	switch {
	case r.Lease.Active == 0 || r.left() <= 0:
		return urgentNone
	case r.Lease.Failure != nil:
		return urgentFailing
	case r.Lease.State != "active" || len(r.Lease.Others) > 0 || r.following() < len(r.Lease.Consumers):
		return urgentMoving
	default:
		return urgentNot
	}
}

// forever is the time left of what does not expire.
const forever = time.Duration(1<<63 - 1)

func (r *Row) left() time.Duration {
	if r.Lease.Expires.IsZero() {
		return forever
	}
	return r.Lease.Expires.Sub(r.Now)
}

func (r *Row) age() time.Duration {
	if r.Lease.Acquired.IsZero() {
		return 0
	}
	return r.Now.Sub(r.Lease.Acquired)
}

func (r *Row) following() int {
	n := 0
	for _, c := range r.Lease.Consumers {
		if c.Follows {
			n++
		}
	}
	return n
}

// rate gives the events a second that a scope's log grew by.
func (b *Board) rate(scope string) float64 {
	now, then := b.find(b.seen, scope), b.find(b.before, scope)
	passed := b.seen.Time.Sub(b.before.Time).Seconds()
	if now == nil || then == nil || passed <= 0 || now.Status.LastSeq < then.Status.LastSeq {
		return 0
	}
	return float64(now.Status.LastSeq-then.Status.LastSeq) / passed
}

func (*Board) find(s Seen, scope string) *Scope {
	for i := range s.Scopes {
		if s.Scopes[i].Name == scope && s.Scopes[i].Problem == "" {
			return &s.Scopes[i]
		}
	}
	return nil
}
