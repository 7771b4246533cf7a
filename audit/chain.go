package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
)

// link is the part of an envelope that holds the chain together.
type link struct {
	Prev    string `json:"prev"`
	Segment string `json:"segment"`
	MAC     string `json:"mac"`
}

func linkOf(payload []byte) link {
	var l link
	if json.Unmarshal(payload, &l) != nil {
		return link{}
	}
	return l
}

// forged is an event whose MAC does not hold, until the next one tells whether
// it stood there before it was edited.
type forged struct {
	event   events.Event
	payload []byte
	mac     string
	at      *Finding
}

// misplaced is an event that follows one which is not there (yet).
type misplaced struct {
	mac string
	at  *Finding
}

// links judges the chain of one scope.
type links struct {
	s      *scope
	keys   map[string][]byte
	chain  events.Chain
	forged *forged
	// taken is the finding at which the chain was taken up anew, with the event
	// just looked at; before is the MAC it was at before.
	taken  *Finding
	before string
	// waiting has the misplaced events by the MAC that they follow.
	waiting map[string]misplaced
}

// maxWaiting bounds how many misplaced events wait for their explanation.
const maxWaiting = 1000

func newLinks(s *scope, keys map[string][]byte) *links {
	l := &links{s: s, keys: keys, waiting: map[string]misplaced{}, chain: events.NewChain(nil)}
	if len(keys) == 1 {
		for _, k := range keys {
			l.chain = events.NewChain(k)
		}
	}
	return l
}

// admit tells whether an event that decodes counts as one of the chain. What is
// wrong is told to the scope.
func (l *links) admit(e *events.Event, payload []byte) bool {
	is := linkOf(payload)
	if is.MAC == "" {
		l.s.find(about(e, Unsigned, "", "the %s of %s carries no MAC: somebody published it by hand; no instance counts it", e.Type(), e.Name))
		return false
	}
	next, keyed := l.under(e)
	_, err := next.Admit(payload, e.Seq)
	if errors.Is(err, events.ErrForged) {
		at := l.s.find(about(e, Forged, "", "the MAC of the %s of %s does not hold: somebody edited it, or wrote it without the key; no instance counts it", e.Type(), e.Name))
		l.forged = &forged{event: *e, payload: payload, mac: is.MAC, at: at}
		return false
	}
	if err != nil && l.forged != nil && l.forged.mac == is.Prev {
		l.edited()
		next = l.chain
		_, err = next.Admit(payload, e.Seq)
	}
	l.forged = nil
	if !keyed {
		l.s.find(about(e, Key, "", "epoch %d was opened under the seal key %q, which was not given: its MACs, up to the end of the epoch, can't be checked", e.Epoch, e.Data.(*events.Opened).SealKey))
	}
	if err != nil {
		l.broken(e, is, payload)
		return true
	}
	l.chain, l.taken, l.before = next, nil, ""
	l.explain(is.MAC, true)
	return true
}

// under gives the chain under the key of the epoch that an event opens; keyed is
// false when that key was not given.
func (l *links) under(e *events.Event) (chain events.Chain, keyed bool) {
	d, ok := e.Data.(*events.Opened)
	if !ok || len(l.keys) == 0 {
		return l.chain, true
	}
	key, keyed := l.keys[d.SealKey]
	chain = events.NewChain(key)
	chain.Resume(l.chain.State())
	return chain, keyed
}

// edited takes up the chain behind an event that was edited where it stands,
// and folds what it says now.
func (l *links) edited() {
	f := l.forged
	if f.at != nil {
		f.at.Kind = Edited
		f.at.Says = fmt.Sprintf("the %s of %s was edited: its MAC does not hold, and the event after it follows it", f.event.Type(), f.event.Name)
	}
	l.take(&f.event, linkOf(f.payload), f.payload)
	l.s.mute(f.event.Name)
	l.s.fold(&f.event)
}

// broken says why a genuine event does not follow the one before it, as far as
// that shows already, and takes up the chain where it makes sense.
func (l *links) broken(e *events.Event, is link, payload []byte) {
	last, _, atOpened := l.chain.State()
	if l.taken != nil && is.Prev == l.before {
		// The event before stands between two that follow each other.
		l.taken.Kind = Inserted
		l.taken.Says = fmt.Sprintf("the %s of %s stands between two events that follow each other: it was inserted, or moved here", l.taken.Type, l.taken.Name)
		l.s.mute(l.taken.Name)
		l.taken, l.before = nil, ""
		if !l.explain(is.MAC, false) {
			l.take(e, is, payload)
		}
		return
	}
	if l.explain(is.MAC, false) {
		l.s.mute(e.Name)
		return // it had to stand earlier; the chain is further already
	}
	says := fmt.Sprintf("the event before the %s of %s is not there: what stood between sequence %d and it was removed", e.Type(), e.Name, l.s.lastSeq)
	atEnd := atOpened && is.Prev == last
	switch {
	case l.s.lastSeq == 0:
		says = fmt.Sprintf("the %s of %s follows an event that is not there: the beginning of the scope's log was removed", e.Type(), e.Name)
	case atEnd:
		says = fmt.Sprintf("the %s of %s carries the end of the epoch before, which is not there: what stood before the opened at sequence %d was removed", e.Type(), e.Name, l.s.lastSeq)
	}
	at := l.s.find(about(e, Missing, "", "%s", says))
	if !atEnd && is.Prev != "" && len(l.waiting) < maxWaiting {
		l.waiting[is.Prev] = misplaced{mac: is.MAC, at: at}
	}
	l.taken, l.before = at, last
	l.take(e, is, payload)
}

// explain looks whether an earlier event had to follow the one with this MAC:
// then they were swapped. linked: the one with this MAC follows the one before
// it, so the chain goes on with the one that stands earlier.
func (l *links) explain(mac string, linked bool) bool {
	w, ok := l.waiting[mac]
	if !ok {
		return false
	}
	delete(l.waiting, mac)
	if w.at != nil {
		w.at.Kind = Moved
		w.at.Says = fmt.Sprintf("the %s of %s stands before the event that it follows, which is at sequence %d: they were swapped", w.at.Type, w.at.Name, l.s.looking)
		l.s.mute(w.at.Name)
	}
	if linked {
		l.chain.Resume(w.mac, "", false)
	}
	return true
}

// take takes the chain up behind an event, whatever it follows.
func (l *links) take(e *events.Event, is link, payload []byte) {
	free := events.NewChain(nil)
	if e.Type() == events.TypeOpened {
		free.Resume(l.chain.State())
	} else {
		free.Resume(is.Prev, is.Segment, true)
	}
	if _, err := free.Admit(payload, e.Seq); err != nil { // an opened that carries a link
		free.Resume(is.MAC, "", true)
	}
	l.chain.Resume(free.State())
}

// skip takes the chain up behind an event of a later release.
func (l *links) skip(t events.Type, payload []byte) {
	last, _, _ := l.chain.State()
	if mac := linkOf(payload).MAC; t == events.TypeOpened {
		l.chain.Resume(mac, last, true)
	} else {
		l.chain.Resume(mac, "", false)
	}
}
