package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

// Document is a settings document with committed values in place of its
// references. It prints without its content.
type Document struct {
	Scope, Name string
	Revision    uint64
	// Places are the places that leases fill or may fill (where the values of a
	// candidate go that the document does not have yet), and those without a value.
	Places []DocumentPlace
	// Leases are the numbers of the committed leases that stand in it, by name.
	Leases map[string]uint64
	// Incomplete tells that some places have no value (null stands there).
	Incomplete bool
	// GoodUntil is how long it may be relied on before it is asked for again.
	GoodUntil time.Time
	// ExpiresAt is when the lease ends that ends first; zero: none does.
	ExpiresAt time.Time

	content secret.String
}

// DocumentPlace is a place of a document that a lease fills or may fill.
type DocumentPlace struct {
	// Path is typed, as docs/documents.md has it: servers[0].password.
	Path string
	// Chain are the references that stand there, in order of preference.
	Chain []string
	// By is the one whose value stands there; empty: none does.
	By string
}

// JSON gives the content as JSON.
func (d Document) JSON() secret.String { return d.content }

// Decode decodes the content, numbers as in encoding/json, into v. Its errors do
// not quote it.
func (d Document) Decode(v any) error {
	if err := json.Unmarshal([]byte(d.content.Reveal()), v); err != nil {
		return fmt.Errorf("decoding %s: its shape is another one", d)
	}
	return nil
}

// String says which document it is.
func (d Document) String() string {
	return fmt.Sprintf("document %s/%s revision %d", d.Scope, d.Name, d.Revision)
}

// Format implements fmt.Formatter: every verb gives [Document.String].
func (d Document) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(d.String())) }

// LogValue implements slog.LogValuer, without the content.
func (d Document) LogValue() slog.Value { return slog.StringValue(d.String()) }

// Document asks for a settings document with the values in it, as [Client.Get]
// asks for a credential: [ErrUnknownName] (no such document), [ErrNone] (a place
// has no value yet), [ErrExpired] and the others.
func (c *Client) Document(ctx context.Context, name string) (Document, error) {
	return c.document(ctx, name, false)
}

// PartialDocument is Document that takes one in which places have no value yet,
// for consumers who are about to get it by a hand-over.
func (c *Client) PartialDocument(ctx context.Context, name string) (Document, error) {
	return c.document(ctx, name, true)
}

func (c *Client) document(ctx context.Context, name string, partial bool) (Document, error) {
	if err := wire.CheckToken("document", name); err != nil {
		return Document{}, err
	}
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return Document{}, err
	}
	defer done()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, getTimeout)
		defer cancel()
	}
	again := pace{first: 100 * time.Millisecond, last: time.Second}
	for {
		d, err := c.documentOnce(ctx, name, partial)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return d, err
		}
		if !sleep(ctx, again.next()) {
			return Document{}, err
		}
	}
}

func (c *Client) documentOnce(ctx context.Context, name string, partial bool) (Document, error) {
	fail := func(err error) (Document, error) {
		return Document{}, fmt.Errorf("reading document %s/%s: %w", c.opts.Scope, name, err)
	}
	serviceKeys, err := c.serviceKeys(ctx)
	if err != nil {
		return fail(err)
	}
	nonce := wire.NewNonce()
	data, err := wire.Encode(wire.GetDocument{XKey: c.xkey, Partial: partial, Nonce: nonce, ServiceKeys: c.trust.pinned})
	if err != nil {
		return fail(err)
	}
	request := nats.NewMsg(wire.Subject(wire.OpDocument, c.opts.Scope, name))
	request.Data = data
	asked := time.Now() // what is left counts from before the request was sent
	var got wire.Document
	err = c.ask(ctx, request, func(data []byte) (err error) {
		got, err = open[wire.Document](c.box.Open, serviceKeys, data)
		if err == nil && (got.Nonce != nonce || got.Scope != c.opts.Scope || got.Name != name) {
			err = errors.New("an answer to something else")
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	if !c.latest.admit("document "+name, got.Epoch, got.Revision) {
		return fail(fmt.Errorf("%w: an answer from before what is known (epoch %d, revision %d)", ErrUnavailable, got.Epoch, got.Revision))
	}
	d := Document{
		Scope: got.Scope, Name: got.Name, Revision: got.Revision, Leases: maps.Clone(got.Leases), Incomplete: got.Incomplete,
		GoodUntil: asked.Add(got.GoodFor.Duration()), ExpiresAt: expiry(asked, got.ExpiresIn), content: secret.New(string(got.Content)),
	}
	for _, p := range got.Places {
		d.Places = append(d.Places, DocumentPlace(p))
	}
	return d, nil
}

// DocumentChanges gives something whenever a document may have changed, until ctx
// ends; then the channel is closed. It is a hint to ask, never an authority, and
// one can be missed: ask at a pace, too.
func (c *Client) DocumentChanges(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := wire.CheckToken("document", name); err != nil {
		return nil, err
	}
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	hints := make(chan *nats.Msg, 16)
	sub, err := c.nc.ChanSubscribe(wire.DocumentHintSubject(c.opts.Scope, name), hints)
	if err != nil {
		done()
		return nil, fmt.Errorf("watching document %s/%s: %w", c.opts.Scope, name, err)
	}
	out := make(chan struct{}, 1)
	go func() {
		defer done()
		defer close(out)
		defer func() { _ = sub.Unsubscribe() }()
		for {
			select {
			case <-hints:
				select {
				case out <- struct{}{}:
				default: // one that waits says as much as many
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
