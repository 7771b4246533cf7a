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

	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
)

// An upgrade has two steps (docs/adr/0007): instances are replaced one by one, and
// events are written as before, so that there is a way back; then an operator
// finalizes, from where on there is none.

// BehindError says that a scope's log has, or may have, events that this
// instance's release can't read. It stays up and stands by, does not claim, and
// answers no reads.
type BehindError struct {
	Scope, Release string
	Future         *events.FutureError
}

// Error implements error.
func (e *BehindError) Error() string {
	return fmt.Sprintf("scope %s: release %s of this instance is behind the log: %v; it stays up, does not lead the scope and answers no reads of it; replace it by the release that the others run (docs/operations.md, Upgrade)",
		e.Scope, e.Release, e.Future)
}

// Unwrap gives the event.
func (e *BehindError) Unwrap() error { return e.Future }

// errNotFinalized refuses to finalize while somebody can't read what would come.
var errNotFinalized = errors.New("not finalized")

// instances remembers who else is there, for status.
type instances struct {
	mu    sync.Mutex
	known []epochkv.HolderCell
	at    time.Time
}

// instancesAgain is how long what is known of the others serves status.
const instancesAgain = 2 * time.Second

// list gives the others' cells that are alive, not older than age.
func (n *instances) list(ctx context.Context, s *Service, age time.Duration) ([]epochkv.HolderCell, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.at.IsZero() && time.Since(n.at) < age {
		return n.known, nil
	}
	all, err := s.cells.AllHolders(ctx)
	if err != nil {
		return nil, err
	}
	n.known, n.at = s.alive(ctx, all), time.Now()
	return n.known, nil
}

// alive gives the others that are alive: who renewed lately, and of those who did
// not, whoever is not known to be gone. Renewals are compared by the server's clock.
func (s *Service) alive(ctx context.Context, all []epochkv.HolderCell) []epochkv.HolderCell {
	now := time.Time{}
	for i := range all {
		if all[i].Stored.After(now) {
			now = all[i].Stored
		}
	}
	var out []epochkv.HolderCell
	for i := range all {
		c := &all[i]
		if c.Holder == s.cells.HolderID() || c.State != epochkv.HolderLive {
			continue
		}
		if now.Sub(c.Stored) > s.cells.QuietWindow() {
			if gone, err := s.presenceOf(ctx, c.Holder); err == nil && gone {
				continue
			}
		}
		out = append(out, *c)
	}
	return out
}

// echoedReads tells whether an instance is there for a scope, and what its release reads.
func echoedReads(c *epochkv.HolderCell, scope string) (there bool, formats events.Formats) {
	var echo struct {
		Version string         `json:"version"`
		For     []string       `json:"for"`
		Reads   events.Formats `json:"reads"`
	}
	if json.Unmarshal(c.Echo, &echo) != nil || echo.Version != c.Version {
		// It has said nothing yet; what stands there is of its predecessor, who may
		// have been of another release.
		return true, nil
	}
	return len(echo.For) == 0 || slices.Contains(echo.For, scope), echo.Reads
}

// lacking gives which of some instances are there for a scope and can't read all
// of some formats.
func lacking(cells []epochkv.HolderCell, scope string, formats events.Formats) []api.Instance {
	var out []api.Instance
	for i := range cells {
		there, known := echoedReads(&cells[i], scope)
		if lacks := formats.Above(known); there && len(lacks) > 0 {
			out = append(out, api.Instance{Holder: cells[i].Holder, Host: cells[i].Instance, Version: cells[i].Version, Lacks: lacks})
		}
	}
	return out
}

// later gives which of some instances are there for a scope and read more than
// this release.
func later(cells []epochkv.HolderCell, scope string) []api.Instance {
	var out []api.Instance
	for i := range cells {
		if there, known := echoedReads(&cells[i], scope); there && len(known.Above(events.Release())) > 0 {
			out = append(out, api.Instance{Holder: cells[i].Holder, Host: cells[i].Instance, Version: cells[i].Version})
		}
	}
	return out
}

func named(instances []api.Instance) string {
	parts := make([]string, 0, len(instances))
	for _, i := range instances {
		parts = append(parts, i.String())
	}
	return strings.Join(parts, ", ")
}

// upgrade says how far an upgrade is, and what needs a person's eye about it; nil:
// there is none. Where no event has a later version nobody is asked for.
func (t *term) upgrade(ctx context.Context, formats events.Formats) (*api.Upgrade, []string) {
	ours := events.Release()
	up := &api.Upgrade{InForce: formats, Pending: ours.Above(formats)}
	if len(ours) == 0 && len(formats) == 0 {
		return nil, nil
	}
	others, err := t.svc.instances.list(ctx, t.svc, instancesAgain)
	if err != nil {
		return up, []string{"who else is there can't be read: " + err.Error()}
	}
	up.Behind = lacking(others, t.name, ours.With(formats))
	var notes []string
	if len(up.Pending) > 0 {
		note := fmt.Sprintf("events of release %s are not written yet (%s): there is a way back to the release before; when no instance of it will come back, run: leasesvc upgrade --finalize", t.svc.opts.Version, up.Pending)
		if len(up.Behind) > 0 {
			note += "; instances that can't read them: " + named(up.Behind)
		}
		notes = append(notes, note)
	}
	if left := lacking(others, t.name, formats); len(left) > 0 {
		notes = append(notes, fmt.Sprintf("instances that can't read the log any more (%s) and so don't stand in for this one: %s; replace them by release %s", formats, named(left), t.svc.opts.Version))
	}
	if len(notes) == 0 {
		return nil, nil
	}
	return up, notes
}

// finalize has everything written that this release writes, if all who are there
// for the scope can read it.
func (t *term) finalize(ctx context.Context) (api.Done, error) {
	release := t.svc.opts.Version
	formats, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any { return s.Formats })
	if err != nil {
		return api.Done{}, err
	}
	ours := events.Release()
	pending := ours.Above(formats.(events.Formats))
	others, err := t.svc.instances.list(ctx, t.svc, 0)
	if err != nil {
		return api.Done{}, fmt.Errorf("%w: who else is there can't be read: %w", errNotFinalized, err)
	}
	if ahead := later(others, t.name); len(ahead) > 0 {
		return api.Done{}, fmt.Errorf("%w: release %s leads the scope, and instances of a later one are there: %s; replace the others too, and finalize when the later one leads", errNotFinalized, release, named(ahead))
	}
	if len(pending) == 0 {
		return api.Done{Says: fmt.Sprintf("there is nothing to finalize: every version of events that release %s writes is in force", release)}, nil
	}
	if behind := lacking(others, t.name, ours); len(behind) > 0 {
		return api.Done{}, fmt.Errorf("%w: instances are there that can't read %s: %s; replace them by release %s, or stop them for good, first", errNotFinalized, pending, named(behind), release)
	}
	seq, err := t.do(ctx, leasecore.Finalize{}, operator(api.OpFinalize), func(s *leasecore.State) any { return s.LastSeq })
	if err != nil {
		return api.Done{}, err
	}
	return api.Done{Seq: seq.(uint64), Says: fmt.Sprintf("from here on events are written as release %s writes them (%s); no earlier release can lead this scope any more", release, pending)}, nil
}

func (e *endpoints) finalize(ctx context.Context, r micro.Request) {
	done, err := e.term.finalize(ctx)
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, done)
}
