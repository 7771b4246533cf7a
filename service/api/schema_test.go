package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasesvc/leasesvc/events"
)

// TestSchemaOf_TakesWhatTheTypeWritesAndRefusesOthers, for each kind of field that
// messages have.
func TestSchemaOf_TakesWhatTheTypeWritesAndRefusesOthers(t *testing.T) {
	type inner struct {
		Kind string `json:"kind"`
	}
	type message struct {
		inner
		Text    string            `json:"text"`
		Maybe   string            `json:"maybe,omitempty"`
		At      time.Time         `json:"at,omitzero"`
		TTL     events.Seconds    `json:"ttl_s"`
		N       uint64            `json:"n"`
		Share   float64           `json:"share"`
		Is      bool              `json:"is"`
		List    []inner           `json:"list"`
		Map     map[string]uint64 `json:"map"`
		Raw     json.RawMessage   `json:"raw,omitempty"`
		Bytes   []byte            `json:"bytes,omitempty"`
		Pointer *inner            `json:"pointer,omitempty"`
		Never   string            `json:"-"`
		private string
	}
	m := message{private: "x", inner: inner{"a"}, TTL: events.MustSeconds("1.5"), Raw: json.RawMessage(`{"x":[1]}`), Bytes: []byte("x"), Pointer: &inner{"b"}, At: time.Unix(1, 0)}
	text := SchemaOf(m)
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("mem:message", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:message")
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	written, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := json.Marshal(message{})
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range [][]byte{written, empty} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(good)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s is refused: %v", good, err)
		}
	}
	for what, change := range map[string][2]string{
		"a missing text": {`"text":"",`, ``}, "a number for a text": {`"text":""`, `"text":1`}, "below 0": {`"n":0`, `"n":-1`},
		"a text for a truth": {`"is":false`, `"is":"no"`}, "what is embedded": {`"kind":"a",`, ``},
	} {
		bad := strings.Replace(string(written), change[0], change[1], 1)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil || bad == string(written) {
			t.Fatalf("%s: %v", what, err)
		}
		if s.Validate(v) == nil {
			t.Errorf("%s is taken: %s", what, bad)
		}
	}
	if strings.Contains(string(text), "Never") || strings.Contains(string(text), "private") {
		t.Errorf("%s", text)
	}
	if string(SchemaOf(nil)) != `{"type":"null"}` {
		t.Errorf("of nothing: %s", SchemaOf(nil))
	}
}
