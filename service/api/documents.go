package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// The operations on settings documents. Reading one with its values is part of
// the protocol with consumers (wire.OpDocument).
const (
	OpDocumentPut  = "document-put"
	OpDocumentShow = "document-show"
	OpDocumentList = "document-list"
)

// DocumentUpdate changes a settings document; it is sealed as a whole to the
// service's key.
type DocumentUpdate struct {
	// Expected is the revision that the document must have; 0: it must not be
	// there yet.
	Expected uint64 `json:"expected"`
	// Content replaces the whole; empty: it stays. Assign changes places one by
	// one. With neither its references are resolved anew.
	Content json.RawMessage      `json:"content,omitempty"`
	Assign  []DocumentAssignment `json:"assign,omitempty"`
	// Consumer says as which consumer somebody asks who takes part in hand-overs
	// (L43); empty for everybody else.
	Consumer string `json:"consumer,omitempty"`
	// Until bounds how long the sealed message may be used.
	Until time.Time `json:"until"`
}

// DocumentAssignment puts a JSON value at a path.
type DocumentAssignment struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// LogValue implements slog.LogValuer: never the content.
func (u DocumentUpdate) LogValue() slog.Value { return slog.StringValue("update of a document") }

// DocumentDone answers an update.
type DocumentDone struct {
	Name     string `json:"name"`
	Revision uint64 `json:"revision"`
	// Paths are the places that differ from before; none: nothing changed, and
	// there is no new revision.
	Paths []string `json:"paths"`
}

// DocumentShown is a document as it is written, its plain values redacted.
type DocumentShown struct {
	Name     string          `json:"name"`
	Revision uint64          `json:"revision"`
	Content  json.RawMessage `json:"content"`
	Places   []DocumentPlace `json:"places,omitempty"`
}

// DocumentPlace is a place that references fill.
type DocumentPlace struct {
	Path  string   `json:"path"`
	Chain []string `json:"chain"`
	// By is the reference whose value stands there, Problem why none does.
	By      string `json:"by,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Documents is a scope's list.
type Documents struct {
	Scope     string        `json:"scope"`
	Documents []DocumentRow `json:"documents"`
}

// DocumentRow is one document.
type DocumentRow struct {
	Name     string `json:"name"`
	Revision uint64 `json:"revision"`
	// Definitions is the revision of the definitions file that its content came
	// from last; 0: it came by the API.
	Definitions uint64 `json:"definitions,omitempty"`
}

// UpdateDocument changes a settings document, sealed to the service's public key.
func (c *Client) UpdateDocument(ctx context.Context, scope, name, serviceKey string, u DocumentUpdate) (DocumentDone, error) {
	m, err := sealed(Subject(OpDocumentPut, scope, name), serviceKey, u)
	if err != nil {
		return DocumentDone{}, fmt.Errorf("updating document %s: %w", name, err)
	}
	return send[DocumentDone](ctx, c, m)
}

// ShowDocument gives a document without its values.
func (c *Client) ShowDocument(ctx context.Context, scope, name string) (DocumentShown, error) {
	return ask[DocumentShown](ctx, c, Subject(OpDocumentShow, scope, name))
}

// Documents lists a scope's documents.
func (c *Client) Documents(ctx context.Context, scope string) (Documents, error) {
	return ask[Documents](ctx, c, Subject(OpDocumentList, scope))
}

// sealed makes a request whose body only the service can read, sealed by a key of
// this call's own.
func sealed(subject, serviceKey string, body any) (*nats.Msg, error) {
	own, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, fmt.Errorf("making a key to seal with: %w", err)
	}
	defer own.Wipe()
	public, err := own.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("making a key to seal with: %w", err)
	}
	plain, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding what is to be sealed: %w", err)
	}
	data, err := own.Seal(plain, serviceKey)
	if err != nil {
		return nil, fmt.Errorf("sealing to the service's key: %w", err)
	}
	m := nats.NewMsg(subject)
	m.Header.Set(HeaderXKey, public)
	m.Data = data
	return m, nil
}
