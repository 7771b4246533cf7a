package wire

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestDocumentOfTheProtocolsPage: what docs/protocol.md shows is what is spoken.
func TestDocumentOfTheProtocolsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), `{"v":1,"type":"document",`)
	block, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatal("docs/protocol.md shows no document")
	}
	d, err := Decode[Document]([]byte(`{"v":1,"type":"document",` + block))
	if err != nil || d.Revision != 3 || len(d.Places) != 2 || d.Places[0].By != "lease://orders-db#password" || d.Leases["orders-db"] != 12 || d.ExpiresIn == nil {
		t.Errorf("%+v, %v", d.Places, err)
	}
}

func TestDocumentMessages(t *testing.T) {
	nonce := NewNonce()
	if _, err := Encode(GetDocument{XKey: "UA", Nonce: nonce}); err == nil {
		t.Error("a key that is none passes")
	}
	d := Document{Scope: "prod", Name: "app", Nonce: nonce, Epoch: 1, Revision: 2, Content: Values(`{"p":"S3cret"}`),
		Places: []Place{{Path: "p", Chain: []string{"lease://db#password"}, By: "lease://db#password"}}}
	b, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode[Document](b)
	if err != nil || string(back.Content) != `{"p":"S3cret"}` || back.Places[0].By != d.Places[0].By {
		t.Errorf("%+v, %v", back, err)
	}
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("got", "document", d)
	if s := out.String() + fmt.Sprintf("%v %+v", d, d); strings.Contains(s, "S3cret") {
		t.Errorf("a value shows: %s", s)
	}
	for what, bad := range map[string]Document{
		"no revision": {Scope: "prod", Name: "app", Nonce: nonce, Content: Values(`{}`)},
		"no content":  {Scope: "prod", Name: "app", Nonce: nonce, Revision: 1},
		"no place":    {Scope: "p.r", Name: "app", Nonce: nonce, Revision: 1, Content: Values(`{}`)},
		"no nonce":    {Scope: "prod", Name: "app", Revision: 1, Content: Values(`{}`)},
	} {
		if _, err := Encode(bad); err == nil {
			t.Errorf("%s passes", what)
		}
	}
}
