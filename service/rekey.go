package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
)

// rekeyRest is when what could not be sealed anew is tried again.
const rekeyRest = 5 * time.Second

// rekeying is how far a term has come with sealing anew, under the key in force,
// what is under others.
type rekeying struct {
	mu          sync.Mutex
	done, blobs int
	closed      []string // what no key opens
	finished    bool
	trouble     error
}

// rekey seals the scope's values anew while the instance has more than one seal
// key, so that the one before can be taken away: each in one conditional write,
// readers open both. It ends when nothing is under another key.
func (t *term) rekey(ctx context.Context, stop <-chan struct{}) {
	if len(t.svc.keys.All()) == 1 {
		return
	}
	for {
		err := t.rekeyOnce(ctx, stop)
		t.rekeyed.mu.Lock()
		t.rekeyed.trouble, t.rekeyed.finished = err, err == nil
		t.rekeyed.mu.Unlock()
		if err == nil {
			t.log.Info("no values are sealed under another key than the one in force", "seal_key", t.svc.keys.ID())
			return
		}
		if ctx.Err() == nil && !errors.Is(err, errNotLeading) {
			t.log.Warn("sealing values anew under the key in force", "error", err)
		}
		again := time.NewTimer(rekeyRest)
		select {
		case <-again.C:
		case <-stop:
			again.Stop()
			return
		}
	}
}

func (t *term) rekeyOnce(ctx context.Context, stop <-chan struct{}) error {
	blobs, keys := t.svc.blobs, t.svc.keys
	past, _, err := blobs.Past(ctx, keys, t.name)
	if err != nil {
		return err
	}
	for i := range past {
		p := &past[i]
		if p.ID == keys.ID() { // in force again
			err = blobs.DropPast(ctx, t.name, p.ID)
		} else {
			if p.Until == 0 {
				p.Until = t.fence
			}
			err = blobs.KeepPast(ctx, keys, t.name, *p)
		}
		if err != nil {
			return err
		}
	}
	if err := t.resealAll(ctx, stop); err != nil {
		return err
	}
	if _, err := blobs.ResealProbe(ctx, keys, t.name); err != nil {
		return err
	}
	for _, p := range past {
		if p.ID == keys.ID() || !p.Needed || !keys.Has(p.ID) {
			continue
		}
		p.Needed = false
		if err := blobs.KeepPast(ctx, keys, t.name, p); err != nil {
			return err
		}
	}
	return nil
}

// resealAll seals each value anew that is under another key. What no key opens is
// named; it was closed before, and no other key would open it.
func (t *term) resealAll(ctx context.Context, stop <-chan struct{}) error {
	if hold := t.svc.beforeReseal; hold != nil {
		if err := hold(); err != nil {
			return err
		}
	}
	all, err := t.svc.blobs.List(ctx, t.name)
	if err != nil {
		return err
	}
	t.rekeyed.mu.Lock()
	t.rekeyed.blobs, t.rekeyed.done, t.rekeyed.closed = len(all), 0, nil
	t.rekeyed.mu.Unlock()
	changed := 0
	for _, b := range all {
		select {
		case <-stop:
			return errNotLeading
		default:
		}
		if err := t.svc.cells.FreshEnough(time.Now()); err != nil {
			return err // E21: perhaps it is not ours to do any more
		}
		was, err := t.svc.blobs.Reseal(ctx, t.svc.keys, t.name, b.Name, b.Lease)
		t.rekeyed.mu.Lock()
		t.rekeyed.done++
		if errors.Is(err, wire.ErrSeal) {
			t.rekeyed.closed, err = append(t.rekeyed.closed, fmt.Sprint(b.Name, "/", b.Lease)), nil
		}
		t.rekeyed.mu.Unlock()
		if err != nil {
			return err
		}
		if was {
			changed++
		}
	}
	if changed > 0 {
		t.log.Info("values were sealed anew under the key in force", "count", changed, "seal_key", t.svc.keys.ID())
	}
	return nil
}

// pinnedFor is how long a reader who takes only a past key keeps it from being
// called needless: it may ask again.
const pinnedFor = time.Hour

// keysStatus says of each key but the one in force what it is needed for.
func (t *term) keysStatus(ctx context.Context) ([]api.SealKey, error) {
	keys := t.svc.keys
	if len(keys.All()) == 1 {
		return nil, nil
	}
	seen, err := t.do(ctx, leasecore.Tick{}, operator(api.OpStatus), func(s *leasecore.State) any {
		var out []registeredAs
		for n := range s.Names() {
			for _, c := range n.Consumers {
				out = append(out, registeredAs{c.Consumer + "/" + c.Instance, c.ID})
			}
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	past, _, err := t.svc.blobs.Past(ctx, keys, t.name)
	if err != nil {
		return nil, err
	}
	without, before, err := t.instancesKeys(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.SealKey
	for _, k := range keys.All()[1:] {
		row := api.SealKey{ID: k.ID(), ServiceKey: k.Public()}
		var waits []string
		replaced := false
		for _, p := range past {
			replaced = replaced || p.ID == k.ID()
		}
		if ids := without[k.ID()]; !replaced {
			if len(ids) > 0 {
				row.Says = "not in use yet, and not known to " + strings.Join(ids, ", ") + ": give it to them first"
			} else {
				row.Says = "not in use yet, and known to every instance: it can be put first"
			}
			out = append(out, row)
			continue
		}
		t.rekeyed.mu.Lock()
		switch {
		case t.rekeyed.trouble != nil:
			waits = append(waits, fmt.Sprintf("values are still under it (%v)", t.rekeyed.trouble))
		case !t.rekeyed.finished:
			waits = append(waits, fmt.Sprintf("%d of %d values are looked through", t.rekeyed.done, t.rekeyed.blobs))
		}
		if n := len(t.rekeyed.closed); n > 0 {
			row.Closed = slices.Clone(t.rekeyed.closed[:min(n, shownBlobs)])
		}
		t.rekeyed.mu.Unlock()
		if ids := before[k.ID()]; len(ids) > 0 {
			waits = append(waits, "it is the first key of "+strings.Join(ids, ", "))
		}
		if ids := without[keys.ID()]; len(ids) > 0 {
			waits = append(waits, strings.Join(ids, ", ")+" do not have the key in force")
		}
		silent := 0
		for _, c := range seen.([]registeredAs) {
			pinned := t.pins.get(c.incarnation)
			switch {
			case len(pinned) == 0:
				silent++
			case slices.Contains(pinned, k.Public()) && !slices.Contains(pinned, keys.Public()):
				row.Consumers = append(row.Consumers, c.who)
			}
		}
		slices.Sort(row.Consumers)
		row.Consumers = slices.Compact(row.Consumers)
		if len(row.Consumers) > 0 {
			waits = append(waits, "consumers pin no other: "+strings.Join(row.Consumers[:min(len(row.Consumers), shownBlobs)], ", "))
		}
		if t.pins.askedWithin(k.ID(), pinnedFor) {
			waits = append(waits, "a reader who pins no other asked within the last hour")
		}
		row.Removable = len(waits) == 0
		row.Says = "still needed: " + strings.Join(waits, "; ")
		if row.Removable {
			row.Says = "it can be removed from seal_key.previous"
			if silent > 0 {
				row.Says += fmt.Sprintf(", once the %d consumers that do not say what they pin have the key in force (they are told everything under both)", silent)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

type registeredAs struct{ who, incarnation string }

// instancesKeys tells, by the id of a key, which other instances of the scope run
// without it, and whose first key it is.
func (t *term) instancesKeys(ctx context.Context) (without, first map[string][]string, err error) {
	holders, err := t.svc.cells.Holders(ctx)
	if err != nil {
		return nil, nil, err
	}
	without, first = map[string][]string{}, map[string][]string{}
	for i := range holders {
		h := &holders[i]
		var said struct {
			For      []string `json:"for"`
			SealKeys []string `json:"seal_keys"`
		}
		if h.State != epochkv.HolderLive || h.Holder == t.svc.cells.HolderID() || json.Unmarshal(h.Echo, &said) != nil ||
			!slices.Contains(said.For, t.name) || len(said.SealKeys) == 0 || time.Since(h.WrittenAt) > time.Minute {
			continue
		}
		who := h.Holder
		if h.Instance != "" {
			who += " (" + h.Instance + ")"
		}
		first[said.SealKeys[0]] = append(first[said.SealKeys[0]], who)
		for _, k := range t.svc.keys.All() {
			if !slices.Contains(said.SealKeys, k.ID()) {
				without[k.ID()] = append(without[k.ID()], who)
			}
		}
	}
	return without, first, nil
}
