package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"go.yaml.in/yaml/v4"
	"golang.org/x/term"

	"github.com/leasesvc/leasesvc/screen"
)

// output is how a command prints what it has to say.
type output struct {
	Output string `short:"o" enum:"table,json,yaml" default:"table" help:"How to print it: table, json or yaml."`
	JSON   bool   `name:"json" help:"The same as --output json."`
}

// AfterApply has --json count.
func (o *output) AfterApply() error {
	if o.JSON {
		o.Output = "json"
	}
	return nil
}

// print prints v as JSON or YAML, or as the table that a person reads.
func (o output) print(v any, table func(*page)) error {
	if o.Output == "table" {
		return printPage(os.Stdout, colours(os.Stdout), table)
	}
	return o.encode(os.Stdout, v)
}

// values is how values are printed, which are no table.
func (o output) values() output {
	if o.Output == "table" {
		o.Output = "json"
	}
	return o
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

// colours tells whether what is written to f is to be in colours: on a terminal that
// knows them, unless somebody does not want them (https://no-color.org).
func colours(f *os.File) bool {
	return isTerminal(f) && os.Getenv("NO_COLOR") == "" && !dumb()
}

// dumb tells that the terminal does not even move its cursor.
func dumb() bool { return os.Getenv("TERM") == "dumb" }

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

// page is text in columns for a person. Colours, a line at a time, come only where
// they are wanted.
type page struct{ lines []pageLine }

// pageLine has one cell, or the cells of a row.
type pageLine struct {
	colour colour
	cells  []string
}

// between is the space between two columns.
const between = "  "

// row adds a line of cells.
func (p *page) row(c colour, cells ...any) {
	line := pageLine{colour: c}
	for _, cell := range cells {
		line.cells = append(line.cells, screen.Visible(fmt.Sprint(cell)))
	}
	p.lines = append(p.lines, line)
}

// line adds a line that belongs to no column; it ends the columns above it.
func (p *page) line(c colour, format string, args ...any) {
	p.lines = append(p.lines, pageLine{c, []string{screen.Visible(fmt.Sprintf(format, args...))}})
}

// write writes the page. A column is what stands in the same place of rows that
// follow each other; the last cell of a row is in none, so that it can be as long as
// it likes. Widths are those on a screen.
func (p *page) write(w io.Writer, coloured bool) error {
	var b strings.Builder
	widths := p.widths()
	for i, line := range p.lines {
		var text strings.Builder
		for k, cell := range line.cells {
			text.WriteString(cell)
			if k < len(line.cells)-1 {
				text.WriteString(strings.Repeat(" ", widths[i][k]-ansi.StringWidth(cell)) + between)
			}
		}
		shown := strings.TrimRight(text.String(), " ")
		if coloured && line.colour != plain && shown != "" {
			shown = string(line.colour) + shown + normal
		}
		b.WriteString(shown + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// widths gives each cell the width of its column.
func (p *page) widths() [][]int {
	out := make([][]int, len(p.lines))
	for k := 0; ; k++ {
		found, first := false, 0
		for first < len(p.lines) {
			end, width := first, 0
			for end < len(p.lines) && len(p.lines[end].cells) > k+1 {
				width = max(width, ansi.StringWidth(p.lines[end].cells[k]))
				end++
			}
			for ; first < end; first++ {
				out[first], found = append(out[first], width), true
			}
			first++
		}
		if !found {
			return out
		}
	}
}

func printPage(w io.Writer, coloured bool, table func(*page)) error {
	p := &page{}
	table(p)
	return p.write(w, coloured)
}
