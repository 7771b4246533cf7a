package screen

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/leasesvc/leasesvc/events"
)

// The colours of a line; without them a frame is plain text.
const (
	normal  = "\x1b[0m"
	bold    = "\x1b[1m"
	red     = "\x1b[31m"
	yellow  = "\x1b[33m"
	cyan    = "\x1b[36m"
	reverse = "\x1b[7m"
)

// frame collects the lines of a screen of a size.
type frame struct {
	width, height int
	colours       bool
	printed       bool // nobody chooses a row
	lines         []string
}

// add adds a line, cut to the width; lines below the last are left out.
func (f *frame) add(colour, format string, args ...any) {
	if len(f.lines) == f.height {
		return
	}
	text := cut(Visible(fmt.Sprintf(format, args...)), f.width)
	if f.colours && colour != "" {
		text = colour + text + normal
	}
	f.lines = append(f.lines, text)
}

// cut cuts a text to so many columns of a terminal.
func cut(s string, width int) string { return ansi.Truncate(s, width, "~") }

// Visible keeps what somebody wrote into a name or a message from moving the cursor,
// from breaking a table and from showing in another order than it is in: what is no
// letter, mark, number, punctuation, symbol or plain space becomes "?".
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Render draws the board into so many columns and lines.
func (b *Board) Render(width, height int, colours bool) string {
	f := &frame{width: max(width, 20), height: max(height, 5), colours: colours}
	b.head(f)
	if b.looked != nil {
		b.look(f)
	} else {
		b.table(f)
	}
	for len(f.lines) < f.height-1 {
		f.lines = append(f.lines, "")
	}
	f.lines = f.lines[:f.height-1]
	f.add(cyan, "%s", b.help())
	return strings.Join(f.lines, "\n")
}

// Print gives the whole board as lines, for who has no screen of so many lines.
func (b *Board) Print(width int, colours bool) string {
	lines := 0
	for i := range b.seen.Scopes {
		lines += 2 + len(b.seen.Scopes[i].Leases.Names) + len(b.seen.Scopes[i].Status.Vaults) + len(b.seen.Scopes[i].Status.Notes)
	}
	f := &frame{width: max(width, 20), height: lines + 10, colours: colours, printed: true}
	b.head(f)
	b.table(f)
	return strings.TrimRight(strings.Join(f.lines, "\n"), "\n") + "\n"
}

func (b *Board) help() string {
	switch {
	case b.typing:
		return "filter: " + b.filter + "_   (enter: keep, esc: drop)"
	case b.looked != nil:
		return "esc: back   ctrl+c: leave"
	default:
		return "q: leave   s: sort   /: filter   up, down: choose   enter: look into"
	}
}

// head says who leads, and how the parts are.
func (b *Board) head(f *frame) {
	if b.seen.Time.IsZero() {
		f.add("", "leasesvc: asking ...")
		return
	}
	f.add(bold, "leasesvc at %s, sorted by %s%s", b.seen.Time.UTC().Format("15:04:05 MST"), b.order, filtered(b.filter))
	if len(b.seen.Scopes) == 0 {
		f.add(red, "nobody leads a scope")
	}
	for i := range b.seen.Scopes {
		s := &b.seen.Scopes[i]
		if s.Problem != "" {
			f.add(red, "scope %s: %s", s.Name, s.Problem)
			continue
		}
		colour := ""
		if s.Status.Usable < s.Status.Names {
			colour = yellow
		}
		f.add(colour, "scope %s: epoch %d for %s by %s; %s, %d usable; log at %d, %.1f events/s; hand-overs %d",
			s.Name, s.Status.Epoch, short(b.seen.Time.Sub(s.Status.Since)), s.Status.Holder, events.Counted(s.Status.Names, "name"), s.Status.Usable, s.Status.LastSeq, b.rate(s.Name), s.moving())
		for _, v := range s.Status.Vaults {
			if !v.LoggedIn || v.Problem != "" {
				f.add(red, "  vault %s: %s", v.Name, orElse(v.Problem, "not logged in"))
			}
		}
		for _, n := range s.Status.Notes {
			f.add(yellow, "  %s", n)
		}
	}
	f.add("", "")
}

// moving counts the names that are being handed over.
func (s *Scope) moving() int {
	n := 0
	for _, l := range s.Leases.Names {
		if strings.HasPrefix(l.State, "asking") || strings.HasPrefix(l.State, "rolling back") {
			n++
		}
	}
	return n
}

func filtered(filter string) string {
	if filter == "" {
		return ""
	}
	return fmt.Sprintf(", only %q", filter)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// table lists the leases, and moves with the row that is chosen.
func (b *Board) table(f *frame) {
	rows := b.rows()
	scopes := len(b.seen.Scopes) > 1
	name := 4
	for i := range rows {
		name = max(name, utf8.RuneCountInString(rows[i].label(scopes)))
	}
	name = max(4, min(name, f.width/3))
	line := fmt.Sprintf("%%-%d.%ds %%6s %%9s %%9s %%9s %%6s  %%s", name, name)
	f.add(bold, line, "NAME", "LEASE", "AGE", "LEFT", "NEXT", "FOLLOW", "STATE")
	room := f.height - len(f.lines) - 1
	at := b.chosen(len(rows))
	first := max(0, min(at-room/2, len(rows)-room))
	for i := first; i < len(rows) && i < first+room; i++ {
		r := &rows[i]
		colour := ""
		switch r.urgency() {
		case urgentNone:
			colour = red
		case urgentFailing:
			colour = yellow
		case urgentMoving:
			colour = cyan
		}
		if i == at && !f.printed {
			colour += reverse
		}
		f.add(colour, line, r.label(scopes), number(r.Lease.Active), r.ageText(), r.leftText(), r.nextText(), r.followText(), r.state())
	}
	if len(rows) == 0 && len(b.seen.Scopes) > 0 {
		f.add("", "no leases%s", filtered(b.filter))
	}
}

// look shows one lease, and its story.
func (b *Board) look(f *frame) {
	r := b.looked
	for _, now := range b.rows() {
		if now.Scope == r.Scope && now.Lease.Name == r.Lease.Name {
			r = &now
			break
		}
	}
	l := &r.Lease
	f.add(bold, "%s of scope %s", l.Name, r.Scope)
	f.add("", "  state     %s", r.state())
	f.add("", "  path      %s", l.Path)
	f.add("", "  lease     %s  %s  %s", number(l.Active), l.Public, l.LeaseID)
	f.add("", "  age       %s, left %s, looked at next in %s", r.ageText(), r.leftText(), r.nextText())
	if l.Failure != nil {
		f.add(yellow, "  failure   %s: %s", l.Failure.Kind, l.Failure.Message)
	}
	for _, c := range l.Consumers {
		follows := "follows"
		if !c.Follows {
			follows = "has not confirmed"
		}
		f.add("", "  consumer  %s/%s (%s) %s", c.Consumer, c.Instance, c.Incarnation, follows)
	}
	f.add("", "")
	room := f.height - len(f.lines) - 1
	told := b.told
	if cut := len(told) - room; cut > 0 {
		told = told[cut:]
	}
	for _, line := range told {
		f.add("", "%s", line)
	}
}

func (r *Row) label(scopes bool) string {
	if scopes {
		return r.Scope + "/" + r.Lease.Name
	}
	return r.Lease.Name
}

func (r *Row) state() string {
	if len(r.Lease.Others) == 0 {
		return r.Lease.State
	}
	return r.Lease.State + " (beside it: " + strings.Join(r.Lease.Others, ", ") + ")"
}

func (r *Row) ageText() string {
	if r.Lease.Acquired.IsZero() {
		return "-"
	}
	return short(r.age())
}

func (r *Row) leftText() string {
	switch {
	case r.Lease.Active == 0:
		return "-"
	case r.left() == forever:
		return "no end"
	default:
		return short(r.left())
	}
}

func (r *Row) nextText() string {
	if r.Lease.Next.IsZero() {
		return "-"
	}
	return short(r.Lease.Next.Sub(r.Now))
}

func (r *Row) followText() string {
	if len(r.Lease.Consumers) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", r.following(), len(r.Lease.Consumers))
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// short prints a duration in few characters.
func short(d time.Duration) string {
	if d >= 10*time.Second || d <= -10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
