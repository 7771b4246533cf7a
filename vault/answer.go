package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/leasesvc/leasesvc/secret"
)

const (
	// maxBody bounds every answer; the largest secret that Vault itself takes is far below.
	maxBody = 8 << 20
	// maxDepth bounds the nesting of an answer.
	maxDepth = 64
	// maxID bounds a lease id or an accessor.
	maxID = 4 << 10
)

var errBodyTooLarge = fmt.Errorf("the answer is larger than %d bytes", maxBody)

// answer is a definite answer of the server, 2xx, before it was understood.
type answer struct {
	status int
	body   []byte
	sentAt time.Time // before the first byte was sent
	// serverTime is the server's clock, to the second; zero where it did not say.
	serverTime time.Time
}

// foreign tells whether a 2xx answer has a body that can't be the API's: the page
// of a portal or a proxy that stands where the server should. Nothing at all is
// an answer that the API gives.
func (a answer) foreign() bool {
	body := bytes.TrimSpace(a.body)
	return len(body) > 0 && body[0] != '{'
}

// envelope is what every answer of the API looks like.
type envelope struct {
	leaseID   string
	duration  Duration
	suspect   string
	renewable bool
	data      json.RawMessage // nil when absent or null
	auth      json.RawMessage // nil when absent or null
	wrapped   bool
	warnings  []string
}

// parse reads an answer's envelope. Its errors name fields and positions,
// never content.
func (a answer) parse(known ...secret.String) (envelope, error) {
	var e envelope
	fields, err := readObject(a.body)
	if err != nil {
		return e, err
	}
	if e.leaseID, err = readText("lease_id", fields["lease_id"]); err != nil {
		return e, err
	}
	if err = checkID("lease_id", e.leaseID); err != nil {
		return e, err
	}
	e.duration, e.suspect = readDuration("lease_duration", fields["lease_duration"])
	if e.renewable, err = readBool("renewable", fields["renewable"]); err != nil {
		return e, err
	}
	e.data, e.auth = present(fields["data"]), present(fields["auth"])
	e.wrapped = present(fields["wrap_info"]) != nil
	if w := present(fields["warnings"]); w != nil {
		var warnings []string
		if err := json.Unmarshal(w, &warnings); err != nil {
			return e, errors.New("warnings is not a list of texts")
		}
		e.warnings = bounded(warnings, known...)
	}
	return e, nil
}

// object reads data as an object, which it must be.
func (e envelope) object(what string, raw json.RawMessage) (map[string]json.RawMessage, error) {
	if raw == nil {
		if e.wrapped {
			return nil, errors.New("the answer is response-wrapped; remove the policy's wrapping TTL for this path")
		}
		return nil, fmt.Errorf("the answer has no %s", what)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object", what)
	}
	return fields, nil
}

func present(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

func readText(field string, raw json.RawMessage) (string, error) {
	if present(raw) == nil {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s is not a text", field)
	}
	return s, nil
}

func readBool(field string, raw json.RawMessage) (bool, error) {
	if present(raw) == nil {
		return false, nil
	}
	var b bool
	if err := json.Unmarshal(raw, &b); err != nil {
		return false, fmt.Errorf("%s is not true or false", field)
	}
	return b, nil
}

func checkID(field, id string) error {
	if len(id) > maxID {
		return fmt.Errorf("%s has %d bytes, at most %d are taken", field, len(id), maxID)
	}
	for _, r := range id {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("%s has a control character", field)
		}
	}
	return nil
}

func sortedKeys(fields map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readObject reads a whole document strictly (C57) and gives its top level by
// exact names; encoding/json alone takes duplicate keys, any case of a name and
// broken characters, and so would hide what came.
func readObject(body []byte) (map[string]json.RawMessage, error) {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return nil, errors.New("the answer is empty")
	case !utf8.Valid(body):
		return nil, errors.New("the answer is not valid UTF-8")
	}
	if at, ok := loneSurrogate(body); ok {
		return nil, fmt.Errorf("the answer has half of a character at byte %d", at)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := checkValue(dec, 0); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the answer goes on after its end at byte %d", dec.InputOffset())
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, errors.New("the answer is not a JSON object")
	}
	return fields, nil
}

func checkValue(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the answer is nested deeper than %d at byte %d", maxDepth, dec.InputOffset())
	}
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("the answer is not valid JSON at byte %d", dec.InputOffset())
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return fmt.Errorf("the answer is not valid JSON at byte %d", dec.InputOffset())
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("the answer has the key %.64q twice, at byte %d", redact(name), dec.InputOffset())
			}
			seen[name] = true
		}
		if err := checkValue(dec, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("the answer is not valid JSON at byte %d", dec.InputOffset())
	}
	return nil
}

// loneSurrogate finds a \uD800-\uDFFF escape without its other half, which
// encoding/json turns into another character without a word.
func loneSurrogate(body []byte) (int, bool) {
	unit := func(i int) (rune, bool) {
		if i+6 > len(body) || body[i] != '\\' || body[i+1] != 'u' {
			return 0, false
		}
		var r rune
		for _, c := range body[i+2 : i+6] {
			d := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
			if d < 0 {
				return 0, false
			}
			r = r<<4 | rune(d)
		}
		return r, true
	}
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		switch {
		case !ok:
			i++ // another escape: skip what is escaped, it may be a backslash
		case r >= 0xDC00 && r <= 0xDFFF:
			return i, true
		case r >= 0xD800 && r <= 0xDBFF:
			low, ok := unit(i + 6)
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return i, true
			}
			i += 11
		default:
			i += 5
		}
	}
	return 0, false
}
