package sim

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

var errNotLeading = errors.New("not leading any more")

// op is one append under way: at most one per instance.
type op struct {
	t        *instance
	term     int
	expect   uint64
	evs      []events.Event
	payloads [][]byte
	chain    events.Chain   // after it
	rest     []events.Event // of the same decision, appended after it
	decided  decision
	opened   bool // it opens an epoch
	commits  bool // it installs a lease
	unknown  bool // no answer will come
	// reopen is the opened event that settles an unknown outcome.
	reopen *op
}

// decision is a batch and what was decided of it.
type decision struct {
	batch []request
	errs  []error
	ends  []int // how many events there are up to the end of each
	in    int   // how many of them are in the log
}

// installs tells whether the op commits a lease of the name.
func (o *op) installs(name string) bool {
	for i := range o.evs {
		if o.evs[i].Name == name && o.evs[i].Type() == events.TypeInstalled {
			return true
		}
	}
	return false
}

// hitBatch counts a fault of an append for every name that it is about.
func (w *world) hitBatch(f Fault, o *op) {
	if o.opened {
		w.hit(f, "")
		return
	}
	for _, n := range w.names {
		if slices.ContainsFunc(o.evs, func(e events.Event) bool { return e.Name == n }) {
			w.hit(f, n)
		}
	}
}

// hasWork tells whether the loop has something to do now.
func (t *instance) hasWork() bool {
	switch {
	case t.role != leading:
		return false
	case t.op != nil:
		return t.op.unknown
	case len(t.queue) > 0 || len(t.injected) > 0 || t.deposed && !t.hangs && !t.w.peaceful && t.w.now.Sub(t.renewed) >= heartbeat:
		return true
	case t.draining && !t.inFlight():
		return true
	}
	now := t.clock()
	for i := range t.dirty {
		if t.dirty[i] || !t.wakeAt[i].IsZero() && !t.wakeAt[i].After(now) {
			return true
		}
	}
	return slices.ContainsFunc(t.running, func(j *job) bool { return !j.again.IsZero() && !j.again.After(t.w.now) })
}

// work is one turn of the scope's loop.
func (t *instance) work() {
	w := t.w
	if t.op != nil {
		t.settleOutcome()
		return
	}
	if t.deposed && !t.hangs && w.now.Sub(t.renewed) >= heartbeat && w.choice.chance(500) {
		t.standDown("its renewal is refused")
		return
	}
	for _, j := range slices.Clone(t.running) {
		if !j.again.IsZero() && !j.again.After(w.now) {
			j.send()
		}
	}
	if len(t.injected) > 0 {
		evs := t.injected
		t.injected = nil
		t.append(evs, decision{})
		return
	}
	if t.draining && !t.inFlight() {
		t.commit([]request{{command: leasecore.Release{Holder: t.holderID()}}})
		return
	}
	if batch := t.gather(); len(batch) > 0 {
		t.commit(batch)
	}
}

func (t *instance) inFlight() bool {
	for _, name := range t.w.names {
		if n := t.p.State().Name(name); n != nil && n.InFlight() {
			return true
		}
	}
	return len(t.queue) > 0
}

// gather takes what is queued and due.
func (t *instance) gather() []request {
	batch := t.batchRoom[:0]
	now := t.clock()
	t.gatheredAt = now
	for i, name := range t.w.names {
		due := !t.wakeAt[i].IsZero() && !t.wakeAt[i].After(now)
		if t.dirty[i] || due {
			t.dirty[i] = false
			if due {
				t.wakeAt[i] = time.Time{}
			}
			batch = append(batch, request{command: leasecore.Tick{Name: name}})
		}
	}
	batch = append(batch, t.queue...)
	t.queue = nil
	return batch
}

// commit decides a batch and appends what was decided.
func (t *instance) commit(batch []request) {
	for i := range batch {
		if batch[i].confirm {
			e := batch[i].job.effect
			t.p.State().Confirm(e.Name, e.Incarnation, e.N)
		}
		if j := batch[i].job; j != nil && j.polled != nil {
			t.p.State().Polled(j.effect.Name, j.polled.at, j.polled.failed, j.polled.reread)
			j.polled = nil
		}
	}
	t.plantBeforeDeciding()
	draft := leasecore.NewDraft(t.p.State())
	now := t.clock()
	var evs []events.Event
	d := decision{batch: slices.Clone(batch), errs: make([]error, len(batch)), ends: make([]int, len(batch))}
	for i := range batch {
		at := leasecore.At{Now: now, ID: t.w.newID(), Draining: t.draining}
		r := &d.batch[i]
		put := r.adopts != nil && !r.begun && t.adoption(r)
		out, err := leasecore.Decide(draft, at, r.command)
		if !r.begun {
			d.errs[i] = err
		}
		if put && err != nil {
			delete(t.w.store, r.command.(leasecore.Adopt).Lease)
		}
		evs = append(evs, out...)
		d.ends[i] = len(evs)
		if err != nil && broken(err) {
			t.w.failf("core", "deciding %T: %v", r.command, err)
		}
	}
	t.append(evs, d)
}

// adoption puts an adopted lease's values away under the next number, as the
// service does before it asks the core. False: it comes to nothing, since the
// number's are there already, or there is no such lease to adopt.
func (t *instance) adoption(r *request) bool {
	g, c := r.adopts, r.command.(leasecore.Adopt)
	before := c.Lease // of a batch that is decided again
	c.Lease = t.p.State().LastLease + 1
	n := t.p.State().Name(c.Name)
	if n == nil || n.Definition == nil {
		return false
	}
	if g.vault == "" {
		g.vault = n.Definition.Vault
	}
	if there, taken := t.w.store[c.Lease]; taken && (before != c.Lease || there != g.secret) || t.w.purged[c.Lease] || !g.alive(t.w.now) {
		c.Lease = 0
		r.command = c
		return false
	}
	c.Adopted.Acquired = events.Acquired{
		LeaseID: g.id, TTL: events.FromDuration(max(g.ends.Sub(t.w.now), 0)), Renewable: g.renewable, SentAt: t.clock(),
		Keys: []string{"password", "username"}, Fingerprint: "f" + g.id,
	}
	c.Adopted.Vault = g.vault
	g.owners = append(g.owners, owner{c.Name, c.Lease})
	t.w.store[c.Lease] = g.secret
	r.command = c
	return true
}

// broken tells an error that no command may come to: what was decided does not
// fit the state, or there is no end to it.
func broken(err error) bool {
	var inconsistent *leasecore.InconsistentError
	return errors.As(err, &inconsistent) || strings.Contains(err.Error(), "does not settle")
}

// mostApart is up to how many events go one by one where the log has one replica
// (journal.Log.Apart).
const mostApart = 6

// append sends events to the log; with none, it is settled at once.
func (t *instance) append(evs []events.Event, d decision) {
	w := t.w
	if len(evs) == 0 {
		t.settle(d.batch, d.errs)
		return
	}
	w.aheadMost = max(w.aheadMost, t.ahead)
	o := &op{t: t, term: t.term, expect: t.fence, evs: evs, decided: d}
	if w.apart && len(evs) <= mostApart {
		o.evs, o.rest = evs[:1], evs[1:]
	}
	if w.codec {
		o.chain = t.chain
		o.payloads = t.seal(&o.chain, o.evs)
	}
	t.op = o
	slow := 250
	o.commits = slices.ContainsFunc(o.evs, func(e events.Event) bool { return e.Type() == events.TypeInstalled })
	if o.commits {
		slow = 650
	}
	if w.peaceful || !w.choice.chance(slow) {
		o.arrive(nil)
		return
	}
	if w.choice.chance(40) {
		w.hitBatch(CrashBeforeAppend, o)
		t.crash()
		return
	}
	f := &flight{kind: flyAppend, op: o}
	w.fly(f)
	if o.commits && w.choice.chance(500) {
		f.late = true // it takes its time, and much can happen meanwhile
		return
	}
	t.maybeUnknown()
}

// arrive has an append reach the log, and its answer the sender.
func (o *op) arrive(f *flight) {
	t, w := o.t, o.t.w
	waits := t.op == o && !o.unknown && o.reopen == nil && t.leads(o.term)
	last := w.log.last() + uint64(len(o.evs))
	stored := w.log.store(o.expect, o.evs, o.payloads)
	switch {
	case !waits:
	case !stored:
		t.standDown("fenced")
	case f != nil && w.choice.chance(60):
		w.hitBatch(AppendAnswerLost, o)
		o.unknown = true
	case f != nil && w.choice.chance(40):
		w.hitBatch(CrashAfterAppend, o)
		t.crash()
	default:
		t.landed(last)
	}
}

// landed has the op's own events become state, with what else of ours was found.
func (t *instance) landed(last uint64) {
	o := t.op
	t.op = nil
	if t.w.opts.Mutant == NoFence {
		for i := range o.evs {
			e := o.evs[i]
			e.Seq = last - uint64(len(o.evs)-1-i)
			if err := t.p.Adopt(&e); err != nil {
				t.w.failf("I6", "%s folds its own %s: %v", t.name, e.Type(), err)
			}
			t.touch(&e)
		}
	} else {
		t.catchUp(last)
	}
	t.chain = o.chain
	t.plantAfter(o)
	t.goOn(o)
}

// goOn appends what is left of the decision whose op is in the log, or settles it.
func (t *instance) goOn(o *op) {
	d := o.decided
	d.in += len(o.evs)
	if len(o.rest) > 0 {
		t.append(o.rest, d)
		return
	}
	t.settle(d.batch, d.errs)
}

// catchUp folds the log behind what is folded, up to seq.
func (t *instance) catchUp(seq uint64) {
	for s := t.p.LastSeq() + 1; s <= seq; s++ {
		e := t.w.log.at(s).event
		sharing := t.p.State().Sharing(e.Name, e.Lease)
		t.adopt(s)
		t.touch(e)
		for _, name := range sharing {
			if i := slices.Index(t.w.names, name); i >= 0 {
				t.dirty[i] = true
			}
		}
	}
	t.tail = seq
}

func (t *instance) touch(e *events.Event) {
	if i := slices.Index(t.w.names, e.Name); i >= 0 {
		t.dirty[i] = true
	}
	switch e.Type() {
	case events.TypeInstalled:
		t.p.State().Installed(e.Name, t.clock())
	case events.TypeApplied:
		t.p.State().Redefined(e.Name, t.clock())
	}
}

// settleOutcome finds out what became of an append without an answer (P4).
func (t *instance) settleOutcome() {
	o, w := t.op, t.w
	if _, epoch := w.log.lastOpened(); o.reopen == nil {
		// Look once: found decides.
		if epoch != t.epoch {
			t.standDown("fenced, as the log shows")
			return
		}
		if seq, ok := w.log.holds(o.evs[len(o.evs)-1].ID, t.tail); ok {
			t.landed(seq)
			return
		}
		if w.opts.Mutant == TailDecides {
			t.notLanded()
			return
		}
		// Not found decides nothing: move the fence.
		r := &op{t: t, term: t.term, expect: t.fence, opened: true, evs: []events.Event{t.openedEvent(events.HowReopened)}}
		if w.codec {
			chain := t.chain
			r.payloads = t.seal(&chain, r.evs)
		}
		o.reopen = r
	} else if seq, _ := w.log.lastOpened(); seq != o.reopen.expect {
		if w.log.at(seq).event.ID != o.reopen.evs[0].ID {
			t.standDown("fenced while settling")
			return
		}
		t.reopened(seq)
		return
	}
	o.unknown = false
	f := &flight{kind: flyOpened, op: o.reopen}
	w.flights = append(w.flights, f)
	if w.peaceful {
		return
	}
	switch v := w.choice.below(100); {
	case v >= 94:
		w.hitBatch(AppendLate, o)
		f.late, o.unknown = true, true
	case v >= 90:
		w.hitBatch(AppendLost, o)
		w.flights = w.flights[:len(w.flights)-1]
		o.unknown = true
	}
}

// arriveOpened has an opened event reach the log, of a claim or a settlement.
func (o *op) arriveOpened(*flight) {
	t, w := o.t, o.t.w
	fresh := t.role == opening && t.op == o
	settling := t.role == leading && t.op != nil && t.op.reopen == o
	stored := w.log.store(o.expect, o.evs, o.payloads)
	switch seq := w.log.last(); {
	case fresh && o.unknown || settling && t.op.unknown:
		// Nobody hears the answer.
	case !stored && fresh:
		t.standDown("somebody else opened")
	case !stored && settling:
		// An earlier attempt of ours may be what stands there: look.
		t.op.unknown = true
	case fresh && w.choice.chance(40):
		w.hit(AppendAnswerLost, "")
		o.unknown = true
	case fresh && w.choice.chance(40):
		w.hit(CrashAfterAppend, "")
		t.crash()
	case fresh:
		t.opened(seq)
	case settling && w.choice.chance(60):
		w.hitBatch(AppendAnswerLost, t.op)
		t.op.unknown = true
	case settling:
		t.reopened(seq)
	}
}

// reopened ends a settlement: what is not below the new fence never lands.
func (t *instance) reopened(fence uint64) {
	o := t.op
	seq, ok := t.w.log.holds(o.evs[len(o.evs)-1].ID, t.tail)
	t.fence = fence
	if ok && seq < fence {
		t.op = nil
		t.catchUp(fence)
		t.chain = t.w.log.at(fence).chain
		t.goOn(o)
		return
	}
	t.catchUp(fence)
	t.chain = t.w.log.at(fence).chain
	t.notLanded()
}

// notLanded has decided again, on what now is the state, what the log does not have
// of the decision. A request with some of its events there has happened.
func (t *instance) notLanded() {
	d := t.op.decided
	t.op = nil
	if len(d.batch) == 0 { // a mutant's
		t.settle(nil, nil)
		return
	}
	if d.in > 0 {
		whole := slices.IndexFunc(d.ends, func(end int) bool { return end > d.in })
		d.batch[whole].begun = whole == 0 || d.ends[whole-1] < d.in
		t.settle(d.batch[:whole], d.errs[:whole])
		if t.role != leading {
			return
		}
		d.batch = d.batch[whole:]
	}
	t.commit(d.batch)
}

// touches tells whether a batch is about a name.
func touches(batch []request, name string) bool {
	for i := range batch {
		if j := batch[i].job; j != nil && j.effect.Name == name {
			return true
		}
		if tick, ok := batch[i].command.(leasecore.Tick); ok && tick.Name == name {
			return true
		}
	}
	return false
}

// settle answers the requests of an append and brings the effects in line with
// the state.
func (t *instance) settle(batch []request, errs []error) {
	for i := range batch {
		if j := batch[i].job; j != nil {
			t.finished(j)
		}
	}
	state := t.p.State()
	now := t.clock()
	for i, name := range t.w.names {
		if !t.dirty[i] && !touches(batch, name) {
			continue
		}
		t.sync(name, state.Owed(name, now))
		t.wakeAt[i], _ = state.Wake(name, t.gatheredAt)
		if n := state.Name(name); n != nil && n.Pending != nil && t.w.opts.Mutant == RetryLost {
			t.wakeAt[i] = time.Time{}
		}
	}
	for i := range batch {
		if _, released := batch[i].command.(leasecore.Release); released {
			t.w.cell.released = t.w.cell.holder == t && t.w.cell.boot == t.boot || t.w.cell.released
			t.standDown("released")
			return
		}
	}
	for i := range batch {
		if batch[i].done != nil {
			batch[i].done(state, errs[i])
		}
	}
	if t.w.choice.chance(10) {
		t.w.checkLive(t)
	}
}

func (f file) digest() string { return strconv.FormatUint(f.revision, 10) }
