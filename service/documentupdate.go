package service

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/leasecore"
)

// source is where an update's content came from, if it was a definitions file.
type source struct {
	definitions uint64
	fingerprint string
}

// update changes a document in one transaction (L42): what it refers to is
// fetched, then the library validates, assigns and resolves, then the content is
// sealed away and the event appended, and only then it is seen.
func (d *documents) update(ctx context.Context, u document.Update, from source, actor events.Actor) (document.Change, error) {
	if err := d.ready(ctx); err != nil {
		return document.Change{}, err
	}
	publish := func(ctx context.Context, c document.Change) error { return d.publish(ctx, c, u.Expected, from, actor) }
	for tries := 1; ; tries++ {
		fetched, err := d.prepareUpdate(ctx, u)
		if err != nil {
			return document.Change{}, err
		}
		change, err := d.store.Update(ctx, u, d.reader(fetched), publish)
		if errors.Is(err, errNotRead) && tries < maxReads {
			continue // another lease was committed meanwhile, and is read now
		}
		if err == nil && len(change.Paths) > 0 {
			for _, lease := range change.Document.Leases() {
				d.look(lease)
			}
			d.hintOf(u.Document)
		}
		return change, err
	}
}

// prepareUpdate fetches what the new revision refers to. What can't be fetched is
// told by the reader.
func (d *documents) prepareUpdate(ctx context.Context, u document.Update) (readings, error) {
	next, err := d.store.Draw(u)
	if err != nil {
		return nil, nil //nolint:nilerr // the update itself says it, after what comes first
	}
	fetched, err := d.fetch(ctx, next)
	if err != nil {
		d.t.log.Info("what a settings document refers to can't be read now", "document", u.Document, "error", err)
	}
	return fetched, ctx.Err()
}

// publish seals a revision's content away and appends the event. It ends only when
// the outcome is known: in the log, refused, or the term is over and somebody else
// reads the log anew.
func (d *documents) publish(ctx context.Context, c document.Change, expected uint64, from source, actor events.Actor) error {
	name, no := c.Document.Name(), blobNumber()
	sealed, err := d.t.svc.keys.SealAtRest(d.t.name, documentBlob(name), no, c.Document.Encode())
	if err != nil {
		return err
	}
	if err := d.t.svc.blobs.Put(ctx, d.t.name, documentBlob(name), no, sealed); err != nil {
		return err
	}
	_, err = d.t.do(context.WithoutCancel(ctx), leasecore.UpdateDocument{
		Name: name, Expected: expected, Updated: events.Updated{
			Paths: pathTexts(c.Paths), Blob: strconv.FormatUint(no, 10), Definitions: from.definitions, Fingerprint: from.fingerprint,
		},
	}, actor, nil)
	if err != nil && !errors.Is(err, errNotLeading) {
		if perr := d.t.svc.blobs.Purge(ctx, d.t.name, documentBlob(name), no); perr != nil {
			d.t.log.Warn("the content of a refused update was not purged; it will be swept", "document", name, "error", perr)
		}
	}
	return err
}

// blobNumber gives a number that nobody has drawn before: a revision may be
// sealed away more than once before one of them is in the log.
func blobNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// rejectsPerMinute bounds the refusals that are recorded, so that who may update
// can't fill the log; the others are logged only.
const rejectsPerMinute = 30

// reject records a refusal that says something about the document (events'
// rejected); who came too early or too late is only told.
func (d *documents) reject(u document.Update, why error, actor events.Actor) {
	kind := rejection(why)
	if kind == "" {
		return
	}
	d.mu.Lock()
	now := time.Now()
	if now.Sub(d.minute) > time.Minute {
		d.minute, d.rejects = now, 0
	}
	d.rejects++
	full := d.rejects > rejectsPerMinute
	d.mu.Unlock()
	d.t.log.Warn("an update of a settings document is refused", "document", u.Document, "error", why)
	if full {
		return
	}
	// Nobody waits for it; a full queue loses only the record.
	_ = d.t.submit(request{command: leasecore.RejectDocument{
		Name: u.Document, Expected: u.Expected, Failure: events.Failure{Kind: kind, Message: clipText(why.Error(), 1000)},
	}, actor: actor})
}

func clipText(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// rejection names a refusal that is recorded; empty: it is not.
func rejection(err error) string {
	for kind, is := range map[string][]error{
		"place":     {document.ErrNoPlace, document.ErrUnwritable, document.ErrSlotTwice, document.ErrVanished},
		"reference": {document.ErrUnknown, document.ErrExpired, document.ErrReference},
		"content":   {document.ErrDocument, document.ErrValue},
		"hand-over": {document.ErrOwnHandover},
		"documents": {leasecore.ErrDocuments},
	} {
		if slices.ContainsFunc(is, func(one error) bool { return errors.Is(err, one) }) {
			return kind
		}
	}
	return ""
}

// fromFile is a document as the definitions file has it.
type fromFile struct {
	content document.Value
	source
	file string
}

// want has documents of the definitions file put that are not yet: those of a
// revision above the one that their content came from last.
func (d *documents) want(file string, revision uint64, trees map[string]any) error {
	wanted := map[string]fromFile{}
	for name, tree := range trees {
		content, err := document.FromAny(tree)
		if err != nil {
			return fmt.Errorf("document %s: %w", name, err) // the file was checked
		}
		wanted[name] = fromFile{content: content, file: file, source: source{revision, d.t.keys.Load().fingerprint(content.Encode())}}
	}
	d.mu.Lock()
	d.fromFile = wanted
	d.mu.Unlock()
	d.poke()
	return nil
}

// putFromFile puts what the definitions file has; false: some has to be tried
// again, since what it refers to is not there yet.
func (d *documents) putFromFile(ctx context.Context) bool {
	d.mu.Lock()
	wanted := maps.Clone(d.fromFile)
	d.mu.Unlock()
	if len(wanted) == 0 {
		return true
	}
	done := true
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[name]
		err := d.putOne(ctx, name, w)
		switch {
		case err == nil:
			d.mu.Lock()
			if d.fromFile[name].source == w.source {
				delete(d.fromFile, name)
			}
			d.mu.Unlock()
		case ctx.Err() != nil, errors.Is(err, errNotLeading), errors.Is(err, document.ErrLifecycleEnded):
			return true
		default:
			d.t.log.Warn("a settings document of the definitions file is not in force yet", "document", name, "file", w.file, "error", err)
			done = false
		}
	}
	return done
}

// errSameSource says that a file changed a document without a higher revision.
var errSameSource = errors.New("the definitions file has other content under the same revision; raise its revision")

func (d *documents) putOne(ctx context.Context, name string, w fromFile) error {
	seen, err := d.t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any { return s.Documents[name] })
	if err != nil {
		return err
	}
	was := seen.(leasecore.Document)
	d.mu.Lock()
	_, lost := d.lost[name]
	lost = lost && d.lost[name] == was.Revision
	d.mu.Unlock()
	switch {
	case lost: // the file has it still
	case was.Definitions > w.definitions:
		return nil
	case was.Definitions == w.definitions && d.t.keys.Load().fingerprintLike(w.content.Encode(), was.Fingerprint) != was.Fingerprint:
		return errSameSource
	case was.Definitions == w.definitions:
		return nil
	}
	actor := events.Actor{Name: "operator/definitions-file", Claimed: true}
	change, err := d.update(ctx, document.Update{Document: name, Expected: was.Revision, Content: &w.content}, w.source, actor)
	if err != nil || len(change.Paths) > 0 {
		return err
	}
	// Nothing differs: that the revision was applied is recorded all the same.
	_, err = d.t.do(ctx, leasecore.UpdateDocument{
		Name: name, Expected: was.Revision, Keep: true,
		Updated: events.Updated{Paths: []string{}, Definitions: w.definitions, Fingerprint: w.fingerprint},
	}, actor, nil)
	return err
}
