package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/handover/document"
)

// settings are a document as it was read.
type settings struct {
	consumer.Document
	tree   any
	places []place
}

// place is where a lease's value goes.
type place struct {
	path  document.Path
	chain []document.Reference
	by    *document.Reference // whose value stands there; nil: none does
}

// reread reads the document; changed tells whether it says something else. One that
// is not there (yet) is [errNotYet].
func (t *target) reread(ctx context.Context) (changed bool, err error) {
	d, err := t.client.PartialDocument(ctx, t.cfg.Document)
	switch {
	case errors.Is(err, consumer.ErrUnknownName), errors.Is(err, consumer.ErrNone), errors.Is(err, consumer.ErrExpired):
		return false, fmt.Errorf("%w: %w", errNotYet, err)
	case err != nil:
		return false, err
	}
	next, err := settingsOf(d)
	if err != nil {
		return false, err
	}
	changed = t.doc == nil || t.doc.JSON().Reveal() != next.JSON().Reveal() || !samePlaces(t.doc.places, next.places)
	t.use(next)
	return changed, nil
}

// use makes a document the one to be shown.
func (t *target) use(d *settings) {
	t.doc = d
	used := map[string]bool{}
	if d != nil {
		for _, p := range d.places {
			for _, ref := range p.chain {
				if ref.Scheme == document.Lease {
					used[ref.Name] = true
				}
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = used
}

func settingsOf(d consumer.Document) (*settings, error) {
	s := &settings{Document: d}
	var err error
	if s.tree, err = render.Parse([]byte(d.JSON().Reveal())); err != nil {
		return nil, err
	}
	for _, p := range d.Places {
		var at place
		if at.path, err = document.ParsePath(p.Path); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		for _, text := range p.Chain {
			ref, err := document.ParseReference(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d, err)
			}
			at.chain = append(at.chain, ref)
			if text == p.By {
				at.by = &ref
			}
		}
		s.places = append(s.places, at)
	}
	return s, nil
}

func samePlaces(a, b []place) bool {
	text := func(places []place) string {
		var s strings.Builder
		for _, p := range places {
			fmt.Fprintf(&s, "%s=%v,", p.path, p.chain)
		}
		return s.String()
	}
	return text(a) == text(b)
}

// held gives the credential that a lease's places show: the candidate of a hand-over
// in flight, else what is committed; false: we don't take part in that lease, or
// nothing is committed.
func (t *target) held(lease string) (consumer.Credential, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.candidates[lease]; ok {
		return c, true
	}
	c, ok := t.current[lease]
	return c, ok
}

// content gives what is to be shown.
func (t *target) content() (any, error) {
	if t.cfg.Lease != "" {
		c, ok := t.held(t.cfg.Lease)
		if !ok {
			return nil, notYet("lease " + t.cfg.Lease)
		}
		return valuesOf(c)
	}
	if t.doc == nil {
		return nil, notYet("document " + t.cfg.Document)
	}
	tree := clone(t.doc.tree)
	for _, p := range t.doc.places {
		value, ok, err := t.valueAt(p)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", p.path, t.doc, err)
		}
		if ok {
			put(&tree, p.path.Steps(), value)
		} else if p.by == nil {
			return nil, notYet(fmt.Sprintf("a value for %s of %s", p.path, t.doc))
		}
	}
	return tree, nil
}

// valueAt gives what a lease that we hold gives a place; ok is false where what the
// service put there stands.
func (t *target) valueAt(p place) (value any, ok bool, err error) {
	refs := p.chain
	if p.by != nil {
		refs = []document.Reference{*p.by} // only the winner counts (L45)
	}
	for _, ref := range refs {
		if ref.Scheme != document.Lease {
			continue
		}
		c, held := t.held(ref.Name)
		if !held {
			continue
		}
		text, there := c.JSON(ref.Key)
		if !there {
			if p.by != nil {
				return nil, false, fmt.Errorf("the lease %s has no key %s", ref.Name, ref.Key)
			}
			continue
		}
		v, err := render.Parse([]byte(text.Reveal()))
		return v, err == nil, err
	}
	return nil, false, nil
}

// valuesOf gives a credential as a map.
func valuesOf(c consumer.Credential) (any, error) {
	out := map[string]any{}
	for _, k := range c.Keys() {
		text, _ := c.JSON(k)
		v, err := render.Parse([]byte(text.Reveal()))
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

// clone copies the maps and lists of a tree.
func clone(x any) any {
	switch x := x.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = clone(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = clone(v)
		}
		return out
	}
	return x
}

// put writes a value at a path that is there; the service and the path are of one
// answer, so what does not fit is left alone.
func put(tree *any, steps []document.Step, value any) {
	if len(steps) == 0 {
		*tree = value
		return
	}
	s := steps[0]
	switch x := (*tree).(type) {
	case map[string]any:
		v := x[s.Key]
		put(&v, steps[1:], value)
		x[s.Key] = v
	case []any:
		if s.IsIndex && s.Index < len(x) {
			put(&x[s.Index], steps[1:], value)
		}
	}
}

// refreshIn is when a document is asked for again: at the agent's pace, and in time
// for what it may be relied on where a lease is shown that we take no part in.
func (t *target) refreshIn(pace time.Duration) time.Duration {
	if t.doc == nil {
		return min(pace, time.Second)
	}
	for _, p := range t.doc.places {
		if p.by == nil || p.by.Scheme != document.Lease {
			continue
		}
		if _, ours := t.held(p.by.Name); !ours {
			return max(min(pace, time.Until(t.doc.GoodUntil)/2), 100*time.Millisecond)
		}
	}
	return pace
}
