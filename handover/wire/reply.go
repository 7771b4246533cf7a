package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leasesvc/leasesvc/secret"
)

// Verdict is an incarnation's answer to a message.
type Verdict string

// The verdicts. Anything else is vague, and a vague answer is no yes (L14).
const (
	// Yes, to a prepare: new sessions are proven open with the candidate and
	// new work goes there.
	Yes Verdict = "yes"
	// No: it did not work, the reason says why. To a follow or revert it
	// means "not yet": only a confirmation counts.
	No Verdict = "no"
	// Confirmed, to a follow or revert: no session of any other lease is in
	// use any more.
	Confirmed Verdict = "confirmed"
	// Stale: something with a higher n, or of a higher epoch, was taken
	// before; LastN says which.
	Stale Verdict = "stale"
)

// Answers tells whether v is an answer to a message of kind k.
func (v Verdict) Answers(k Kind) bool {
	switch v {
	case Yes:
		return k == KindPrepare
	case Confirmed:
		return k == KindFollow || k == KindRevert
	case No, Stale:
		return k.Known()
	}
	return false
}

// MaxReason bounds a reason, in bytes.
const MaxReason = 200

// Reply is an incarnation's answer to a [Message], signed with the consumer's
// nkey. It counts for the (epoch, n, kind) that it repeats and for nothing
// else (P8).
type Reply struct {
	Scope       string  `json:"scope"`
	Name        string  `json:"name"`
	Incarnation string  `json:"incarnation"`
	Epoch       uint64  `json:"epoch"`
	N           uint64  `json:"n"`
	Kind        Kind    `json:"kind"`
	Verdict     Verdict `json:"verdict"`
	// Reason says why not, at most [MaxReason] bytes, without any value of
	// the credential (see [Reason]).
	Reason string `json:"reason,omitempty"`
	// LastN is the highest n that the incarnation has taken.
	LastN uint64 `json:"last_n"`
}

// Type implements [Body].
func (Reply) Type() string { return "reply" }

// check does not look at the verdict: what is vague must still be seen to come
// from whom it comes.
func (r Reply) check() error {
	if err := place(r.Scope, r.Name); err != nil {
		return err
	}
	if err := CheckIncarnation(r.Incarnation); err != nil {
		return malformed("%w", err)
	}
	return errors.Join(
		checkText("kind", string(r.Kind), 40),
		checkText("verdict", string(r.Verdict), 40),
		checkText("reason", r.Reason, MaxReason))
}

// Reason gives an error's text as it may leave the process: without any of
// the values (plain, quoted, or escaped for a URL), without control
// characters, at most [MaxReason] bytes. Public values stay.
func Reason(err error, values Values, public string) string {
	if err == nil {
		return ""
	}
	var pairs []string
	for _, v := range valueTexts(values) {
		if v == "" || v == public {
			continue
		}
		for _, form := range []string{v, strings.Trim(strconv.Quote(v), `"`), jsonText(v), url.QueryEscape(v), url.PathEscape(v)} {
			if form != "" {
				pairs = append(pairs, form, secret.Redacted)
			}
		}
	}
	// One pass, longest first: what was put in is not looked at again.
	text := strings.NewReplacer(pairs...).Replace(err.Error())
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > MaxReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s // it does not happen: a text is always JSON
	}
	return strings.Trim(string(b), `"`)
}

// valueTexts lists every text in values, the longest first, so that a value
// that holds another is redacted as a whole.
func valueTexts(values Values) []string {
	var tree any
	dec := json.NewDecoder(bytes.NewReader(values))
	dec.UseNumber()
	if dec.Decode(&tree) != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case json.Number:
			if len(v) > 2 { // a PIN, not the last digit of a port
				out = append(out, v.String())
			}
		}
	}
	walk(tree)
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}
