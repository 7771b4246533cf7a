package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxTokens bounds what a file of [MaxFile] bytes can make us keep: 16 MiB of
// ordinary definitions have three million tokens, 16 MiB of "[" sixteen.
const maxTokens = 4 << 20

// token is what a tok is.
type token uint8

const (
	plainText    token = iota // a text without quotes
	quotedText                // a text with quotes
	number                    // digits and what else YAML takes for a number
	truth                     // true or false
	null                      // null or ~
	dash                      // "-" of a list
	colon                     // ":" of a key
	comma                     // "," in { } or [ ]
	openList                  // "["
	shutList                  // "]"
	openMapping               // "{"
	shutMapping               // "}"
	documentHead              // "---"
	documentEnd               // "..."
	anchor                    // "&"
	alias                     // "*"
	tag                       // "!"
	textBlock                 // "|" or ">"
	complexKey                // "?"
	directive                 // "%" that begins a line
	mergeKey                  // "<<"
)

// tok is a token and where it stands. A file of 100,000 leases has two million
// of them; text is a part of the file, not a copy.
type tok struct {
	typ  token
	line int32
	col  int32
	text string // of a scalar
}

// lexer cuts a text into tokens, comments left out. Every token stands on one
// line, which is what makes it this short: the texts over several lines that
// YAML has are refused, no key of ours takes one.
type lexer struct {
	file string
	toks []tok
	line string // the line being read
	at   int    // offset in line
	col  int    // column of at, in characters
	row  int
	flow int // how many { and [ are open
}

// tokenize gives the tokens of src, or the first place that is no YAML of
// ours. src is what checkText gave.
func tokenize(file, src string) ([]tok, *Error) {
	l := &lexer{file: file}
	for more := true; more; {
		l.line, src, more = strings.Cut(src, "\n")
		l.at, l.col = 0, 1
		l.row++
		if err := l.readLine(); err != nil {
			return nil, err
		}
	}
	return l.toks, nil
}

func (l *lexer) fail(format string, args ...any) *Error {
	return &Error{File: l.file, Line: l.row, Column: l.col, Message: fmt.Sprintf(format, args...)}
}

// advance moves over n bytes.
func (l *lexer) advance(n int) {
	l.col += utf8.RuneCountInString(l.line[l.at : l.at+n])
	l.at += n
}

// add takes the next n bytes as a token.
func (l *lexer) add(typ token, text string, n int) *Error {
	if len(l.toks) == maxTokens {
		return l.fail("more than %d keys, values and marks in one file", maxTokens)
	}
	l.toks = append(l.toks, tok{typ, int32(l.row), int32(l.col), text})
	l.advance(n)
	return nil
}

// ends tells whether offset i is the end of the line or a space.
func (l *lexer) ends(i int) bool { return i >= len(l.line) || l.line[i] == ' ' || l.line[i] == '\t' }

// standsAlone tells whether the mark before offset i is one: a space, the end
// of the line, or (in { } and [ ]) a bracket or comma comes next.
func (l *lexer) standsAlone(i int) bool {
	return l.ends(i) || l.flow > 0 && strings.IndexByte(",[]{}", l.line[i]) >= 0
}

// marker tells whether the line begins with "---" or "...".
func (l *lexer) marker(mark string) bool { return strings.HasPrefix(l.line, mark) && l.ends(3) }

func (l *lexer) readLine() *Error {
	switch {
	case l.marker("---"):
		if err := l.add(documentHead, "", 3); err != nil {
			return err
		}
	case l.marker("..."):
		if err := l.add(documentEnd, "", 3); err != nil {
			return err
		}
	case strings.HasPrefix(l.line, "%"):
		return l.add(directive, "", len(l.line))
	}
	for l.at < len(l.line) {
		switch c := l.line[l.at]; c {
		case ' ', '\t':
			l.advance(1)
		case '#':
			if l.at > 0 && !l.ends(l.at-1) {
				return l.fail(`"#" right after a value; put a space before a comment, or quotes around a text`)
			}
			return nil
		default:
			if err := l.readToken(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lexer) readToken(c byte) *Error {
	switch c {
	case '[':
		l.flow++
		return l.add(openList, "", 1)
	case '{':
		l.flow++
		return l.add(openMapping, "", 1)
	case ']':
		l.flow = max(l.flow-1, 0)
		return l.add(shutList, "", 1)
	case '}':
		l.flow = max(l.flow-1, 0)
		return l.add(shutMapping, "", 1)
	case ',':
		return l.add(comma, "", 1)
	case '&':
		return l.add(anchor, "", 1)
	case '*':
		return l.add(alias, "", 1)
	case '!':
		return l.add(tag, "", 1)
	case '|', '>':
		return l.add(textBlock, "", 1)
	case '@', '`', '%':
		return l.fail("a text that begins with @, ` or %%; put it in quotes")
	case '\'':
		return l.singleQuoted()
	case '"':
		return l.doubleQuoted()
	}
	alone := l.standsAlone(l.at + 1)
	switch {
	case c == '-' && alone:
		return l.add(dash, "", 1)
	case c == '?' && alone:
		return l.add(complexKey, "", 1)
	case c == ':' && (alone || l.flow > 0 && l.afterQuotes()):
		return l.add(colon, "", 1)
	default:
		return l.plain()
	}
}

// afterQuotes tells whether the last token is a quoted text that ends right
// here: {"a":1} needs no space.
func (l *lexer) afterQuotes() bool {
	return len(l.toks) > 0 && l.at > 0 && l.toks[len(l.toks)-1].typ == quotedText &&
		int(l.toks[len(l.toks)-1].line) == l.row && (l.line[l.at-1] == '"' || l.line[l.at-1] == '\'')
}

// plain reads a text without quotes: up to ": ", " #", the end of the line, and
// in { } and [ ] up to a bracket or comma.
func (l *lexer) plain() *Error {
	end := l.at
	for ; end < len(l.line); end++ {
		c := l.line[end]
		if c == ':' && l.standsAlone(end+1) || c == '#' && end > l.at && l.ends(end-1) ||
			l.flow > 0 && strings.IndexByte(",[]{}", c) >= 0 {
			break
		}
	}
	text := strings.TrimRight(l.line[l.at:end], " \t")
	if i := strings.IndexByte(text, '\t'); i >= 0 {
		l.advance(i)
		return l.fail("a tab within a text without quotes; put it in quotes, or write a space")
	}
	return l.add(typeOf(text), text, len(text))
}

var yamlNumber = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// typeOf tells what YAML takes a text without quotes for.
func typeOf(text string) token {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return truth
	case "<<":
		return mergeKey
	}
	if strings.IndexByte("+-.0123456789", text[0]) >= 0 && yamlNumber.MatchString(text) {
		return number
	}
	return plainText
}

// singleQuoted reads 'a text', in which two quotes are one.
func (l *lexer) singleQuoted() *Error {
	for i := l.at + 1; i < len(l.line); i++ {
		switch {
		case l.line[i] != '\'':
		case i+1 < len(l.line) && l.line[i+1] == '\'':
			i++
		default:
			text := strings.ReplaceAll(l.line[l.at+1:i], "''", "'")
			return l.add(quotedText, text, i+1-l.at)
		}
	}
	return l.fail("a text that begins with ' has no closing ' on its line")
}

// doubleQuoted reads "a text".
func (l *lexer) doubleQuoted() *Error {
	var unescaped strings.Builder
	from := l.at + 1 // what is before it is in unescaped
	for i := from; i < len(l.line); {
		switch l.line[i] {
		case '"':
			text := l.line[from:i]
			if unescaped.Len() > 0 {
				unescaped.WriteString(text)
				text = unescaped.String()
			}
			return l.add(quotedText, text, i+1-l.at)
		case '\\':
			r, size := escape(l.line[i:])
			if size == 0 {
				l.advance(i - l.at)
				return l.fail(`an escape that is not allowed; allowed between double quotes: \\ \" \/ \xNN \uNNNN \UNNNNNNNN for a character that can be seen (or use single quotes, which have none)`)
			}
			unescaped.WriteString(l.line[from:i])
			unescaped.WriteRune(r)
			i += size
			from = i
		default:
			i++
		}
	}
	return l.fail(`a text that begins with " has no closing " on its line`)
}

// escape gives the character of the escape that s begins with, and the
// escape's length; 0 if it is none of ours.
func escape(s string) (r rune, size int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '\\', '"', '/':
		return rune(s[1]), 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if digits == 0 || len(s) < 2+digits {
		return 0, 0
	}
	for _, c := range []byte(s[2 : 2+digits]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, 0
		}
	}
	if !utf8.ValidRune(r) || isControl(r) {
		return 0, 0
	}
	return r, 2 + digits
}

// describe names a token for a message, never with its text.
func (t tok) describe() string {
	for typ, mark := range map[token]string{dash: "-", colon: ":", comma: ",", openList: "[", shutList: "]", openMapping: "{", shutMapping: "}"} {
		if t.typ == typ {
			return `"` + mark + `"`
		}
	}
	return "a text"
}

// isScalar tells whether the token is a value or key by itself.
func (t tok) isScalar() bool { return t.typ <= null }

// refused says why a token that YAML knows is not allowed here; empty: it is.
func (t tok) refused() string {
	switch t.typ {
	case anchor:
		return "an anchor (&name); anchors are not allowed, write the value out, or use defaults in a definitions file (a text that begins with & needs quotes)"
	case alias:
		return "an alias (*name); aliases are not allowed, write the value out (a text that begins with * needs quotes)"
	case mergeKey:
		return "a merge key (<<); merging is not allowed, write the keys out, or use defaults in a definitions file"
	case tag:
		return "a tag (!...); tags are not allowed (a text that begins with ! needs quotes)"
	case textBlock:
		return "a text over several lines (| or >), which no key takes; write it on one line (a text that begins with | or > needs quotes)"
	case complexKey:
		return `a key that begins with "?"; write it as "key: value"`
	case directive:
		return "a directive (%...); directives are not allowed"
	case documentHead:
		return "a second document (---); a file has one"
	case documentEnd:
		return "a document end (...) with text after it; a file has one document"
	default:
		return ""
	}
}

// at makes an error at the token.
func (t tok) at(file, format string, args ...any) *Error {
	return &Error{File: file, Line: int(t.line), Column: int(t.col), Message: fmt.Sprintf(format, args...)}
}

// position is where the token stands.
func (t tok) position() Position { return Position{int(t.line), int(t.col)} }
