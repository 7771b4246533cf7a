package service

import (
	"context"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// giveUpKeys records that what is sealed under keys that are not there is closed
// for good.
func (r *Recoverer) giveUpKeys(ctx context.Context, scope string) error {
	past, _, err := r.blobs.Past(ctx, r.keys, scope)
	if err != nil {
		return err
	}
	for _, p := range past {
		if p.Needed && !r.keys.Has(p.ID) {
			p.Needed = false
			if err := r.blobs.KeepPast(ctx, r.keys, scope, p); err != nil {
				return err
			}
		}
	}
	return r.blobs.Reprobe(ctx, r.keys, scope)
}

// uncheckedError says that a stretch of the log is under a seal key of which
// nothing is left.
type uncheckedError struct {
	key        string
	from, upTo uint64
}

// Error implements error.
func (e *uncheckedError) Error() string {
	return fmt.Sprintf("the log from sequence %d to %d was written under the seal key %s, of which nothing is left here: put it into seal_key.previous, or decide to trust that stretch without its MACs (run verify-log first)", e.from, e.upTo, e.key)
}

// unchecked finds the end of the stretch that begins with an opened event under a
// key of which nothing is known: the next one under one that is.
func (r *Recoverer) unchecked(ctx context.Context, log *journal.Log, keys *scopeKeys, scope string, from, last uint64) (*uncheckedError, error) {
	found := &uncheckedError{from: from, upTo: from}
	open := false
	err := log.Replay(ctx, scope, from, last, func(m journal.Message) error {
		e, err := events.Decode(m.Payload, m.Seq)
		if o, ok := e.Data.(*events.Opened); err == nil && ok {
			if open = !keys.knows(o.SealKey); open && found.key == "" {
				found.key = o.SealKey
			}
		}
		if open {
			found.upTo = m.Seq
		}
		return nil
	})
	return found, err
}

// folded folds a scope's log as far as it can be followed.
func folded(ctx context.Context, log *journal.Log, keys *scopeKeys, scope string, trusted, last uint64) (*projector.Projection, error) {
	p := projector.NewUnder(scope, keys.mac)
	p.Trust(trusted)
	return p, log.Replay(ctx, scope, 1, last, func(m journal.Message) error {
		_, err := p.Apply(m.Seq, m.Payload)
		return err
	})
}
