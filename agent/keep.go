package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/agent/file"
	"github.com/leasesvc/leasesvc/consumer"
)

// keep follows the changes of the target's document that no hand-over is about,
// and writes a file again that somebody deleted, until ctx ends. serve is called
// with each lease that the target shows.
func (t *target) keep(ctx context.Context, pace time.Duration, serve func(string)) {
	var hints <-chan struct{}
	if t.cfg.Document != "" {
		var err error
		if hints, err = t.client.DocumentChanges(ctx, t.cfg.Document); err != nil {
			t.log.Warn("changes of the document are noticed at the pace of refresh only", "error", err)
		}
	}
	for {
		wait, err := t.refresh(ctx, pace, serve)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.log.Warn("not up to date", "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case _, ok := <-hints:
			if !ok {
				hints = nil
			}
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// mostPause is the slowest pace of a document that an application says no to.
const mostPause = 5 * time.Minute

// refresh brings the target up to date once and gives when to look again.
func (t *target) refresh(ctx context.Context, pace time.Duration, serve func(string)) (time.Duration, error) {
	if err := t.take(ctx); err != nil {
		return 0, err
	}
	defer t.give()
	before := t.doc
	changed := false
	if t.cfg.Document != "" {
		var err error
		changed, err = t.reread(ctx)
		switch {
		case errors.Is(err, errNotYet) && t.doc == nil:
			t.log.Info("waiting for the document", "why", err)
			return t.refreshIn(pace), nil
		case err != nil:
			return t.refreshIn(pace), err
		}
		for _, lease := range t.leases() {
			serve(lease)
		}
	}
	if !changed && !t.lost() {
		return t.refreshIn(pace), nil
	}
	if changed && before != nil && time.Now().Before(t.badRetry) {
		t.use(before) // tried, and refused; not yet again
		return min(t.refreshIn(pace), time.Until(t.badRetry)), nil
	}
	err := t.apply(ctx, "update")
	switch {
	case err == nil:
		t.badPause = 0
		return t.refreshIn(pace), nil
	case errors.Is(err, errNotYet):
		t.log.Info("nothing to show yet", "why", err)
		return t.refreshIn(pace), nil
	case before == nil:
		// Nothing to go back to: it is tried again as it is.
		t.use(nil)
	default:
		t.use(before)
		t.goBack(ctx, "revert")
	}
	t.badPause = min(max(2*t.badPause, pace, time.Second), mostPause)
	t.badRetry = time.Now().Add(t.badPause)
	return t.badPause, err
}

// lost tells whether the file is gone that the target had written, or whether the
// application does not run that it should.
func (t *target) lost() bool {
	t.mu.Lock()
	knows := t.knows
	t.mu.Unlock()
	if !knows || t.app != nil {
		return false
	}
	was, err := file.Look(t.file.Path)
	return err == nil && !was.Exists
}

// once writes the file with what is in force, waiting for it until ctx ends.
func (t *target) once(ctx context.Context) error {
	for {
		err := t.onceMore(ctx)
		again := errors.Is(err, errNotYet) || errors.Is(err, consumer.ErrUnavailable) || errors.Is(err, consumer.ErrNone) || errors.Is(err, consumer.ErrUnknownName)
		if err == nil || !again {
			return err
		}
		timer := time.NewTimer(onceRest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("it did not come in time: %w", err)
		}
	}
}

func (t *target) onceMore(ctx context.Context) error {
	if t.cfg.Lease != "" {
		c, err := t.client.Get(ctx, t.cfg.Lease)
		if err != nil {
			return err
		}
		t.settle(t.cfg.Lease, c)
	} else {
		d, err := t.client.Document(ctx, t.cfg.Document)
		if err != nil {
			return err
		}
		s, err := settingsOf(d)
		if err != nil {
			return err
		}
		t.use(s)
	}
	content, err := t.content()
	if err != nil {
		return err
	}
	out, err := t.renderer.Render(content)
	if err != nil {
		return err
	}
	wrote, err := t.file.Write(out)
	if err == nil && wrote {
		t.log.Info("written", "file", t.file.Path)
	}
	return err
}
