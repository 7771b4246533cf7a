package leasecore

import (
	"errors"
	"fmt"
	"maps"

	"github.com/leasesvc/leasesvc/events"
)

// MaxDocuments bounds the settings documents of a scope.
const MaxDocuments = 1024

// Document is what the log says of a settings document. Its content is a sealed
// blob, and what its references stand for is the holder's matter.
type Document struct {
	Revision uint64
	Blob     string
	// Definitions and Fingerprint are of the content that came last from a
	// definitions file; 0: none did.
	Definitions uint64
	Fingerprint string
}

// ErrDocuments says that the scope has as many settings documents as it may.
var ErrDocuments = fmt.Errorf("the scope has %d settings documents, which is the limit", MaxDocuments)

// ErrDocumentRevision says that a document has another revision than an update
// was made from.
var ErrDocumentRevision = errors.New("the document has another revision")

// UpdateDocument records a change of a settings document that was validated and
// whose content is sealed away (L42).
type UpdateDocument struct {
	Name string
	// Expected is the revision that the document must have, 0 for none.
	Expected uint64
	// Keep records a change of what its references stand for: revision and blob
	// stay.
	Keep bool
	// Updated has the rest; its revision is ours to say.
	Updated events.Updated
}

// RejectDocument records that an update was refused, and why.
type RejectDocument struct {
	Name     string
	Expected uint64
	Failure  events.Failure
}

func (UpdateDocument) command() {}
func (RejectDocument) command() {}

func (w *decision) updateDocument(c UpdateDocument) error {
	was, there := w.h.Documents[c.Name]
	switch {
	case was.Revision != c.Expected:
		return fmt.Errorf("%w: %s has %d, expected was %d", ErrDocumentRevision, c.Name, was.Revision, c.Expected)
	case c.Keep && !there:
		return fmt.Errorf("%w: there is no document %s", ErrDocumentRevision, c.Name)
	case !there && len(w.h.Documents) >= MaxDocuments:
		return ErrDocuments
	}
	u := c.Updated
	if u.Revision = c.Expected + 1; c.Keep {
		u.Revision, u.Blob = c.Expected, was.Blob
	}
	w.emit(c.Name, 0, &u)
	return nil
}

func (w *decision) rejectDocument(c RejectDocument) {
	w.emit(c.Name, 0, &events.Rejected{Failure: c.Failure, Revision: c.Expected + 1})
}

func applyUpdated(t target, e *events.Event, d *events.Updated) (why string) {
	h := t.head()
	was := h.Documents[e.Name]
	kept := was.Revision == d.Revision && was.Blob == d.Blob && was.Revision > 0
	if d.Revision != was.Revision+1 && !kept {
		return fmt.Sprintf("the document has revision %d, the event %d", was.Revision, d.Revision)
	}
	next := Document{Revision: d.Revision, Blob: d.Blob, Definitions: was.Definitions, Fingerprint: was.Fingerprint}
	if d.Definitions > 0 {
		next.Definitions, next.Fingerprint = d.Definitions, d.Fingerprint
	}
	all := make(map[string]Document, len(h.Documents)+1)
	maps.Copy(all, h.Documents)
	all[e.Name] = next
	h.Documents = all
	return ""
}
