package wire

import (
	"bytes"
	"encoding/json"
	"errors"
)

// GotForm is what the answers to all gets of one credential have in common,
// encoded once; each answer is that with the asker's nonce and the times of the
// moment filled in. It is safe for concurrent use, and holds the values.
type GotForm struct{ before, between, after []byte }

// NewGotForm makes the form of g's answers; its nonce and times don't matter.
// Errors are those of [Encode].
func NewGotForm(g Got) (*GotForm, error) {
	g.Nonce, g.GoodFor, g.ExpiresIn = "to-be-filled-in", 0, nil
	whole, err := Encode(g)
	if err != nil {
		return nil, err
	}
	// Before the nonce stand two names, which can't look like it; after the time
	// stands one text, in which a quote would be escaped.
	nonce, goodFor := []byte(`"nonce":"`+g.Nonce+`"`), []byte(`"good_for_s":"0"`)
	i, j := bytes.Index(whole, nonce), bytes.LastIndex(whole, goodFor)
	if i < 0 || j < i {
		return nil, errors.New("encoding got: it has no place for a nonce and a time")
	}
	return &GotForm{before: whole[:i], between: whole[i+len(nonce) : j], after: whole[j+len(goodFor):]}, nil
}

// Fill gives what [Encode] gives of the form's [Got] with these. Errors:
// [ErrMalformed] for the nonce, [ErrTooLarge].
func (f *GotForm) Fill(nonce string, goodFor Seconds, expiresIn *Seconds) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	const times = 128 // the keys and the longest times, and the nonce's
	b := make([]byte, 0, len(f.before)+len(f.between)+len(f.after)+2*len(nonce)+times)
	b = append(b, f.before...)
	b = appendText(append(b, `"nonce":`...), nonce)
	b = append(b, f.between...)
	b = append(goodFor.appendTo(append(b, `"good_for_s":"`...)), '"')
	if expiresIn != nil {
		b = append(expiresIn.appendTo(append(b, `,"expires_in_s":"`...)), '"')
	}
	b = append(b, f.after...)
	if len(b) > MaxBytes {
		return nil, ErrTooLarge
	}
	return b, nil
}

// appendText writes a JSON text as [Encode] does.
func appendText(b []byte, s string) []byte {
	if plain(s) == len(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string can always be encoded
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// plain gives how many bytes s begins with that stand for themselves in a JSON
// text.
func plain[T string | []byte](s T) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

// scanner is a message that reads itself where it stands as [Encode] writes it;
// what it does not take is left to encoding/json.
type scanner interface{ scan(data []byte) bool }

// scan implements scanner, for a get of all keys.
func (g *Get) scan(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"v":1,"type":"get","xkey":"`))
	if !ok {
		return false
	}
	xkey, rest, ok := cutText(rest)
	if !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"nonce":"`)); !ok {
		return false
	}
	nonce, rest, ok := cutText(rest)
	if !ok {
		return false
	}
	var pinned []string
	if list, there := bytes.CutPrefix(rest, []byte(`,"service_keys":["`)); there {
		for more := true; more; {
			var key []byte
			if key, list, ok = cutText(list); !ok {
				return false
			}
			pinned = append(pinned, string(key))
			list, more = bytes.CutPrefix(list, []byte(`,"`))
		}
		if rest, ok = bytes.CutPrefix(list, []byte("]")); !ok {
			return false
		}
	}
	if string(rest) != "}" {
		return false
	}
	*g = Get{XKey: string(xkey), Nonce: string(nonce), ServiceKeys: pinned}
	return true
}

// cutText reads on to the quote that ends a plain text.
func cutText(data []byte) (text, rest []byte, ok bool) {
	n := plain(data)
	if n == len(data) || data[n] != '"' {
		return nil, nil, false
	}
	return data[:n], data[n+1:], true
}
