package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/secret"
)

// isText tells whether YAML takes the scalar for a text.
func (n *node) isText() bool {
	return n.kind == scalar && (n.typ == plainText || n.typ == quotedText)
}

// isBool tells whether YAML takes the scalar for true or false.
func (n *node) isBool() bool { return n.kind == scalar && n.typ == truth }

// isPlain tells whether the scalar stands without quotes.
func (n *node) isPlain() bool {
	return n.kind == scalar && n.typ != quotedText
}

// text is any text; check says what is wrong with one, without repeating it.
type text struct {
	to      *string
	what    string // as the documentation names the type; "text" if empty
	allowed string
	check   func(string) error
}

func (t text) read(d *decoder, n *node, p place) {
	switch {
	case n.kind != scalar:
		d.fail(n, p, "%s where a %s is expected%s", n.describe(), t.typ(), t.hint())
	case !n.isText():
		d.fail(n, p, "%s where a %s is expected; put it in quotes if it is meant as text%s", n.describe(), t.typ(), t.hint())
	default:
		if t.check != nil {
			if err := t.check(n.text); err != nil {
				d.fail(n, p, "%v%s", err, t.hint())
				return
			}
		}
		*t.to = n.text
	}
}

func (t text) hint() string {
	if t.allowed == "" {
		return ""
	}
	return "; allowed: " + t.allowed
}

func (t text) typ() string {
	if t.what == "" {
		return "text"
	}
	return t.what
}

func (text) children(func(string, field)) {}

// confidential is a text that must not be printed, its type included in what
// is said about it.
type confidential struct{ to *secret.String }

func (c confidential) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.typ == pem {
		d.fail(n, p, "%s where a text is expected", n.describe())
		return
	}
	if n.text == "" || strings.TrimSpace(n.text) != n.text {
		d.fail(n, p, "is empty or has space around it")
		return
	}
	*c.to = secret.New(n.text)
}

func (confidential) typ() string                  { return "secret text" }
func (confidential) children(func(string, field)) {}

// path is the path of a file; a relative one counts from the directory of the
// file that names it.
type path struct{ to *string }

func (f path) read(d *decoder, n *node, p place) {
	var name string
	before := len(d.errs)
	text{to: &name, what: "path", check: func(s string) error {
		switch {
		case s == "" || strings.TrimSpace(s) != s:
			return fmt.Errorf("is empty or has space around it")
		case len(s) > 4096:
			return fmt.Errorf("has %d bytes, more than a path can have", len(s))
		}
		return nil
	}, allowed: "a path, a relative one counts from this file's directory"}.read(d, n, p)
	if len(d.errs) > before {
		return
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.dir, name)
	}
	*f.to = name
}

func (path) typ() string                  { return "path" }
func (path) children(func(string, field)) {}

// boolean is true or false.
type boolean struct{ to *bool }

func (b boolean) read(d *decoder, n *node, p place) {
	if !n.isBool() {
		d.fail(n, p, "%s where a truth value is expected; allowed: true, false (without quotes)", n.describe())
		return
	}
	*b.to = strings.EqualFold(n.text, "true")
}

func (boolean) typ() string                  { return "true or false" }
func (boolean) children(func(string, field)) {}

// either is true, false or left out.
type either struct{ to **bool }

func (e either) read(d *decoder, n *node, p place) {
	var b bool
	before := len(d.errs)
	if (boolean{&b}).read(d, n, p); len(d.errs) == before {
		*e.to = &b
	}
}

func (either) typ() string                  { return "true or false" }
func (either) children(func(string, field)) {}

// choice is one of a few words.
type choice[T ~string] struct {
	to      *T
	allowed []T
}

func (c choice[T]) read(d *decoder, n *node, p place) {
	if n.kind != scalar {
		d.fail(n, p, "%s where a word is expected; allowed: %s", n.describe(), c.typ())
		return
	}
	if !slices.Contains(c.allowed, T(n.text)) {
		hint := ""
		if best := nearest(n.text, c.words()); best != "" {
			hint = fmt.Sprintf(", did you mean %q?", best)
		}
		d.fail(n, p, "%s is not allowed%s; allowed: %s", shownValue(n.text), hint, c.typ())
		return
	}
	*c.to = T(n.text)
}

func (c choice[T]) words() []string {
	words := make([]string, len(c.allowed))
	for i, w := range c.allowed {
		words[i] = string(w)
	}
	return words
}

func (c choice[T]) typ() string { return strings.Join(c.words(), ", ") }

func (choice[T]) children(func(string, field)) {}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,40})$`)

// integer is a whole number, one of allowed if there are any, else within min
// and max.
type integer struct {
	to       func(int64)
	min, max int64
	allowed  []int64
}

func (i integer) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a whole number is expected; allowed: %s", n.describe(), i.typ())
		return
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case !n.isPlain() || !wholeNumber.MatchString(n.text):
		d.fail(n, p, "%s is not a whole number in plain digits; allowed: %s", shownValue(n.text), i.typ())
	case err != nil || v < i.min || v > i.max || len(i.allowed) > 0 && !slices.Contains(i.allowed, v):
		d.fail(n, p, "%s is not allowed; allowed: %s", shownValue(n.text), i.typ())
	default:
		i.to(v)
	}
}

func (i integer) typ() string {
	if len(i.allowed) > 0 {
		words := make([]string, len(i.allowed))
		for k, v := range i.allowed {
			words[k] = strconv.FormatInt(v, 10)
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("whole number, %d to %d", i.min, i.max)
}

func (integer) children(func(string, field)) {}

// shownValue repeats a short value of a key that holds no secret.
func shownValue(s string) string {
	if r := []rune(s); len(r) > 32 {
		return fmt.Sprintf("%q", string(r[:32])+"...")
	}
	return fmt.Sprintf("%q", s)
}

// checkName is [events.CheckName] in the words of this package's messages.
func checkName(s string) error {
	if err := events.CheckName(s); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), events.ErrName.Error()+": "))
	}
	return nil
}

// name is a name in the sense of [events.CheckName].
func name(to *string) text { return text{to: to, what: "name", check: checkName} }
