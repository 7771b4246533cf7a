package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// errTooDeep is what the library is told to say, and what we say.
var errTooDeep = fmt.Errorf("more than %d levels deep; no key of ours is that deep", maxDepth)

// document is what the library read from a file.
type document struct {
	file string
	text string // as the file has it
	root *yaml.Node

	lines int // how many lines text has
	// begun is the line on which beginDocument was put in front of what the file
	// has; 0: on none.
	begun int
}

// beginDocument goes in front of a file that is one big { } or [ ], such as a
// JSON file. Without it the library (4.0.0) takes the bracket for the possible
// beginning of a key and keeps all tokens until it closes: 1.4 GB for 100,000
// leases instead of 180 MB.
const beginDocument = "--- "

// readDocument has the library read text, which is what checkText gave.
func readDocument(file, text string) (d *document, failed *Error) {
	d = &document{file: file, text: text, lines: strings.Count(text, "\n") + 1}
	input := io.Reader(strings.NewReader(text))
	if at, line := firstContent(text); at < len(text) && (text[at] == '{' || text[at] == '[') {
		at = strings.LastIndexByte(text[:at], '\n') + 1 // to the line's beginning
		d.begun = line
		input = io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(beginDocument), strings.NewReader(text[at:]))
	}
	loader, err := yaml.NewLoader(input,
		yaml.WithStreamNodes(),     // shows directives
		yaml.WithUniqueKeys(false), // we tell the two positions
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthFunc(func(depth int, _ *yaml.DepthContext) error {
			if depth > maxDepth {
				return errTooDeep
			}
			return nil
		}))))
	if err != nil {
		return nil, d.errorAt(Position{1, 1}, "the YAML library does not take its options: %v", err)
	}
	// The library panics where it finds itself in a state that it holds to be
	// impossible. A file must not end the process, whatever is in it.
	defer func() {
		if recover() != nil {
			failed = d.errorAt(Position{1, 1}, "%s", panicked)
		}
	}()
	for {
		var n yaml.Node
		if err := loader.Load(&n); errors.Is(err, io.EOF) {
			return d, nil
		} else if err != nil {
			return nil, d.syntaxError(err)
		}
		switch {
		case n.Kind == yaml.StreamNode && (n.Stream.Version != nil || len(n.Stream.TagDirectives) > 0):
			return nil, d.errorAt(d.position(n.Line, n.Column), "%s", noDirectives)
		case n.Kind == yaml.DocumentNode && d.root != nil:
			return nil, d.errorAt(d.position(n.Line, n.Column), "a second document; a file has one")
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			d.root = n.Content[0]
		}
	}
}

// firstContent gives the offset of the first byte that is no space, line end or
// comment, and its line.
func firstContent(text string) (at, line int) {
	for line = 1; at < len(text); at++ {
		switch text[at] {
		case ' ':
		case '\n':
			line++
		case '#':
			end := strings.IndexByte(text[at:], '\n')
			if end < 0 {
				return len(text), line
			}
			at += end - 1
		default:
			return at, line
		}
	}
	return at, line
}

// position turns a position of the library into one in the file: it counts what
// we put in, and has the end of the file on a line that may not be there.
func (d *document) position(line, column int) Position {
	if line == d.begun {
		column -= len(beginDocument)
	}
	if line > d.lines {
		last := d.text[strings.LastIndexByte(d.text, '\n')+1:]
		return Position{d.lines, utf8.RuneCountInString(last) + 1}
	}
	return Position{max(line, 1), max(column, 1)}
}

func (d *document) errorAt(at Position, format string, args ...any) *Error {
	return &Error{File: d.file, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)}
}
