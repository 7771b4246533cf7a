package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxShown is how many errors [Errors.Error] prints; [Errors.List] has all.
const MaxShown = 50

// Position is a place in a file. Lines and columns count from 1, columns in
// characters. The zero value means the file as a whole.
type Position struct{ Line, Column int }

// Error is one thing that is wrong with a configuration file, in words for the
// person who wrote it. It never holds the value of a key that may hold a
// secret.
type Error struct {
	// File is the file's name as it was given.
	File string
	// Line and Column say where; both are 0 when the file could not be read at
	// all.
	Line, Column int
	// Key is the path of the key, such as "vaults.main.token_file", or empty
	// where no key can be named.
	Key string
	// Message says what is wrong and what is allowed.
	Message string
	// Err is what the operating system said, if it was that; nil else.
	Err error
}

// Error gives "file:line:column: key: message".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Unwrap gives Err, so that errors.Is(err, fs.ErrNotExist) works.
func (e *Error) Unwrap() error { return e.Err }

// Errors is everything that is wrong with a file, in the order of the file.
// Every function of this package that refuses a file returns one, so a caller
// that maps errors to exit codes (E17: 2) asks errors.As for it.
type Errors struct{ List []*Error }

// Error gives a line for each error, at most [MaxShown] of them.
func (e *Errors) Error() string {
	lines := make([]string, 0, min(len(e.List), MaxShown)+1)
	for i, one := range e.List {
		if i == MaxShown {
			lines = append(lines, fmt.Sprintf("%s: and %d more", one.File, len(e.List)-MaxShown))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives every single error to errors.Is and errors.As.
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.List))
	for i, one := range e.List {
		all[i] = one
	}
	return all
}

// inFileOrder gives list as an error: sorted by place, nil if it is empty.
func inFileOrder(list []*Error) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Errors{List: list}
}
