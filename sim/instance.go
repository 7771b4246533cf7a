package sim

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

type role uint8

const (
	standingBy role = iota
	claiming        // the last opened was read, the cell not yet claimed
	opening         // the cell is claimed, the opened event not in the log
	leading
)

// instance is a running service: what service/scope.go and service/term.go do,
// one step at a time.
type instance struct {
	w    *world
	id   int
	name string
	boot int
	up   bool
	role role
	// ahead is by how much its clock is before the true time.
	ahead time.Duration

	// deposed: its next renewal will be refused. hangs: it renews no more.
	deposed, hangs bool
	renewed        time.Time
	fileAt         int // the definitions file that it has

	readSeq, readEpoch uint64 // the last opened, as read before the claim
	epoch, fence, tail uint64
	followed           uint64 // up to where it followed while standing by

	// The term.
	term   int
	p      *projector.Projection
	chain  events.Chain
	queue  []request
	dirty  []bool
	wakeAt []time.Time
	// gatheredAt is when the last batch was gathered.
	gatheredAt time.Time
	running    []*job
	op         *op
	draining   bool
	injected   []events.Event
	absence    map[string]*absence
	batchRoom  [8]request
}

type absence struct {
	lasted time.Duration
	last   time.Time
}

// request is a command on its way to the scope's loop.
type request struct {
	command leasecore.Command
	job     *job // whose outcome it is
	confirm bool // the job's incarnation confirmed the job's n
	begun   bool // some of its events are in the log
	done    func(s *leasecore.State, err error)
	adopts  *grant // what an Adopt takes over
}

func newInstance(w *world, i int) *instance {
	return &instance{w: w, id: i, name: [...]string{"s0", "s1", "s2"}[i], boot: 1, up: true, absence: map[string]*absence{}}
}

// clock is the instance's clock: it never goes back, and may be ahead.
func (t *instance) clock() time.Time { return t.w.now.Add(t.ahead) }

// canStep tells whether there is a step towards leading.
func (t *instance) canStep() bool {
	switch t.role {
	case leading:
		return false
	case standingBy, claiming:
		return !t.up || t.w.claimable(t)
	default:
		return t.op == nil || t.op.unknown
	}
}

// standByStep starts a process that is down, or makes one step of a claim (P1).
func (t *instance) standByStep() {
	w := t.w
	switch {
	case !t.up:
		t.up, t.hangs, t.deposed = true, false, false
		t.boot++
		t.ahead = 0
		w.notef("%s starts", t.name)
	case t.role == standingBy:
		t.readSeq, t.readEpoch = w.log.lastOpened()
		t.followed = w.log.last()
		t.role = claiming
	case t.role == claiming:
		t.epoch = w.claim(t)
		if t.epoch <= t.readEpoch {
			t.role = standingBy
			return
		}
		t.role = opening
		w.notef("%s claims epoch %d, the last opened is at %d", t.name, t.epoch, t.readSeq)
	default:
		t.open()
	}
}

// open sends the opened event, on the expectation of what was read before the
// claim; again while its outcome is unknown.
func (t *instance) open() {
	w := t.w
	if t.op == nil {
		t.noteBehind()
		expect := t.readSeq
		if w.opts.Mutant == OpenUnderLowerEpoch {
			expect = w.log.opened
		}
		t.op = &op{t: t, term: t.term, expect: expect, opened: true}
		t.op.evs = []events.Event{t.openedEvent(events.HowQuiet)}
		if w.codec {
			chain := events.NewChain(macKey)
			t.op.payloads = t.seal(&chain, t.op.evs)
		}
	} else if seq, epoch := w.log.lastOpened(); seq != t.op.expect {
		if _, ours := w.log.holds(t.op.evs[0].ID, t.op.expect); !ours || epoch != t.epoch {
			t.standDown("another epoch was opened")
			return
		}
		t.opened(seq)
		return
	}
	t.op.unknown = false
	w.fly(&flight{kind: flyOpened, op: t.op})
	t.maybeUnknown()
}

// maybeUnknown has the last flight be late or lost, and its sender not know.
func (t *instance) maybeUnknown() {
	w := t.w
	if w.peaceful {
		return
	}
	f := w.flights[len(w.flights)-1]
	switch v := w.choice.below(100); {
	case v >= 97:
		w.hitBatch(AppendLost, t.op)
		w.flights = w.flights[:len(w.flights)-1]
		t.op.unknown = true
	case v >= 94:
		w.hitBatch(AppendLate, t.op)
		f.late = true
		t.op.unknown = true
	}
}

func (t *instance) openedEvent(how string) events.Event {
	w := t.w
	id := w.newID()
	data := &events.Opened{Holder: t.holderID(), How: how, Attempt: id}
	if how == events.HowQuiet {
		data.Overlap = events.FromDuration(quietWindow)
	}
	return events.Event{
		ID: id, Scope: scopeName, Name: events.EpochName, Epoch: t.epoch, Time: t.clock(), Actor: events.Actor{Name: t.name}, Data: data,
	}
}

func (t *instance) holderID() string { return t.name + string(rune('A'+t.boot%26)) }

func (t *instance) seal(chain *events.Chain, evs []events.Event) [][]byte {
	out := make([][]byte, len(evs))
	for i := range evs {
		b, err := chain.Seal(&evs[i])
		if err != nil {
			t.w.failf("codec", "sealing a %s: %v", evs[i].Type(), err)
		}
		out[i] = b
	}
	return out
}

// opened begins the term: the log up to and including our own opened event is
// folded anew (P2, I6).
func (t *instance) opened(seq uint64) {
	w := t.w
	t.op = nil
	t.role, t.fence, t.tail = leading, seq, seq
	t.deposed, t.hangs, t.draining = w.cell.revision != t.epoch, false, false
	t.renewed = w.now
	t.term++
	upTo := seq
	if w.opts.Mutant == StandbysState {
		upTo = min(t.followed, seq-1)
	}
	t.p = projector.New(scopeName, nil)
	for s := uint64(1); s <= upTo; s++ {
		t.adopt(s)
	}
	if upTo < seq {
		t.adopt(seq)
	}
	t.chain = w.log.at(seq).chain
	if w.log.last() == seq && upTo == seq {
		w.checkSame("the log folded anew", t.p)
	}
	t.noteBehind()
	t.queue, t.running, t.injected = nil, nil, nil
	t.dirty = make([]bool, len(w.names))
	t.wakeAt = make([]time.Time, len(w.names))
	t.gatheredAt = t.clock()
	clear(t.absence)
	for i := range t.dirty {
		t.dirty[i] = true
	}
	w.notef("%s leads epoch %d from %d", t.name, t.epoch, seq)
	t.plantAtTakeover()
	if t.epoch != w.log.at(seq).event.Epoch {
		w.failf("P1", "%s leads epoch %d, the log says %d", t.name, t.epoch, w.log.at(seq).event.Epoch)
	}
	t.applyFile()
}

func (t *instance) adopt(seq uint64) {
	if err := t.p.Adopt(t.w.log.at(seq).event); err != nil {
		t.w.failf("I6", "%s folds sequence %d: %v", t.name, seq, err)
	}
}

// applyFile submits the definitions file that this instance has.
func (t *instance) applyFile() {
	f := t.w.files[t.fileAt]
	t.queue = append(t.queue, request{command: leasecore.ApplyDefinitions{Revision: f.revision, Digest: f.digest(), Definitions: f.defs}})
}

// standDown ends a term or a claim; what is under way stays under way.
func (t *instance) standDown(why string) {
	w := t.w
	w.notef("%s stands down: %s", t.name, why)
	if t.op != nil && t.op.decided.in > 0 {
		w.hitBatch(AppendedInPart, t.op)
	}
	for _, r := range t.queue {
		if r.done != nil {
			r.done(nil, errNotLeading)
		}
	}
	t.role, t.op, t.p, t.queue, t.running = standingBy, nil, nil, nil, nil
	t.term++
	t.draining = false
}

// crash ends the process, at once.
func (t *instance) crash() {
	t.w.notef("%s crashes", t.name)
	t.queue = nil
	t.standDown("killed")
	t.up = false
}

// crashNow is a crash at any moment: before what is under way, after what was
// done and is not recorded.
func (t *instance) crashNow() {
	w := t.w
	if t.op != nil {
		w.hitBatch(CrashBeforeAppend, t.op)
	}
	for i := range t.queue {
		if j := t.queue[i].job; j != nil && j.kind == 0 {
			w.hit(CrashAfterEffect, j.effect.Name)
		}
	}
	for _, j := range t.running {
		if j.kind == 0 && !j.performed {
			w.hit(CrashBeforeEffect, j.effect.Name)
		}
	}
	t.crash()
}

// noteBehind keeps a new holder's clock from running behind the one that the log
// was stamped by (C51): the server's time at each event tells how far ahead that
// was.
func (t *instance) noteBehind() { t.ahead = max(t.ahead, t.w.aheadMost) }

// leads tells whether the instance is in the term.
func (t *instance) leads(term int) bool { return t.role == leading && t.term == term }

// fresh tells whether its last renewal is young enough for readers (E21).
func (t *instance) fresh() bool {
	age := t.w.now.Sub(t.renewed)
	switch {
	case t.hangs:
		return age < quietWindow
	default:
		return !t.deposed || age < heartbeat
	}
}

// nextDeadline is when its loop wakes by itself, or a message is due again.
func (t *instance) nextDeadline() (at time.Time, ok bool) {
	if t.role != leading {
		return at, false
	}
	for i := range t.wakeAt {
		if wake := t.wakeAt[i]; !wake.IsZero() && (!ok || wake.Before(at)) {
			at, ok = wake, true
		}
	}
	if ok {
		at = at.Add(-t.ahead)
	}
	for _, j := range t.running {
		if !j.again.IsZero() && (!ok || j.again.Before(at)) {
			at, ok = j.again, true
		}
	}
	return at, ok
}
