package config

import (
	"regexp"
	"strings"
)

// about is what the documentation and the JSON Schemas say of a key beyond what its
// shape knows: an example that is read as it stands, and what the key is, in Markdown.
// docs/configuration.md and docs/agent.md have their tables from here (make golden).
type about struct{ example, text string }

// An aboutFile has what is said of the keys of one kind of file.
type aboutFile map[string]about

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain gives the text of a key without Markdown, for editors; "" where there is none.
func (f aboutFile) plain(key string) string {
	text := markdownLink.ReplaceAllString(f[key].text, "$1")
	return strings.NewReplacer("`", "", `\|`, "|").Replace(text)
}
