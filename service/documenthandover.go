package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/leasecore"
)

// hold takes the right to begin and end installs.
func (d *documents) hold(ctx context.Context) error {
	select {
	case d.stepping <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.t.ended:
		return errNotLeading
	}
}

func (d *documents) release() { <-d.stepping }

// stage puts a candidate into the documents before a consumer is asked about it:
// from here to the end of the hand-over updates that refer to the lease wait, and
// those of that consumer are refused (L43). An error that wraps
// [document.ErrMissingKey] or [document.ErrVanished] says that the candidate does
// not fit the documents (L12), with nothing changed.
func (d *documents) stage(ctx context.Context, j *job) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	raw, err := d.t.valuesOf(ctx, j.effect.Name, j.lease.No)
	if err != nil {
		return err
	}
	if err := d.hold(ctx); err != nil {
		return err
	}
	defer d.release()
	// What is noted here is looked at once more, in case the hand-over ended
	// while we waited.
	defer d.look(j.effect.Name)
	in, err := d.begin(ctx, j.effect.Name, j.lease.No, raw)
	if err != nil {
		return err
	}
	in.install.Join(j.incarnation.Consumer)
	return nil
}

// begin installs a candidate that is not yet. Called while holding.
func (d *documents) begin(ctx context.Context, name string, lease uint64, raw []byte) (*staged, error) {
	if in := d.installs[name]; in != nil {
		if in.lease == lease {
			return in, nil
		}
		if err := in.install.End(ctx); err != nil {
			return nil, err
		}
		delete(d.installs, name)
	}
	values, err := document.ParseValues(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: its values are no values of a document", document.ErrMissingKey)
	}
	install, err := d.store.Install(ctx, name, values)
	if err != nil {
		return nil, err
	}
	in := &staged{lease: lease, install: install}
	d.installs[name] = in
	return in, nil
}

// unfit tells the errors for which a candidate is refused.
func unfit(err error) bool {
	return errors.Is(err, document.ErrMissingKey) || errors.Is(err, document.ErrVanished)
}

// situation is what the state says of a lease.
type situation struct {
	active, candidate uint64
	rollingBack       bool
}

// follow brings the documents in line with what the log says of a lease.
func (d *documents) follow(ctx context.Context, name string) error {
	seen, err := d.t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
		var now situation
		if n := s.Name(name); n != nil {
			now.active = n.Active
			if h := n.Handover; h != nil {
				now.candidate, now.rollingBack = h.Lease, h.RollingBack
			}
		}
		return now
	})
	if err != nil {
		return err
	}
	now := seen.(situation)
	if err := d.hold(ctx); err != nil {
		return err
	}
	defer d.release()
	in := d.installs[name]
	if in == nil && now.candidate != 0 && now.rollingBack {
		// A hand-over that an earlier holder left, on its way back: updates wait
		// for it all the same.
		if raw, err := d.t.valuesOf(ctx, name, now.candidate); err == nil {
			if in, err = d.begin(ctx, name, now.candidate, raw); err != nil && !unfit(err) {
				return err
			}
		}
	}
	if in != nil {
		if over, err := d.followInstall(ctx, name, in, now); err != nil || !over {
			return err
		}
	}
	if err := d.bringInForce(ctx, name, now.active); err != nil {
		return err
	}
	d.unwatch(func(lease string) bool { return d.installs[lease] != nil })
	return nil
}

// followInstall settles an install as the log has it; over: none is in flight any
// more.
func (d *documents) followInstall(ctx context.Context, name string, in *staged, now situation) (over bool, err error) {
	switch {
	case in.lease == now.active:
		changes := in.install.Changes()
		if err := in.install.Commit(ctx); err != nil {
			return false, err
		}
		d.setInForce(name, in.lease)
		d.hint(changes)
	case in.lease == now.candidate && !now.rollingBack:
		return false, nil
	case !in.restored:
		restored, err := in.install.Restore(ctx)
		if err != nil {
			return false, err
		}
		in.restored = true
		for _, kept := range restored.Kept {
			d.t.log.Info("a place of a settings document was written meanwhile and stays", "place", kept.String(), "name", name)
		}
	}
	if in.lease == now.candidate {
		return false, nil // going back, until everybody has
	}
	if err := in.install.End(ctx); err != nil {
		return false, err
	}
	delete(d.installs, name)
	return true, nil
}

// bringInForce pushes the values of the committed lease to the places that it
// fills, where no install has (L46).
func (d *documents) bringInForce(ctx context.Context, name string, active uint64) error {
	d.mu.Lock()
	was, known := d.inForce[name]
	d.mu.Unlock()
	if known && was == active {
		return nil
	}
	if active == 0 {
		d.setInForce(name, 0)
		return nil
	}
	for range maxReads {
		v := d.t.views.get(name)
		if v == nil || v.lease != active {
			return nil // it has gone on, and is looked at again
		}
		fetched := readings{}
		if err := d.fetchLease(ctx, name, fetched); err != nil {
			return err
		}
		pushed, err := d.store.Push(ctx, name, d.reader(fetched))
		if err != nil {
			return err
		}
		if now := d.t.views.get(name); now == nil || now.lease != active {
			continue
		}
		d.tellBad("lease://"+name, pushed.Bad)
		d.setInForce(name, active)
		d.hint(pushed.Changes)
		return nil
	}
	return errNotRead
}

func (d *documents) setInForce(name string, lease uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inForce[name] = lease
	close(d.changed)
	d.changed = make(chan struct{})
}
