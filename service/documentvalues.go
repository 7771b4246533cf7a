package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/vault"
)

var (
	// errNotRead says that values are there and were not read from the store of
	// sealed values yet; it is worth trying again.
	errNotRead = errors.New("the values were not read yet")
	// errHasLease refuses a vault:// reference to what is granted with a lease.
	errHasLease = errors.New("it is granted with a lease: define it, and refer to it as lease://")
	errNoVault  = errors.New("the scope has no Vault connection for vault:// references; set scopes.NAME.documents.vault")
)

// maxReads bounds how often something is tried again because a lease was
// committed meanwhile.
const maxReads = 8

// secretValues is a secret without lease as it was read last.
type secretValues struct {
	values document.Values // nil: it was never read
	err    error           // why it could not be read last
}

// readings are the values of leases that were fetched to be read, by name. They
// are held here, since what the views hold open is bounded.
type readings map[string]leaseReading

type leaseReading struct {
	lease  uint64
	values document.Values
}

// reader reads what stands in memory: committed and unexpired leases (L44) that
// were fetched, secrets as they were read last, variables that are allowed.
func (d *documents) reader(fetched readings) document.Reader {
	return document.ReaderFunc(func(ref document.Reference) (document.Value, error) {
		switch ref.Scheme {
		case document.Lease:
			return d.readLease(ref, fetched)
		case document.Vault:
			return d.readSecret(ref)
		case document.Environment:
			if text, ok := d.environment(ref.Name); ok {
				return document.FromAny(text)
			}
		}
		return document.Value{}, document.ErrUnknown
	})
}

func (d *documents) readLease(ref document.Reference, fetched readings) (document.Value, error) {
	v := d.t.views.get(ref.Name)
	switch {
	case v == nil || v.definition == nil:
		return document.Value{}, fmt.Errorf("%w: no definition has this name", document.ErrUnknown)
	case v.lease == 0:
		return document.Value{}, document.ErrPending
	case !v.usable(d.t.svc.clock.Now()):
		return document.Value{}, document.ErrExpired
	}
	r, ok := fetched[ref.Name]
	if !ok || r.lease != v.lease {
		return document.Value{}, errNotRead
	}
	value, ok := r.values[ref.Key]
	if !ok {
		return document.Value{}, fmt.Errorf("%w: it does not have the key", document.ErrUnknown)
	}
	return value, nil
}

func (d *documents) readSecret(ref document.Reference) (document.Value, error) {
	d.mu.Lock()
	s := d.secrets[ref.Name]
	d.mu.Unlock()
	switch {
	case s == nil:
		return document.Value{}, errNotRead
	case s.values == nil:
		return document.Value{}, s.err
	}
	value, ok := s.values[ref.Key]
	if !ok {
		return document.Value{}, fmt.Errorf("%w: it does not have the key", document.ErrUnknown)
	}
	return value, nil
}

// lenient takes a secret that can't be read now for one that is unknown, so that a
// document can be loaded while Vault is down; a lease too, when its values could
// not be read however often that was tried.
type lenient struct {
	document.Reader
	leases bool
}

func (l lenient) Read(ref document.Reference) (document.Value, error) {
	v, err := l.Reader.Read(ref)
	if err != nil && (ref.Scheme == document.Vault || l.leases && errors.Is(err, errNotRead)) {
		return v, document.ErrUnknown
	}
	return v, err
}

// fetch has in memory what a document refers to, before it is read. The error is
// the first that could not be fetched; the others are all the same.
func (d *documents) fetch(ctx context.Context, doc document.Document) (readings, error) {
	fetched := readings{}
	var first error
	for _, name := range doc.Leases() {
		if err := d.fetchLease(ctx, name, fetched); err != nil && first == nil {
			first = err
		}
	}
	for _, path := range doc.Secrets() {
		d.mu.Lock()
		s := d.secrets[path]
		d.mu.Unlock()
		if s != nil && s.values != nil {
			continue
		}
		if err := d.fetchSecret(ctx, path); err != nil && first == nil {
			first = fmt.Errorf("reading vault://%s: %w", path, err)
		}
	}
	return fetched, first
}

// fetchLease adds a lease's values, if one is committed.
func (d *documents) fetchLease(ctx context.Context, name string, fetched readings) error {
	v := d.t.views.get(name)
	if v == nil || v.lease == 0 || !v.usable(d.t.svc.clock.Now()) {
		return nil
	}
	raw, err := d.t.read(ctx, name, v)
	if err != nil {
		return err
	}
	values, err := document.ParseValues(raw)
	if err != nil {
		return fmt.Errorf("the values of %s, lease %d, are no values of a document", name, v.lease)
	}
	fetched[name] = leaseReading{v.lease, values}
	return nil
}

// fetchSecret reads a secret from Vault and keeps what it came to. One that was
// read before is kept when it can't be read now.
func (d *documents) fetchSecret(ctx context.Context, path string) error {
	values, err := d.askVault(ctx, path)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.secrets[path] != nil && d.secrets[path].values != nil && !errors.Is(err, document.ErrUnknown) {
		return err
	}
	d.secrets[path] = &secretValues{values, err}
	if errors.Is(err, document.ErrUnknown) {
		return nil // told by who reads it
	}
	return err
}

func (d *documents) askVault(ctx context.Context, path string) (document.Values, error) {
	v := d.t.svc.vaults[d.cfg.Vault]
	if v == nil {
		return nil, errNoVault
	}
	var guard *vault.Guard
	if v.guarded() {
		g, err := v.client.CreateGuard(ctx, vault.GuardOptions{TTL: v.cfg.GuardTTL.Duration(), Meta: map[string]string{"leasesvc": d.t.name + " documents"}})
		if err != nil {
			return nil, err
		}
		guard = &g
		defer func() { // what was granted by mistake ends with it
			if _, err := v.client.RevokeGuard(ctx, g.Accessor); err != nil {
				d.t.log.Debug("a guard of nothing was left to expire", "error", err)
			}
		}()
	}
	grant, err := v.client.Read(ctx, path, guard, vault.ReadOptions{KVv2: strings.Contains(path, "/data/"), StaticRole: strings.Contains(path, "/static-creds/")})
	switch {
	case vault.KindOf(err) == vault.KindNotFound:
		return nil, fmt.Errorf("%w: Vault has no such secret", document.ErrUnknown)
	case err != nil:
		return nil, err
	}
	if grant.LeaseID != "" {
		if _, err := v.client.RevokeLease(ctx, grant.LeaseID); err != nil {
			d.t.log.Error("a credential that a document should not refer to could not be given back", "path", path, "error", err)
		}
		return nil, errHasLease
	}
	values, err := document.ParseValues(grant.Data)
	if err != nil {
		return nil, errors.New("its values are no values of a document")
	}
	return values, nil
}

// pollSecrets reads the secrets again that documents refer to, and pushes those
// that changed to their places.
func (d *documents) pollSecrets(ctx context.Context) {
	paths := map[string]bool{}
	for _, name := range d.store.Names() {
		doc, err := d.store.Document(name)
		if err != nil {
			continue
		}
		for _, path := range doc.Secrets() {
			paths[path] = true
		}
	}
	for path := range paths {
		if err := d.fetchSecret(ctx, path); err != nil {
			if ctx.Err() == nil {
				d.t.log.Warn("a secret that documents refer to could not be read again", "path", path, "error", err)
			}
			continue
		}
		pushed, err := d.store.PushSecret(ctx, path, d.reader(nil))
		if err != nil {
			return // the lifecycle has ended
		}
		d.tellBad("vault://"+path, pushed.Bad)
		for _, c := range pushed.Changes {
			d.record(c)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.secrets {
		if !paths[path] {
			delete(d.secrets, path)
		}
	}
}

// record appends that a secret gave places of a document other values: nothing
// else in the log would say so.
func (d *documents) record(c document.Change) {
	name := c.Document.Name()
	_, err := d.t.do(context.Background(), leasecore.UpdateDocument{
		Name: name, Expected: c.Document.Revision(), Keep: true, Updated: events.Updated{Paths: pathTexts(c.Paths)},
	}, events.Actor{}, nil)
	if err != nil && !errors.Is(err, errNotLeading) {
		d.t.log.Warn("a change of a secret was not recorded", "document", name, "error", err)
	}
	d.hintOf(name)
}

// tellBad reports the places that could not be written; they stopped no other
// (L46).
func (d *documents) tellBad(from string, bad []document.Bad) {
	for _, b := range bad {
		d.t.log.Error("a place of a settings document was not written", "from", from, "place", b.Place.String(), "error", b.Err)
	}
}

func pathTexts(paths []document.Path) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = p.String()
	}
	return out
}

func (d *documents) hintOf(name string) {
	if err := d.t.svc.nc.Publish(wire.DocumentHintSubject(d.t.name, name), nil); err != nil {
		d.t.log.Debug("a hint was not sent", "document", name, "error", err)
	}
}

// minGoodFor is what the reader of a document without leases may rely on.
const minGoodFor = 30 * time.Second
