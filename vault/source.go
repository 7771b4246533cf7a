package vault

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// Source is a text that proves who we are: the value itself, or a file that is
// read again at each login. One of the two; it prints without the value.
type Source struct {
	Value secret.String
	File  string
}

// IsZero tells whether nothing is given.
func (s Source) IsZero() bool { return s.Value.IsZero() && s.File == "" }

func (s Source) check(what string) error {
	if !s.Value.IsZero() && s.File != "" {
		return fmt.Errorf("%s: a value and a file are given; keep one", what)
	}
	return nil
}

// read gives the text without blanks around it.
func (s Source) read(what string) (secret.String, error) {
	text := s.Value.Reveal()
	if s.File != "" {
		var err error
		if text, err = readTokenFile(s.File); err != nil {
			return secret.String{}, fmt.Errorf("read the %s: %w", what, err)
		}
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "" && s.File != "":
		return secret.String{}, fmt.Errorf("the %s's file %s is empty", what, s.File)
	case text == "":
		return secret.String{}, fmt.Errorf("the %s is empty", what)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return secret.String{}, fmt.Errorf("the %s has blanks or unprintable characters", what)
	}
	return secret.New(text), nil
}

// readTokenFile reads a small file whole, without blanks around it.
func readTokenFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTokenFile {
		return "", fmt.Errorf("%s is no regular file of at most %d bytes", path, maxTokenFile)
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

var errTwoLogins = errors.New("more than one way to log in is given; keep one")
