package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v4"
	"golang.org/x/term"
)

// output is how a command prints what it has to say.
type output struct {
	Output string `short:"o" enum:"table,json,yaml" default:"table" help:"How to print it: table, json or yaml."`
}

// print prints v as JSON or YAML, or as the table that a person reads.
func (o output) print(v any, table func(*page)) error {
	if o.Output == "table" {
		return printPage(os.Stdout, isTerminal(os.Stdout), table)
	}
	return o.encode(os.Stdout, v)
}

// encode writes v as JSON or YAML; both have the same keys in the same order.
func (o output) encode(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if o.Output == "json" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if o.Output == "yaml" {
		var doc yaml.Node
		if err := yaml.Unmarshal(append([]byte("--- "), b.Bytes()...), &doc); err != nil {
			return fmt.Errorf("printing as YAML: %w", err)
		}
		inBlocks(&doc)
		b.Reset()
		y := yaml.NewEncoder(&b)
		y.SetIndent(2)
		if err := y.Encode(&doc); err != nil {
			return fmt.Errorf("printing as YAML: %w", err)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inBlocks gives a document that was read from JSON YAML's own style.
func inBlocks(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		inBlocks(c)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// colour is an ANSI sequence.
type colour string

const (
	plain  colour = ""
	bold   colour = "\x1b[1m"
	red    colour = "\x1b[31m"
	yellow colour = "\x1b[33m"
	green  colour = "\x1b[32m"
	normal        = "\x1b[0m"
)

// page is text in columns for a person. Colours, a line at a time, come only on
// a terminal (and not where NO_COLOR is set).
type page struct {
	w       *tabwriter.Writer
	buf     bytes.Buffer
	colours []colour
}

// row adds a line of cells.
func (p *page) row(c colour, cells ...any) {
	p.colours = append(p.colours, c)
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(p.w, "\t")
		}
		fmt.Fprint(p.w, visible(fmt.Sprint(cell)))
	}
	fmt.Fprintln(p.w)
}

// line adds a line that belongs to no column; it ends the columns above it.
func (p *page) line(c colour, format string, args ...any) {
	_ = p.w.Flush() // into memory
	p.colours = append(p.colours, c)
	fmt.Fprintln(&p.buf, visible(fmt.Sprintf(format, args...)))
}

// visible keeps what somebody wrote into a name or a message from moving the
// cursor or breaking the table.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// trailing is what the columns leave behind the last cell of a line.
var trailing = regexp.MustCompile(`(?m) +$`)

func printPage(w io.Writer, terminal bool, table func(*page)) error {
	p := &page{}
	p.w = tabwriter.NewWriter(&p.buf, 0, 0, 2, ' ', 0)
	table(p)
	if err := p.w.Flush(); err != nil {
		return err
	}
	text := trailing.ReplaceAllString(p.buf.String(), "")
	if terminal && os.Getenv("NO_COLOR") == "" {
		text = p.coloured(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

func (p *page) coloured(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, c := range p.colours {
		if c != plain && i < len(lines) {
			lines[i] = string(c) + strings.TrimSuffix(lines[i], "\n") + normal + "\n"
		}
	}
	return strings.Join(lines, "")
}
