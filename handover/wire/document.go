package wire

import (
	"encoding/json"
	"errors"
	"log/slog"
)

// OpDocument reads a settings document; the name in the subject is the
// document's.
const OpDocument Operation = "document"

// DocumentHintSubject is where the holder tells that a document may have
// changed: a hint to ask, never an authority.
func DocumentHintSubject(scope, name string) string {
	return Prefix + ".document-changed." + scope + "." + name
}

// GetDocument asks for a settings document with the values in it. The answer is
// sealed to XKey. Like [Get] it is not signed.
type GetDocument struct {
	// XKey is the caller's public curve key.
	XKey string `json:"xkey"`
	// Partial takes a document in which some places have no value yet, too.
	Partial bool   `json:"partial,omitempty"`
	Nonce   string `json:"nonce"`
	// ServiceKeys are as in [Get].
	ServiceKeys []string `json:"service_keys,omitempty"`
}

// Type implements [Body].
func (GetDocument) Type() string { return "get-document" }

func (g GetDocument) check() error {
	if !IsPublicXKey(g.XKey) {
		return malformed("xkey is no public curve key")
	}
	return errors.Join(checkNonce(g.Nonce), checkPinned(g.ServiceKeys))
}

// Document answers a [GetDocument], sealed.
type Document struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	// Nonce is that of the [GetDocument].
	Nonce    string `json:"nonce"`
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Content is the document with committed values in place of its references,
	// null where there is none (Partial).
	Content Values `json:"content"`
	// Places are the places that leases fill or may fill, so that a consumer can
	// put the values of a candidate there, and those that have no value; by path.
	Places []Place `json:"places,omitempty"`
	// Leases are the numbers of the committed leases that stand in it, by name.
	Leases map[string]uint64 `json:"leases,omitempty"`
	// Incomplete tells that some places have no value.
	Incomplete bool `json:"incomplete,omitempty"`
	// GoodFor is how long the caller may rely on it before it asks again.
	GoodFor Seconds `json:"good_for_s"`
	// ExpiresIn is what is left of the lease that ends first; absent when none
	// does.
	ExpiresIn *Seconds `json:"expires_in_s,omitempty"`
}

// Place is one place of a document that a lease fills.
type Place struct {
	// Path is as docs/documents.md has it.
	Path string `json:"path"`
	// Chain are the references that stand there, in order of preference.
	Chain []string `json:"chain"`
	// By is the one whose value stands there; empty: none does.
	By string `json:"by,omitempty"`
}

// Type implements [Body].
func (Document) Type() string { return "document" }

func (d Document) check() error {
	if err := place(d.Scope, d.Name); err != nil {
		return err
	}
	if d.Revision == 0 || !json.Valid(d.Content) {
		return malformed("no revision or no content")
	}
	for _, p := range d.Places {
		if err := errors.Join(checkText("a path", p.Path, 2048), checkText("by", p.By, 1024)); err != nil {
			return err
		}
	}
	return checkNonce(d.Nonce)
}

// LogValue implements slog.LogValuer: never the content.
func (d Document) LogValue() slog.Value {
	return slog.GroupValue(slog.String("scope", d.Scope), slog.String("document", d.Name),
		slog.Uint64("epoch", d.Epoch), slog.Uint64("revision", d.Revision))
}
