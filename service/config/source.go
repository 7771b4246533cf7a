package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// MaxFile is the largest file that is read, in bytes: room for more than
// 100,000 leases.
const MaxFile = 16 << 20

// readFile gives the content of a regular file of at most MaxFile bytes.
func readFile(path string) ([]byte, error) {
	refuse := func(err error, format string, args ...any) ([]byte, error) {
		return nil, inFileOrder([]*Error{{File: path, Message: fmt.Sprintf(format, args...), Err: err}})
	}
	if path == "" {
		return nil, inFileOrder([]*Error{{File: "configuration", Message: "no file was named; name a YAML file"}})
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(err, "there is no such file; check the path, a relative one counts from the working directory")
	case err != nil:
		return refuse(err, "cannot be looked at: %v", cause(err))
	case info.IsDir():
		return refuse(nil, "is a directory; name the YAML file in it")
	case !info.Mode().IsRegular():
		// Opening a pipe would wait for a writer that may never come.
		return refuse(nil, "is not a regular file; pipes and devices are not read")
	}
	f, err := os.Open(path)
	if err != nil {
		return refuse(err, "cannot be read: %v", cause(err))
	}
	defer f.Close()
	// One byte more than allowed tells a file that grew after the look at it.
	src, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return refuse(err, "cannot be read: %v", cause(err))
	}
	return src, nil
}

// cause drops the operation and path of a file error: the path is in front of
// the message already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// checkText refuses what is not plain UTF-8 text with spaces for indentation,
// and gives the text without a byte order mark and with "\n" line ends.
func checkText(file string, src []byte) (string, []*Error) {
	fail := func(at Position, format string, args ...any) (string, []*Error) {
		return "", []*Error{{File: file, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)}}
	}
	if len(src) > MaxFile {
		return fail(Position{1, 1}, "the file is larger than %d MiB, which is the limit", MaxFile>>20)
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return fail(Position{1, 1}, "the file is in UTF-16; save it as UTF-8")
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))
	src = bytes.ReplaceAll(src, []byte("\r"), []byte("\n"))

	var errs []*Error
	at, indentation := Position{1, 1}, true
	for rest := src; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			return fail(at, "a byte that is not UTF-8; save the file as UTF-8")
		case r == '\n':
			at, indentation = Position{at.Line + 1, 1}, true
			continue
		case r == '\t' && indentation:
			errs = append(errs, &Error{File: file, Line: at.Line, Column: at.Column,
				Message: "a tab in the indentation; indent with spaces"})
			indentation = false // one error for a line
		case r != '\t' && isControl(r):
			return fail(at, "a control character (U+%04X); only text is allowed", r)
		case r != ' ':
			indentation = false
		}
		at.Column++
	}
	if len(errs) > 0 {
		return "", errs
	}
	return string(src), nil
}

// isControl tells whether r is no part of a text: a control character, a
// surrogate, a line separator, or a byte order mark.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0xd800 && r < 0xe000 || r == 0xfeff || r&0xfffe == 0xfffe
}
