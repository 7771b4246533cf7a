package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
)

// documentOps are the endpoints of the settings documents.
func (e *endpoints) documentOps() map[string]func(context.Context, micro.Request) {
	t := e.term
	return map[string]func(context.Context, micro.Request){
		wire.Subject(wire.OpDocument, t.name, "*"):   e.document,
		api.Subject(api.OpDocumentPut, t.name, "*"):  e.putDocument,
		api.Subject(api.OpDocumentShow, t.name, "*"): e.showDocument,
		api.Subject(api.OpDocumentList, t.name):      e.listDocuments,
	}
}

func (e *endpoints) document(ctx context.Context, r micro.Request) {
	body, err := e.gotDocument(ctx, r)
	e.tellAll(r, body, documentRefusal(err))
}

// documentRefusal says an error about a document in the protocol's words.
func documentRefusal(err error) error {
	switch {
	case errors.Is(err, document.ErrNoDocument):
		return wire.Refusal{Code: wire.CodeUnknownName, Message: "there is no such document"}
	case errors.Is(err, document.ErrExpired):
		return wire.Refusal{Code: wire.CodeExpired, Message: clipText(err.Error(), 400)}
	case errors.Is(err, document.ErrUnresolved), errors.Is(err, document.ErrUnknown), errors.Is(err, document.ErrPending):
		return wire.Refusal{Code: wire.CodeNone, Message: clipText(err.Error(), 400)}
	case errors.Is(err, document.ErrLifecycleEnded):
		return errNotLeading
	}
	return err
}

func (e *endpoints) gotDocument(ctx context.Context, r micro.Request) ([][]byte, error) {
	ask, err := wire.Decode[wire.GetDocument](r.Data())
	if err != nil {
		return nil, wire.Refusal{Code: wire.CodeMalformed, Message: err.Error()}
	}
	t, name := e.term, nameOf(r)
	view, leases, err := t.documents.viewInForce(ctx, name)
	if err != nil {
		return nil, err
	}
	missing := view.Missing()
	if missing != nil && !ask.Partial {
		return nil, missing
	}
	if t.over() || t.svc.cells.FreshEnough(time.Now()) != nil {
		return nil, errNotLeading // what we see may be over (E21)
	}
	out := wire.Document{
		Scope: t.name, Name: name, Nonce: ask.Nonce, Epoch: t.epoch, Revision: view.Revision(), Content: wire.Values(view.Encode()),
		Leases: map[string]uint64{}, Incomplete: missing != nil, GoodFor: wire.SecondsOf(minGoodFor),
	}
	now := t.svc.clock.Now().UnixNano()
	for _, u := range view.Uses {
		if place, ok := leasePlace(u); ok {
			out.Places = append(out.Places, place)
		}
		if u.By == nil || u.By.Scheme != document.Lease {
			continue
		}
		v := leases[u.By.Name]
		out.Leases[u.By.Name] = v.lease
		out.GoodFor = min(out.GoodFor, wire.SecondsOf(v.definition.GoodFor.Duration()))
		if left := v.expiresIn(now); left > 0 && (out.ExpiresIn == nil || wire.SecondsOf(left) < *out.ExpiresIn) {
			in := wire.SecondsOf(left)
			out.ExpiresIn = &in
		}
	}
	if e.leaving.Load() {
		if out.GoodFor -= wire.SecondsOf(2 * lingers); out.GoodFor <= 0 {
			return nil, errNotLeading
		}
	}
	if out.ExpiresIn != nil {
		out.GoodFor = min(out.GoodFor, *out.ExpiresIn)
	}
	return t.sealFor(ask.XKey, ask.ServiceKeys, out)
}

// leasePlace describes a place that a lease fills or could fill, or that has no
// value.
func leasePlace(u document.Filled) (wire.Place, bool) {
	p := wire.Place{Path: u.Path.String()}
	found := u.By == nil
	for _, ref := range u.Chain {
		p.Chain = append(p.Chain, ref.String())
		found = found || ref.Scheme == document.Lease
	}
	if u.By != nil {
		p.By = u.By.String()
	}
	return p, found
}

// viewInForce gives a document as it is once every lease that is committed stands
// in it, and the views of those leases. What it promises its reader rests on that:
// the store must not lag behind what a get would answer.
func (d *documents) viewInForce(ctx context.Context, name string) (document.View, map[string]*view, error) {
	if err := d.ready(ctx); err != nil {
		return document.View{}, nil, err
	}
	for {
		doc, err := d.store.Document(name)
		if err != nil {
			return document.View{}, nil, err
		}
		if err := d.isLost(doc); err != nil {
			return document.View{}, nil, err
		}
		if err := d.awaitInForce(ctx, doc.Leases()); err != nil {
			return document.View{}, nil, err
		}
		fetched, err := d.fetch(ctx, doc)
		if err != nil {
			d.t.log.Info("what a settings document refers to can't be read now", "document", name, "error", err)
		}
		leases := map[string]*view{}
		for _, lease := range doc.Leases() {
			leases[lease] = d.t.views.get(lease)
		}
		seen, err := d.store.View(name, d.reader(fetched))
		if err != nil {
			return document.View{}, nil, err
		}
		if d.areInForce(leases) && seen.Revision() == doc.Revision() {
			return seen, leases, nil
		}
		if ctx.Err() != nil {
			return document.View{}, nil, fmt.Errorf("document %s: %w", name, busy(againSoon, "leases change too fast to read it"))
		}
	}
}

func leaseOf(v *view) uint64 {
	if v == nil {
		return 0
	}
	return v.lease
}

// areInForce tells whether what stands in the store is what the views have, still.
func (d *documents) areInForce(leases map[string]*view) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, v := range leases {
		if now := d.t.views.get(name); leaseOf(now) != leaseOf(v) || d.inForce[name] != leaseOf(v) {
			return false
		}
	}
	return true
}

func (d *documents) awaitInForce(ctx context.Context, leases []string) error {
	for {
		d.mu.Lock()
		changed, behind := d.changed, ""
		for _, name := range leases {
			no, known := d.inForce[name]
			if !known || no != leaseOf(d.t.views.get(name)) {
				behind = name
			}
		}
		d.mu.Unlock()
		if behind == "" {
			return nil
		}
		d.look(behind)
		select {
		case <-changed:
		case <-time.After(documentsRest):
		case <-ctx.Done():
			return busy(againLater, "the documents do not have what is committed for %s yet", behind)
		case <-d.t.ended:
			return errNotLeading
		}
	}
}

// putDocument changes a document; what is sent is sealed to the service's key.
func (e *endpoints) putDocument(ctx context.Context, r micro.Request) {
	t := e.term
	sent, err := e.openDocumentUpdate(r)
	if err != nil {
		e.refuse(r, fmt.Errorf("document %s: %w", nameOf(r), err))
		return
	}
	u, err := updateOf(nameOf(r), sent)
	var change document.Change
	if err == nil {
		change, err = t.documents.update(ctx, u, source{}, operator(api.OpDocumentPut))
	}
	if err != nil {
		t.documents.reject(u, err, operator(api.OpDocumentPut))
		e.refuse(r, documentProblem(err))
		return
	}
	e.respond(r, api.DocumentDone{Name: u.Document, Revision: change.Document.Revision(), Paths: pathTexts(change.Paths)})
}

func (e *endpoints) openDocumentUpdate(r micro.Request) (api.DocumentUpdate, error) {
	var u api.DocumentUpdate
	plain, err := e.term.svc.keys.Open(r.Headers().Get(api.HeaderXKey), r.Data())
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(plain, &u); err != nil {
		return u, errors.New("the update can't be read") // its text may hold values
	}
	if u.Until.Before(e.term.svc.clock.Now()) {
		return u, errors.New("the update is past its time; send it anew")
	}
	return u, nil
}

// updateOf reads the trees and paths of an update.
func updateOf(name string, sent api.DocumentUpdate) (document.Update, error) {
	u := document.Update{Document: name, Expected: sent.Expected, Consumer: sent.Consumer}
	if len(sent.Content) > 0 {
		content, err := document.Parse(sent.Content)
		if err != nil {
			return u, fmt.Errorf("%w: %w", document.ErrDocument, err)
		}
		u.Content = &content
	}
	for _, a := range sent.Assign {
		path, err := document.ParsePath(a.Path)
		if err != nil {
			return u, err
		}
		value, err := document.Parse(a.Value)
		if err != nil {
			return u, fmt.Errorf("assigning %s: %w", path, err)
		}
		u.Assign = append(u.Assign, document.Assignment{Path: path, Value: value})
	}
	return u, nil
}

// documentProblem gives a refusal the sentinel that [endpoints.refuse] knows.
func documentProblem(err error) error {
	switch {
	case errors.Is(err, document.ErrBusy):
		return busy(againSoon, "%v", err)
	case errors.Is(err, document.ErrLifecycleEnded):
		return fmt.Errorf("%w: %w", errNotLeading, err)
	default:
		return err
	}
}

// documentCode gives the code of a refusal about a document, and of any other
// that has no code of its own.
func documentCode(err error) string {
	switch {
	case errors.Is(err, document.ErrRevision), errors.Is(err, leasecore.ErrDocumentRevision):
		return api.CodeConflict
	case errors.Is(err, document.ErrNoDocument):
		return api.CodeUnknownName
	default:
		return api.CodeRefused
	}
}

// showDocument shows a document as it is written, its plain values redacted, and
// what fills each place.
func (e *endpoints) showDocument(ctx context.Context, r micro.Request) {
	d := e.term.documents
	if err := d.ready(ctx); err != nil {
		e.refuse(r, err)
		return
	}
	doc, err := d.store.Document(nameOf(r))
	if err != nil {
		e.refuse(r, err)
		return
	}
	if err := d.isLost(doc); err != nil {
		e.refuse(r, err)
		return
	}
	fetched, err := d.fetch(ctx, doc)
	if err != nil {
		d.t.log.Info("what a settings document refers to can't be read now", "document", doc.Name(), "error", err)
	}
	view, err := d.store.View(doc.Name(), d.reader(fetched))
	if err != nil {
		e.refuse(r, err)
		return
	}
	out := api.DocumentShown{Name: doc.Name(), Revision: view.Revision(), Content: view.Redacted()}
	for _, u := range view.Uses {
		p := api.DocumentPlace{Path: u.Path.String()}
		for _, ref := range u.Chain {
			p.Chain = append(p.Chain, ref.String())
		}
		if u.By != nil {
			p.By = u.By.String()
		} else {
			p.Problem = u.Err.Error()
		}
		out.Places = append(out.Places, p)
	}
	e.respond(r, out)
}

func (e *endpoints) listDocuments(ctx context.Context, r micro.Request) {
	list, err := e.read(ctx, func(s *leasecore.State) any {
		out := api.Documents{Scope: e.term.name, Documents: []api.DocumentRow{}}
		for _, name := range slices.Sorted(maps.Keys(s.Documents)) {
			d := s.Documents[name]
			out.Documents = append(out.Documents, api.DocumentRow{Name: name, Revision: d.Revision, Definitions: d.Definitions})
		}
		return out
	})
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, list)
}
