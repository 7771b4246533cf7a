package config

import (
	"fmt"
	"strings"
)

// maxMarks bounds what the library can be made to keep: up to 1.6 KB for a mark
// in a file that is made to hurt (16 MiB of "a," in one bracket took 7 GB), some
// 200 bytes in one that is written to be read. The latter has a mark for each 10
// to 20 bytes, so that MaxFile holds 1.6 million at most.
const maxMarks = 2 << 20

// checkMarks refuses a text that has too many of the characters that YAML makes
// tokens of. It counts those in quotes and comments too: finding out which is
// which is the library's work, and the bound leaves room for it.
func checkMarks(file, text string) *Error {
	marks, line, begins := 0, 1, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			marks++
			line, begins = line+1, i+1
		case ',', '[', ']', '{', '}', '&', '*', '!':
			marks++
		case ':', '-', '?':
			// Within a word they are a part of it; after a quote a colon is not.
			if i+1 == len(text) || strings.IndexByte(" \n", text[i+1]) >= 0 || c == ':' && i > 0 && (text[i-1] == '"' || text[i-1] == '\'') {
				marks++
			}
		}
		if marks > maxMarks {
			return &Error{File: file, Line: line, Column: len([]rune(text[begins:i])) + 1,
				Message: fmt.Sprintf("more than %d keys, values and marks in one file; split it into several scopes", maxMarks)}
		}
	}
	return nil
}
