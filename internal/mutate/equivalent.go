package mutate

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Equivalents are mutants that no test can kill, since they do what the
// original does, with the reason. They are kept in docs/mutation.md.
type Equivalents map[known]string

// known names a mutant; line numbers would not last.
type known struct{ file, function, mutation string }

func (k known) String() string { return k.file + ": " + k.function + ": " + k.mutation }

var cells = regexp.MustCompile(`(?:\\.|[^|\\])*`)

// ReadEquivalents reads the rows of the Markdown table whose columns are file,
// function, mutation and reason; other tables are skipped. A row without a
// reason is an error.
func ReadEquivalents(r io.Reader) (Equivalents, error) {
	out, inside := Equivalents{}, false
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		row, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "|")
		if !ok {
			inside = false
			continue
		}
		var cell []string
		for _, c := range cells.FindAllString(strings.TrimSuffix(row, "|"), -1) {
			cell = append(cell, strings.TrimSpace(strings.ReplaceAll(c, `\|`, "|")))
		}
		switch {
		case strings.EqualFold(strings.Join(cell, ","), "file,function,mutation,reason"):
			inside = true
		case !inside || strings.Trim(strings.Join(cell, ""), "-: ") == "":
		case len(cell) != 4 || cell[3] == "":
			return nil, fmt.Errorf("line %d: a row has a file, a function, a mutation and a reason", n)
		default:
			out[known{cell[0], cell[1], cell[2]}] = cell[3]
		}
	}
	return out, lines.Err()
}

func (e Equivalents) reason(m *Mutant) (string, bool) {
	why, ok := e[known{m.File, m.Func, m.Mutation()}]
	return why, ok
}
