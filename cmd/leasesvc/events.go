package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/screen"
)

type eventsCmd struct {
	logSource
	output
	Follow bool     `short:"f" help:"Go on with what is appended."`
	Lease  string   `placeholder:"NAME[/NUMBER]" help:"Only the events of this name, or of one lease of it."`
	Type   []string `short:"t" placeholder:"TYPE" help:"Only events of these types (installed, revoked, ...)."`
	Actor  string   `placeholder:"TEXT" help:"Only what somebody wanted whose name or key has this text in it."`
	Epoch  uint64   `placeholder:"N" help:"Only events of this epoch."`
	Since  string   `placeholder:"TIME" help:"Only events from this time on (2026-01-31T12:00:00Z, 12:00, 10m for ten minutes ago)."`
	Until  string   `placeholder:"TIME" help:"Only events up to this time."`
	From   uint64   `default:"1" help:"Begin at this sequence."`
	UTC    bool     `help:"Print times with their date, in UTC."`

	since, until moment
	number       uint64
}

func (c eventsCmd) Run(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if c.Follow && c.File != "" {
		return usageError{errors.New("--follow goes with the stream, not with --file")}
	}
	l, err := c.open(ctx, c.Lease != "")
	if err != nil {
		return err
	}
	defer l.close()
	seen := false
	show := func(m journal.Message) error {
		shown, err := c.show(os.Stdout, m)
		seen = seen || shown
		return err
	}
	if c.Follow {
		err = l.journal.Follow(ctx, c.Scope, c.From, show)
	} else {
		err = l.read(ctx, c.Scope, c.From, show)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil // ended by a signal
	case err != nil || seen || c.Lease == "":
		return err
	default:
		return c.neverThere(ctx, l)
	}
}

// prepare reads the filters.
func (c *eventsCmd) prepare() error {
	now := time.Now()
	for _, f := range []struct {
		text string
		to   *moment
		flag string
	}{{c.Since, &c.since, "since"}, {c.Until, &c.until, "until"}} {
		if f.text == "" {
			continue
		}
		var err error
		if *f.to, err = parseMoment(f.text, now); err != nil {
			return usageError{fmt.Errorf("--%s: %w", f.flag, err)}
		}
	}
	var types []string
	for _, t := range events.Types() {
		types = append(types, string(t))
	}
	for _, t := range c.Type {
		if !slices.Contains(types, t) {
			return usageError{fmt.Errorf("--type: there is no event %q; the types are: %s", t, strings.Join(types, ", "))}
		}
	}
	if name, number, ok := strings.Cut(c.Lease, "/"); ok {
		var err error
		if c.number, err = strconv.ParseUint(number, 10, 64); err != nil {
			return usageError{fmt.Errorf("--lease: %q is not the number of a lease", number)}
		}
		c.Lease = name
	}
	return nil
}

// neverThere says that a name has no events (that were asked for).
func (c *eventsCmd) neverThere(ctx context.Context, l *openLog) error {
	names := map[string]bool{}
	err := l.read(ctx, c.Scope, 1, func(m journal.Message) error {
		if _, name, _, err := events.ParseSubject(m.Subject); err == nil && !strings.HasPrefix(name, "_") {
			names[name] = true
		}
		return nil
	})
	if err != nil || names[c.Lease] {
		return err
	}
	return noSuchName(c.Lease, c.Scope, names)
}

// noSuchName says which names a log has.
func noSuchName(name, scope string, names map[string]bool) error {
	sorted := make([]string, 0, len(names))
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return fmt.Errorf("%s: the log of scope %s has no names yet", name, scope)
	}
	return fmt.Errorf("%s: the log of scope %s has no such name; the names are: %s", name, scope, strings.Join(sorted, ", "))
}

// show prints a message if it is wanted.
func (c *eventsCmd) show(w io.Writer, m journal.Message) (shown bool, err error) {
	e, err := events.Decode(m.Payload, m.Seq)
	if err != nil {
		return c.showForeign(w, m, err)
	}
	if !c.wanted(&e) {
		return false, nil
	}
	switch c.Output {
	case "json":
		_, err = w.Write(exportLine(m))
	case "yaml":
		if _, err = fmt.Fprintf(w, "---\nseq: %d\n", m.Seq); err == nil {
			err = c.encode(w, rawJSON(m.Payload))
		}
	default:
		line := eventLine(&e)
		if c.UTC {
			line = e.Time.UTC().Format("2006-01-02 15:04:05.000") + strings.TrimPrefix(line, e.Time.Local().Format(eventStamp))
		}
		_, err = fmt.Fprintln(w, screen.Visible(line))
	}
	return true, err
}

// rawJSON is JSON that is printed as it is.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// showForeign prints a message that this release can't read; only who asks for
// everything is told.
func (c *eventsCmd) showForeign(w io.Writer, m journal.Message, why error) (bool, error) {
	if c.Lease != "" || len(c.Type) > 0 || c.Actor != "" || c.Epoch > 0 || c.Since != "" || c.Until != "" {
		return false, nil
	}
	var err error
	if c.Output == "table" {
		_, err = fmt.Fprintf(w, "%d  ?  %s\n", m.Seq, screen.Visible(why.Error()))
	} else {
		_, err = w.Write(exportLine(m))
	}
	return true, err
}

func (c *eventsCmd) wanted(e *events.Event) bool {
	switch {
	case c.Lease != "" && e.Name != c.Lease, c.number > 0 && e.Lease != c.number,
		len(c.Type) > 0 && !slices.Contains(c.Type, string(e.Type())),
		c.Epoch > 0 && e.Epoch != c.Epoch,
		c.Actor != "" && !strings.Contains(e.Actor.Name, c.Actor) && !strings.Contains(e.Actor.Key, c.Actor),
		c.Since != "" && !c.since.before(e.Time, e.Seq) && !e.Time.Equal(c.since.Time) && e.Seq != c.since.Seq,
		c.Until != "" && c.until.before(e.Time, e.Seq):
		return false
	default:
		return true
	}
}

const eventStamp = "15:04:05.000"

// eventLine is an event as one readable line.
func eventLine(e *events.Event) string {
	return fmt.Sprintf("%s  %5d  %-14s  %-16s  %s", e.Time.Local().Format(eventStamp), e.Seq, e.Scope+"/"+e.Name, e.Type(), events.Sentence(e))
}
