package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/config"
)

// documents are the settings documents of a scope while this instance leads it:
// loaded from the log's revisions at the beginning of the term, changed by
// updates, and kept in step with the hand-overs of the leases they refer to.
// What waits (the store's turn, Vault, the blobs) is done here and never on the
// scope's goroutine, which only says which name to look at.
type documents struct {
	t    *term
	cfg  config.Documents
	gate *document.Gate
	// store has a turn of its own; stepping is held while installs begin and end.
	store    *document.Store
	stepping chan struct{}
	installs map[string]*staged // by lease; of who holds stepping

	wake   chan struct{} // dirty has something new
	loaded chan struct{} // closed once every document of the log is in the store

	mu sync.Mutex
	// watched are the leases that documents refer to, or whose candidate is in
	// installs; the others are nobody's business here.
	watched map[string]bool
	// dirty are the leases to look at, fromFile the documents that the definitions
	// file has and that are not put yet.
	dirty    map[string]bool
	fromFile map[string]fromFile
	// inForce is the lease whose values stand in the store, by name; 0: none.
	inForce map[string]uint64
	secrets map[string]*secretValues // by path in Vault
	lost    map[string]uint64        // by document: the revision whose content is lost
	changed chan struct{}            // closed and replaced when inForce changes
	rejects int                      // refusals that were recorded in this minute
	minute  time.Time
}

// staged is a candidate in the documents.
type staged struct {
	lease    uint64
	install  *document.Install
	restored bool
}

func newDocuments(t *term) *documents {
	cfg := t.svc.cfg.Scopes[t.name].Documents
	gate := document.NewGate(cfg.Wait.Duration())
	return &documents{
		t: t, cfg: cfg, gate: gate, store: document.NewStore(gate), stepping: make(chan struct{}, 1), installs: map[string]*staged{},
		wake: make(chan struct{}, 1), loaded: make(chan struct{}), watched: map[string]bool{}, dirty: map[string]bool{}, fromFile: map[string]fromFile{},
		inForce: map[string]uint64{}, secrets: map[string]*secretValues{}, lost: map[string]uint64{}, changed: make(chan struct{}),
	}
}

// end ends the lifecycle (L43): whoever waits is refused, and nothing changes any
// more.
func (d *documents) end() { d.gate.End() }

// touched says that something happened to a lease. It never waits.
func (d *documents) touched(lease string) {
	d.mu.Lock()
	watched := d.watched[lease]
	d.mu.Unlock()
	if watched {
		d.look(lease)
	}
}

// look has a lease looked at, from now on at everything that happens to it.
func (d *documents) look(lease string) {
	d.mu.Lock()
	d.dirty[lease], d.watched[lease] = true, true
	d.mu.Unlock()
	d.poke()
}

// unwatch forgets leases that no document refers to, but for those that still
// applies to.
func (d *documents) unwatch(still func(lease string) bool) {
	used := map[string]bool{}
	for _, name := range d.store.Names() {
		if doc, err := d.store.Document(name); err == nil {
			for _, lease := range doc.Leases() {
				used[lease] = true
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for lease := range d.watched {
		if !used[lease] && !d.dirty[lease] && !still(lease) {
			delete(d.watched, lease)
			delete(d.inForce, lease)
		}
	}
}

func (d *documents) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// documentsRest is the pace of what could not be done; it doubles up to
// documentsMostRest.
const (
	documentsRest     = time.Second
	documentsMostRest = 30 * time.Second
)

// run keeps the documents until stop is closed or ctx ends.
func (d *documents) run(ctx context.Context, stop <-chan struct{}) {
	for !d.load(ctx) {
		select {
		case <-time.After(documentsRest):
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
	close(d.loaded)
	poll := time.NewTicker(d.cfg.Poll.Duration())
	defer poll.Stop()
	rest := documentsRest
	for {
		var again <-chan time.Time
		if d.step(ctx) {
			rest = documentsRest
		} else {
			again = time.After(rest)
			rest = min(2*rest, documentsMostRest)
		}
		select {
		case <-d.wake:
		case <-again:
		case <-poll.C:
			d.pollSecrets(ctx)
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// step looks at every name that is due and puts what the definitions file has;
// false: something has to be tried again.
func (d *documents) step(ctx context.Context) bool {
	d.mu.Lock()
	names := make([]string, 0, len(d.dirty))
	for name := range d.dirty {
		names = append(names, name)
	}
	clear(d.dirty)
	d.mu.Unlock()
	slices.Sort(names)
	done := true
	for _, name := range names {
		if err := d.follow(ctx, name); err != nil && ctx.Err() == nil && !errors.Is(err, errNotLeading) && !errors.Is(err, document.ErrLifecycleEnded) {
			d.t.log.Warn("the documents do not have a lease's values yet", "name", name, "error", err)
			d.look(name)
			done = false
		}
	}
	return d.putFromFile(ctx) && done
}

// ready waits until the documents of the log are loaded.
func (d *documents) ready(ctx context.Context) error {
	select {
	case <-d.loaded:
		return nil
	case <-ctx.Done():
		return busy(againLater, "the documents are being loaded")
	case <-d.t.ended:
		return errNotLeading
	}
}

// load puts every document of the log into the store, and the candidates of the
// hand-overs that an earlier holder left.
func (d *documents) load(ctx context.Context) bool {
	type found struct {
		documents map[string]leasecore.Document
		handovers []string
	}
	seen, err := d.t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
		f := found{documents: s.Documents}
		for n := range s.Names() {
			if n.Handover != nil {
				f.handovers = append(f.handovers, n.Name)
			}
		}
		return f
	})
	if err != nil {
		return false
	}
	done := true
	for name, at := range seen.(found).documents {
		if _, err := d.store.Document(name); err == nil {
			continue
		}
		if err := d.loadOne(ctx, name, at); err != nil {
			d.t.log.Error("a settings document could not be loaded", "document", name, "revision", at.Revision, "error", err)
			done = false
		}
	}
	if done {
		for _, name := range seen.(found).handovers {
			d.look(name)
		}
	}
	return done
}

func (d *documents) loadOne(ctx context.Context, name string, at leasecore.Document) error {
	content, err := d.open(ctx, name, at.Blob)
	var doc document.Document
	if err == nil {
		doc, err = document.New(name, at.Revision, content)
	}
	if lostForGood(err) {
		return d.loadLost(ctx, name, at, err)
	}
	if err != nil {
		return err
	}
	for tries := range maxReads {
		fetched, err := d.fetch(ctx, doc)
		if err != nil {
			// What Vault can't tell now must not keep the others from their
			// documents; the places stay empty until it can.
			d.t.log.Warn("a settings document has places without a value", "document", name, "error", err)
		}
		unresolved, err := d.store.Load(ctx, doc, lenient{d.reader(fetched), tries == maxReads-1})
		switch {
		case errors.Is(err, errNotRead):
			continue // another lease was committed meanwhile
		case err != nil:
			return err
		}
		for _, lease := range doc.Leases() {
			d.look(lease)
		}
		if len(unresolved) > 0 {
			d.t.log.Info("places of a settings document have no value yet", "document", name, "places", len(unresolved))
		}
		return nil
	}
	return errNotRead
}

// lostForGood tells errors that no trying again mends: the content is gone, under
// another seal key, or no document.
func lostForGood(err error) bool {
	for _, lost := range []error{handover.ErrNoBlob, handover.ErrBinding, wire.ErrSeal, document.ErrMalformed, document.ErrDocument} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// loadLost stands in for a document whose content is lost: it can't be read, and it
// can be put anew. The others, and the hand-overs, go on.
func (d *documents) loadLost(ctx context.Context, name string, at leasecore.Document, why error) error {
	d.t.log.Error("the content of a settings document is lost; put it anew", "document", name, "revision", at.Revision, "error", why)
	empty, err := document.FromAny(map[string]any{})
	if err != nil {
		return err
	}
	doc, err := document.New(name, at.Revision, empty)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.lost[name] = at.Revision
	d.mu.Unlock()
	_, err = d.store.Load(ctx, doc, d.reader(nil))
	return err
}

// errLost says that a document's content is lost.
var errLost = errors.New("its content is lost: put it anew, as a whole")

// isLost gives [errLost] for a document that is.
func (d *documents) isLost(doc document.Document) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rev, lost := d.lost[doc.Name()]; lost && rev == doc.Revision() {
		return fmt.Errorf("document %s: %w", doc.Name(), errLost)
	}
	return nil
}

// documentBlob is the name that a document's content is sealed and stored under;
// an underscore cannot begin a lease's name.
func documentBlob(name string) string { return documentBlobPrefix + name }

const documentBlobPrefix = "_doc-"

// open reads a revision's content.
func (d *documents) open(ctx context.Context, name, blob string) (document.Value, error) {
	no, err := strconv.ParseUint(blob, 10, 64)
	if err != nil {
		return document.Value{}, fmt.Errorf("the log names the content of document %s as %q, which is no number", name, blob)
	}
	plain, err := d.t.svc.values(ctx, d.t.name, documentBlob(name), no)
	if err != nil {
		return document.Value{}, err
	}
	return document.Parse(plain)
}

// environment gives a variable that the service file allows.
func (d *documents) environment(variable string) (string, bool) {
	if !slices.Contains(d.cfg.Environment, variable) {
		return "", false
	}
	return os.LookupEnv(variable)
}

// hint tells who may have read documents that they may have changed.
func (d *documents) hint(changes []document.Change) {
	for _, c := range changes {
		d.hintOf(c.Document.Name())
	}
}
