package secrettest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// shortest is the least length of a secret and of a form of it, in bytes: what is
// shorter would be found by chance.
const shortest = 8

// forms gives the texts that a secret may be seen as.
func forms(value string) []string {
	quoted := strconv.Quote(value)
	plainJSON, _ := json.Marshal(value) // a string can be
	out := []string{
		value, quoted[1 : len(quoted)-1], string(plainJSON[1 : len(plainJSON)-1]),
		url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
	}
	// JSON in JSON, as a log line that quotes an answer has it.
	twice, _ := json.Marshal(string(plainJSON[1 : len(plainJSON)-1]))
	out = append(out, string(twice[1:len(twice)-1]))
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			out = append(out, inBase64(enc, value, shift))
		}
	}
	if strings.Contains(value, "-----BEGIN ") {
		out = append(out, keyLines(value)...)
	}
	kept, seen := out[:0], map[string]bool{}
	for _, f := range out {
		if len(f) >= shortest && !seen[f] {
			seen[f] = true
			kept = append(kept, f)
		}
	}
	return kept
}

// inBase64 gives the part of a base64 text that depends on value alone, where value
// begins shift bytes after a multiple of three.
func inBase64(enc *base64.Encoding, value string, shift int) string {
	text := enc.EncodeToString(append(make([]byte, shift), value...))
	begin := (shift*8 + 5) / 6 // characters that hold bits of what is before
	end := (shift + len(value)) * 8 / 6
	if begin >= end {
		return ""
	}
	return text[begin:end]
}

// keyLines gives the lines of a PEM block that hold secret numbers, and all lines
// in one. The first ones are a header and, of an RSA key, the public modulus, which
// the certificate shows to everybody.
func keyLines(pem string) []string {
	var body []string
	for _, line := range strings.Split(pem, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			body = append(body, line)
		}
	}
	out := []string{strings.Join(body, "")}
	for i, line := range body {
		if i >= len(body)/2 && len(line) >= 32 {
			out = append(out, line)
		}
	}
	return out
}
