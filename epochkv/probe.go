package epochkv

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// probeTries bounds how often a probe starts over because another instance
// probed, or the stream had no leader, at the same moment.
const probeTries = 20

// probe refuses a store that ignores compare-and-set or answers reads from a
// stale replica (E20): on a key of its own, two writes, then a create and a
// stale update that must be refused, then a read that must not be older.
func probe(ctx context.Context, st store, pace time.Duration) error {
	var err error
	for range probeTries {
		if err = probeOnce(ctx, st); err == nil || errors.Is(err, ErrIgnoresCAS) || errors.Is(err, ErrStaleReads) || errors.Is(err, ErrNotAuthorized) {
			return err
		}
		if werr := wait(ctx, pace); werr != nil {
			return fmt.Errorf("probing the bucket: %w", errors.Join(werr, err))
		}
	}
	return fmt.Errorf("probing the bucket, %d times: %w", probeTries, err)
}

func probeOnce(ctx context.Context, st store) error {
	value := func() []byte {
		return encodeCell(ScopeCell{Product: product, Holder: "_probe", Released: true, Attempt: newID()})
	}
	before, err := st.get(ctx, probeKey)
	if err != nil && !errors.Is(err, errNotFound) {
		return err
	}
	first, err := st.put(ctx, probeKey, before.revision, value())
	if err != nil {
		return err
	}
	second, err := st.put(ctx, probeKey, first, value())
	if err != nil {
		return err
	}
	for _, stale := range []uint64{0, first} {
		rev, err := st.put(ctx, probeKey, stale, value())
		if err == nil {
			return fmt.Errorf("key %s: a write expecting revision %d was stored as %d over revision %d: %w",
				probeKey, stale, rev, second, ErrIgnoresCAS)
		}
		if !errors.Is(err, errRefused) {
			return err
		}
	}
	after, err := st.get(ctx, probeKey)
	if err != nil {
		return err
	}
	if after.revision < second {
		return fmt.Errorf("key %s: read revision %d after revision %d was acknowledged: %w",
			probeKey, after.revision, second, ErrStaleReads)
	}
	return nil
}

// wait sleeps for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
