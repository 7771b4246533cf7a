package verify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}`)

// render puts the values where the template names their keys, escaped for the
// place. Its errors name keys, never values.
func render(template string, values map[string]any, escape func(string) string) (string, error) {
	var failed error
	out := placeholder.ReplaceAllStringFunc(template, func(found string) string {
		key := placeholder.FindStringSubmatch(found)[1]
		text, err := scalar(values, key)
		if err != nil && failed == nil {
			failed = err
		}
		return escape(text)
	})
	if failed != nil {
		return "", failed
	}
	return out, nil
}

// scalar gives the text of a value. An empty one is refused: no account has an
// empty name or password, and an unquoted empty value would swallow the next
// setting of a keyword DSN.
func scalar(values map[string]any, key string) (string, error) {
	v, ok := values[key]
	if !ok {
		return "", fmt.Errorf("the credential has no key %q, which the verifier's DSN names", key)
	}
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case secret.String:
		text = v.Reveal()
	case json.Number:
		text = v.String()
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		text = strconv.Itoa(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	case bool:
		text = strconv.FormatBool(v)
	default:
		return "", fmt.Errorf("the credential's key %q is neither a string nor a number nor a boolean", key)
	}
	switch {
	case text == "":
		return "", fmt.Errorf("the credential's key %q is empty", key)
	case strings.ContainsRune(text, 0):
		return "", fmt.Errorf("the credential's key %q has a NUL byte", key)
	}
	return text, nil
}

// escapeURL percent-encodes all but the unreserved characters of RFC 3986, so
// that a value is one value in any part of a URL.
func escapeURL(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// escapeKeyword escapes a value for a keyword DSN (user=... password='...'), so
// that it is one value inside quotes and outside them.
func escapeKeyword(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte("\\' \t\n\r\v\f", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// itoa writes a number that a server answered with.
func itoa[N ~int | ~uint16](n N) string { return strconv.Itoa(int(n)) }
