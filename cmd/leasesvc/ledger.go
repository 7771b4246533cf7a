package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/ledger"
)

type ledgerCmd struct {
	logSource
	By     string `enum:"name,path,consumer" default:"name" help:"Add up by name, path or consumer."`
	Since  string `placeholder:"TIME" help:"Count from this time on (2026-01-31T12:00:00Z, 12:00, 24h for the last day)."`
	Until  string `placeholder:"TIME" help:"Count up to this time; now by default (for an export: its last event)."`
	Output string `short:"o" enum:"table,csv,json,yaml" default:"table" help:"How to print it: table, csv, json or yaml."`
}

func (c ledgerCmd) Run(ctx context.Context) error {
	now := time.Now()
	since, until := moment{}, moment{Time: now}
	for _, f := range []struct {
		text, flag string
		to         *moment
	}{{c.Since, "since", &since}, {c.Until, "until", &until}} {
		if f.text == "" {
			continue
		}
		var err error
		if *f.to, err = parseMoment(f.text, now); err != nil {
			return usageError{fmt.Errorf("--%s: %w", f.flag, err)}
		}
		if f.to.Seq > 0 {
			return usageError{fmt.Errorf("--%s: the ledger counts seconds: give a time, not a sequence", f.flag)}
		}
	}
	l, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer l.close()
	book, last := ledger.New(since.Time), time.Time{}
	_, err = c.fold(ctx, l, func(e *events.Event) bool {
		if until.before(e.Time, e.Seq) {
			return false
		}
		book.See(e)
		last = e.Time
		return true
	})
	if err != nil {
		return err
	}
	if c.File != "" && c.Until == "" {
		until.Time = last
	}
	rows := book.Rows(ledger.By(c.By), until.Time)
	if c.Output == "csv" {
		return ledgerCSV(os.Stdout, c.By, rows)
	}
	out := struct {
		Scope string       `json:"scope"`
		By    string       `json:"by"`
		Since time.Time    `json:"since,omitzero"`
		Until time.Time    `json:"until"`
		Rows  []ledger.Row `json:"rows"`
	}{c.Scope, c.By, since.Time.UTC(), until.Time.UTC(), rows}
	if since.Time.IsZero() {
		out.Since = time.Time{}
	}
	return output{Output: c.Output}.print(out, func(p *page) { ledgerTable(p, c.By, rows) })
}

// ledgerColumns are the columns of the table and the CSV.
var ledgerColumns = []struct {
	name string
	of   func(*ledger.Row) string
}{
	{"granted_s", func(r *ledger.Row) string { return r.Granted.String() }},
	{"lived_s", func(r *ledger.Row) string { return r.LivedSeconds.String() }},
	{"staged_s", func(r *ledger.Row) string { return r.Staged.String() }},
	{"in_use_s", func(r *ledger.Row) string { return r.InUse.String() }},
	{"overlapped_s", func(r *ledger.Row) string { return r.Overlapped.String() }},
	{"exposed_s", func(r *ledger.Row) string { return r.Exposed.String() }},
	{"longest_s", func(r *ledger.Row) string { return r.Longest.String() }},
	{"longest_lease", func(r *ledger.Row) string { return r.LongestLease }},
	{"acquired", func(r *ledger.Row) string { return strconv.FormatUint(r.Acquired, 10) }},
	{"failed_acquisitions", func(r *ledger.Row) string { return strconv.FormatUint(r.FailedAcquisitions, 10) }},
	{"rotations", func(r *ledger.Row) string { return strconv.FormatUint(r.Rotations, 10) }},
	{"roll_backs", func(r *ledger.Row) string { return strconv.FormatUint(r.RollBacks, 10) }},
	{"failed_handovers", func(r *ledger.Row) string { return strconv.FormatUint(r.FailedHandovers, 10) }},
	{"open", func(r *ledger.Row) string { return strconv.Itoa(r.Open) }},
}

func ledgerCSV(w io.Writer, by string, rows []ledger.Row) error {
	out := csv.NewWriter(w)
	record := []string{by}
	for _, col := range ledgerColumns {
		record = append(record, col.name)
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for i := range rows {
		record = append(record[:0], rows[i].Of)
		for _, col := range ledgerColumns {
			record = append(record, col.of(&rows[i]))
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func ledgerTable(p *page, by string, rows []ledger.Row) {
	cells := []any{by}
	for _, col := range ledgerColumns {
		cells = append(cells, col.name)
	}
	p.row(bold, cells...)
	for i := range rows {
		cells = append(cells[:0], rows[i].Of)
		for _, col := range ledgerColumns {
			cells = append(cells, dash(col.of(&rows[i])))
		}
		p.row(plain, cells...)
	}
}
