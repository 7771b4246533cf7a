package vault

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/leasesvc/leasesvc/secret"
)

const (
	maxMessages     = 5
	maxMessageBytes = 300
)

var redactions = []struct {
	pattern *regexp.Regexp
	by      string
}{
	// Service, batch and recovery tokens, old and new style, and signed ones.
	{regexp.MustCompile(`\b(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*`), secret.Redacted},
	// A JWT, in part or whole.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`), secret.Redacted},
	// The user and password of a URL, as in a database's connection string.
	{regexp.MustCompile(`://[^/\s"'@]*:[^\s"']*@`), "://" + secret.Redacted + "@"},
	// PASSWORD 'x', password=x, token: "x".
	{regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;}]+)`), "$1$2" + secret.Redacted},
	{regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token)(\s+)("[^"]*"|'[^']*')`), "$1$2" + secret.Redacted},
}

// redact takes out of a text of Vault's, or of the network's, what looks like a
// secret, and the given secrets themselves.
func redact(text string, known ...secret.String) string {
	for _, k := range known {
		if s := k.Reveal(); len(s) >= 4 {
			text = strings.ReplaceAll(text, s, secret.Redacted)
		}
	}
	for _, r := range redactions {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	return text
}

// Format prints what the client is of, and nothing of what it holds: fmt does
// not ask a secret in an unexported field how it wants to be printed.
func (c *Client) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "vault %s", c.cfg.Name)
}

// Format prints no token, for the reason above.
func (token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secret.Redacted) }

// Format prints no token, for the reason above.
func (tokenGrant) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secret.Redacted) }

// Format prints no wrapping token and no secret id, for the reason above.
func (unwrapped) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secret.Redacted) }

// Format prints no token, for the reason above.
func (rq request) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, rq.op) }

// bounded gives messages fit for an error or an event: redacted, on one line,
// few and short. Redaction comes before the cut, so that no half of a token stays.
func bounded(messages []string, known ...secret.String) []string {
	var out []string
	for _, m := range messages {
		if len(out) == maxMessages {
			break
		}
		if len(m) > 64<<10 {
			m = m[:64<<10]
		}
		m = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r == utf8.RuneError {
				return ' '
			}
			return r
		}, redact(m, known...))
		m = strings.Join(strings.Fields(m), " ")
		if len(m) > maxMessageBytes {
			cut := maxMessageBytes
			for !utf8.RuneStart(m[cut]) {
				cut--
			}
			m = m[:cut] + "..."
		}
		if m != "" {
			out = append(out, m)
		}
	}
	return out
}
