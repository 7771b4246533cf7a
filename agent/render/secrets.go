package render

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// leastSecret is the length from which a value is looked for in texts: below it
// "1" and "no" would make every line unreadable.
const leastSecret = 4

// Hidden are the values that must not show in a text. It prints without them.
type Hidden struct{ values []secret.String }

// Secrets gives the values of content, and what they look like quoted, escaped and
// encoded. All texts and numbers count, also those that only look like settings:
// which are secret, nobody says.
func Secrets(contents ...any) Hidden {
	all := map[string]bool{}
	for _, c := range contents {
		collect(all, c)
	}
	var h Hidden
	for v := range all {
		h.values = append(h.values, secret.New(v))
	}
	// Longer ones first: one may stand within another.
	slices.SortFunc(h.values, func(a, b secret.String) int {
		x, y := a.Reveal(), b.Reveal()
		if len(x) != len(y) {
			return len(y) - len(x)
		}
		return strings.Compare(x, y)
	})
	return h
}

func collect(all map[string]bool, x any) {
	switch x := x.(type) {
	case map[string]any:
		for _, v := range x {
			collect(all, v)
		}
	case []any:
		for _, v := range x {
			collect(all, v)
		}
	case json.Number:
		collect(all, x.String())
	case string:
		if len(x) < leastSecret {
			return
		}
		quoted, err := json.Marshal(x)
		if err == nil {
			all[string(quoted[1:len(quoted)-1])] = true
		}
		for _, form := range []string{
			x, url.QueryEscape(x), url.PathEscape(x), strings.ReplaceAll(x, "'", `'\''`),
			base64.StdEncoding.EncodeToString([]byte(x)), base64.URLEncoding.EncodeToString([]byte(x)), base64.RawURLEncoding.EncodeToString([]byte(x)),
		} {
			all[form] = true
		}
		for line := range strings.Lines(x) { // a key over several lines is printed line by line
			if line = strings.TrimSpace(line); len(line) >= leastSecret {
				all[line] = true
			}
		}
	}
}

// Redact replaces every value in a text.
func (h Hidden) Redact(text string) string {
	for _, v := range h.values {
		if strings.Contains(text, v.Reveal()) {
			text = strings.ReplaceAll(text, v.Reveal(), secret.Redacted)
		}
	}
	return text
}

// Longest is the length of the longest value, in bytes: who cuts a text must drop
// so many bytes before the cut, which may begin a value.
func (h Hidden) Longest() int {
	if len(h.values) == 0 {
		return 0
	}
	return len(h.values[0].Reveal())
}

// String implements fmt.Stringer without any value.
func (h Hidden) String() string { return secret.Redacted }

// GoString implements fmt.GoStringer without any value.
func (h Hidden) GoString() string { return secret.Redacted }
