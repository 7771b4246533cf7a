package mutate

import (
	"fmt"
	"strings"
)

// Mutant is one fault: a piece of source text replaced by another.
type Mutant struct {
	// File is the path below the module's root, Line where the fault begins.
	File string
	Line int
	// Func is the function it is in ("State.Apply"); for a declaration outside
	// of functions it is the declared name.
	Func string
	// Old and New are the replaced text and what stands in its place, each on
	// one line and shortened.
	Old, New string
	// Nth tells mutants of one function apart that read alike, from 1.
	Nth int

	start, end int    // offsets of what is replaced
	text       string // what replaces it
	body       body
	outside    bool // not in a function
	number     int  // within the package, from 1
}

// body is the function a mutant is in, as offsets into the file.
type body struct {
	start, end int // of the braces
	results    string
}

// Mutation says in one line what the fault is; with File and Func it names it
// in the table of docs/mutation.md.
func (m *Mutant) Mutation() string {
	s := fmt.Sprintf("`%s` → `%s`", m.Old, m.New)
	if m.Nth > 1 {
		s += fmt.Sprintf(" #%d", m.Nth)
	}
	return s
}

func (m *Mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", m.File, m.Line, m.Func, m.Mutation())
}

// row gives the mutant as a line of the table.
func (m *Mutant) row(reason string) string {
	return fmt.Sprintf("| %s | %s | %s | %s |", m.File, m.Func, strings.ReplaceAll(m.Mutation(), "|", `\|`), reason)
}

// maxFragment bounds Old and New, in bytes.
const maxFragment = 90

// fragment puts source text on one line.
func fragment(text string) string {
	s := strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "'")
	if len(s) > maxFragment {
		s = strings.ToValidUTF8(s[:maxFragment], "") + "…"
	}
	return s
}
