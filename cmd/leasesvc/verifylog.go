package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/audit"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
)

type verifyLogCmd struct {
	logSource
	output
	Against string `placeholder:"FILE" help:"The report of an earlier audit (--output json): what it saw must still be there."`
	All     bool   `help:"Print every finding, not only the first ten."`
}

// violatedError ends a command that looked and found something wrong.
type violatedError struct{ says string }

// Error implements error.
func (e *violatedError) Error() string { return e.says }

// shownFindings is how many findings the table has without --all.
const shownFindings = 10

func (c verifyLogCmd) Run(ctx context.Context) error {
	opts := audit.Options{Scope: c.Scope}
	var err error
	if opts.Keys, err = c.keys(); err != nil {
		return err
	}
	if c.Against != "" {
		if opts.Anchors, err = anchors(c.Against); err != nil {
			return err
		}
	}
	l, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer l.close()
	if c.Scope == "" {
		opts.Scope = "" // a service file with one scope has set it
	}
	auditor := audit.New(opts)
	err = l.read(ctx, opts.Scope, 1, func(m journal.Message) error {
		auditor.Look(audit.Message{Seq: m.Seq, Subject: m.Subject, Payload: m.Payload})
		return nil
	})
	if err != nil {
		return err
	}
	report := auditor.Report()
	settings := ""
	if l.journal != nil {
		var wrong *journal.SettingsError
		if err := l.journal.Check(ctx); errors.As(err, &wrong) {
			settings = wrong.Error()
		}
	}
	out := struct {
		audit.Report
		// Settings says what is wrong with the stream's settings now.
		Settings string `json:"settings,omitempty"`
	}{report, settings}
	if err := c.print(out, func(p *page) { c.table(p, report, settings) }); err != nil {
		return err
	}
	if onlyKeys(report) {
		return &violatedError{"not all of the log could be checked; first: " + report.Findings[0].String()}
	}
	if !report.Intact {
		return &violatedError{"the log is not intact; first: " + report.Findings[0].String()}
	}
	return nil
}

func anchors(file string) ([]audit.Head, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the earlier audit: %w", err)
	}
	var report audit.Report
	if err := json.Unmarshal(b, &report); err != nil {
		return nil, fmt.Errorf("reading the earlier audit %s: %w", file, err)
	}
	out := make([]audit.Head, 0, len(report.Scopes))
	for _, s := range report.Scopes {
		if s.Seq > 0 {
			out = append(out, s.Head)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading the earlier audit %s: it has no scopes; it is what leasesvc verify-log --output json printed", file)
	}
	return out, nil
}

func (c verifyLogCmd) table(p *page, r audit.Report, settings string) {
	for _, s := range r.Scopes {
		p.row(bold, "scope "+s.Scope, fmt.Sprintf("%s up to sequence %d, %s, the last is %d", events.Counted(s.Events, "event"), s.Seq, events.Counted(s.Epochs, "epoch"), s.Epoch))
		p.row(plain, "  leases", fmt.Sprintf("%d begun, %d closed, %d open%s", s.Leases, s.Closed, len(s.Open), openLeases(s.Open)))
		p.row(plain, "  events", usage(s.Types))
		p.row(plain, "  head", s.MAC)
	}
	if len(r.Scopes) > 0 {
		p.line(plain, "")
	}
	if r.MACs {
		p.line(plain, "The MACs were checked.")
	} else {
		p.line(yellow, "The MACs were NOT checked: no seal key was given (--seal-key FILE). An edit that leaves the links of the chain alone does not show.")
	}
	if settings != "" {
		p.line(yellow, "The stream's settings: %s", settings)
	}
	if r.Intact && !r.MACs {
		p.line(yellow, "Beside the MACs, the log is intact: %s, sequence %d to %d.", wereRead(r.Messages), r.FirstSeq, r.LastSeq)
		return
	}
	if r.Intact {
		p.line(green, "The log is intact: %s, sequence %d to %d.", wereRead(r.Messages), r.FirstSeq, r.LastSeq)
		return
	}
	if onlyKeys(r) {
		p.line(yellow, "Beside the MACs of %s, whose seal key was not given (--seal-key, once for each key), the log is intact: %s, sequence %d to %d.", events.Counted(r.Found, "epoch"), wereRead(r.Messages), r.FirstSeq, r.LastSeq)
	} else {
		p.line(red, "The log is NOT intact: %s in %s. What comes after the first may follow from it.", events.Counted(r.Found, "finding"), events.Counted(r.Messages, "message"))
	}
	for i, f := range r.Findings {
		if i == shownFindings && !c.All {
			p.line(plain, "  ... and more (--all)")
			break
		}
		p.line(red, "  %s", f.String())
	}
}

// onlyKeys tells whether nothing but keys was missing.
func onlyKeys(r audit.Report) bool {
	return !r.Intact && !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Kind != audit.Key })
}

func wereRead(messages uint64) string {
	if messages == 1 {
		return "1 message was read"
	}
	return fmt.Sprintf("%d messages were read", messages)
}

func openLeases(open []audit.Open) string {
	if len(open) == 0 {
		return ""
	}
	states := map[string]int{}
	for _, o := range open {
		states[o.State]++
	}
	var parts []string
	for _, s := range []string{"requested", "acquired", "handing-over", "rolling-back", "active", "grace", "kept", "retired", "revoking"} {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// usage lists how often each type of event is there, in the catalogue's order.
func usage(types map[events.Type]uint64) string {
	var parts []string
	for _, t := range events.Types() {
		if n := types[t]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", t, n))
		}
	}
	return strings.Join(parts, ", ")
}
