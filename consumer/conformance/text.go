package conformance

import (
	"bytes"
	"encoding/json"
	"strings"
)

func replaceOnce(b []byte, from, to string) []byte {
	return bytes.Replace(b, []byte(from), []byte(to), 1)
}

// holds tells whether a text has one of a credential's values in it; those that
// may be logged don't count.
func holds(text string, c Credential) bool {
	var values map[string]any
	if json.Unmarshal(c.Values, &values) != nil {
		return false
	}
	for _, v := range values {
		s, ok := v.(string)
		if ok && s != "" && s != c.Public && strings.Contains(text, s) {
			return true
		}
	}
	return false
}
