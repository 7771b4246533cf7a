package sim

import (
	"slices"
	"strconv"
	"time"
)

// application is one place where a consumer of a name runs; each start is an
// incarnation. It follows the rules of package consumer (P9 to P11).
type application struct {
	w        *world
	name     string
	instance string
	starts   int
	up       bool
	inc      string
	liar     bool // what it says can't be relied on
	hung     bool
	cutOff   bool // no message reaches it or leaves it

	answered bool
	replaces string
	epoch    uint64
	taken    task
	running  *task
	next     *task
	askAt    time.Time
	pause    time.Duration

	// uses are the leases it may have sessions with; excused those of them
	// that may be revoked all the same, since it counted as gone.
	uses    []uint64
	excused []uint64
	left    bool   // it counts as gone, and what it takes now is its own affair
	before  uint64 // what it had before the last prepare
	// heard is the last message that reached it, asking who sent it.
	heard  message
	asking asked
}

// task is something the holder asked for.
type task struct {
	n       uint64
	kind    messageKind
	lease   uint64
	said    verdict
	waiting []asked
	ends    time.Time // of a prepare
	// verdictBy is when its outcome should be known.
	verdictBy time.Time
}

// asked is a message that waits for its reply.
type asked struct {
	job   *job
	kind  messageKind
	epoch uint64
}

const (
	registerEvery = 30 * time.Second
	verdictGrace  = 5 * time.Second
)

func newApplication(w *world, name string, i int) *application {
	a := &application{w: w, name: name, instance: [...]string{"i0", "i1"}[i]}
	a.liar = w.choice.chance(180)
	if !w.choice.chance(150) {
		a.begin()
	}
	return a
}

// begin starts a new incarnation; the one before it is dead.
func (a *application) begin() {
	a.starts++
	w := a.w
	*a = application{w: w, name: a.name, instance: a.instance, starts: a.starts, liar: a.liar, up: true, inc: a.id(a.starts), askAt: w.now}
}

func (a *application) id(start int) string {
	return a.name + "-" + a.instance + "-" + strconv.Itoa(1000+start)
}

// die ends it with all its sessions.
func (a *application) die() {
	a.up, a.hung, a.uses, a.running, a.next = false, false, nil, nil, nil
	a.askAt = time.Time{}
}

// canAct tells whether it would do something by itself now.
func (a *application) canAct() bool {
	return a.up && !a.askAt.IsZero() && !a.askAt.After(a.w.now)
}

func (a *application) nextDeadline() time.Time {
	if !a.up {
		return time.Time{}
	}
	return a.askAt
}

// act registers: at the start, again while there is no answer, and as a sign of
// life.
func (a *application) act() {
	a.pause = min(max(2*a.pause, 500*time.Millisecond), 10*time.Second)
	a.askAt = a.w.now.Add(a.pause)
	if a.cutOff {
		return
	}
	a.w.fly(&flight{kind: flyRegister, app: a, reg: registration{inc: a.inc, replaces: a.replaces}})
}

// toConsumer has a message reach an incarnation, or nobody.
func (w *world) toConsumer(f *flight) {
	m := f.msg
	for _, a := range w.apps {
		if a.up && a.is(m.inc) && !a.cutOff {
			a.receive(m, f.job)
			return
		}
	}
	f.job.nobodyThere()
}

// is tells whether a message to an incarnation is for this one. The mutant that
// takes a prepare too early has, as in the model, messages for whoever is there.
func (a *application) is(inc string) bool {
	if a.w.opts.Mutant == PrepareBeforeAnswer {
		return a.inc[:len(a.inc)-4] == inc[:len(inc)-4]
	}
	return a.inc == inc
}

func (a *application) reply(q asked, n uint64, v verdict) {
	if q.job == nil {
		return
	}
	inc := a.inc
	if a.is(q.job.effect.Incarnation) {
		inc = q.job.effect.Incarnation
	}
	a.w.fly(&flight{kind: flyReply, job: q.job, msg: message{kind: q.kind, epoch: q.epoch, n: n, inc: inc, verdict: v, reason: "because"}})
}

func (a *application) replyAll(t *task, v verdict) {
	for _, q := range t.waiting {
		a.reply(q, t.n, v)
	}
	t.waiting = nil
}

func (t *task) prepares() bool { return t.kind == prepare }
func (t *task) repeats(last *task) bool {
	return t.lease == last.lease && t.prepares() == last.prepares()
}
func (t *task) amends(last *task) bool {
	return !t.prepares() && !last.prepares() && t.lease != last.lease
}

// receive takes a message or not (P10).
func (a *application) receive(m message, j *job) {
	w := a.w
	if !a.answered && w.opts.Mutant != PrepareBeforeAnswer && w.opts.Mutant != ConsumerChecksNothing {
		return
	}
	q := asked{job: j, kind: m.kind, epoch: m.epoch}
	a.heard, a.asking = m, q
	t := task{n: m.n, kind: m.kind, lease: m.lease, ends: m.deadline, waiting: []asked{q}}
	if a.liar && w.choice.chance(500) && !w.peaceful {
		w.hit(ConsumerLies, a.name)
		a.lie(q, m)
		return
	}
	switch w.opts.Mutant {
	case ConsumerChecksNothing:
		a.take(t)
		return
	case ConsumerComparesEpochs:
		if m.epoch >= a.epoch {
			a.epoch = m.epoch
			a.take(t)
		}
		return
	}
	if m.epoch < a.epoch || m.n < a.taken.n {
		a.reply(q, m.n, stale)
		return
	}
	a.epoch = m.epoch
	switch {
	case m.n > a.taken.n, t.amends(&a.taken):
		a.take(t)
	case t.repeats(&a.taken):
		a.repeat(t)
	}
}

// lie says anything, whatever it did.
func (a *application) lie(q asked, m message) {
	switch a.w.choice.below(4) {
	case 0:
		a.reply(q, m.n, yes)
	case 1:
		a.reply(q, m.n, confirmed)
	case 2:
		a.reply(q, m.n, vague)
	default:
		a.reply(q, m.n+7, confirmed)
	}
}

// repeat handles the n that was taken last: the same answer again, or the same
// wait, or another try.
func (a *application) repeat(t task) {
	if a.taken.said != 0 {
		a.replyAll(&t, a.taken.said)
		return
	}
	open := a.running
	if a.next != nil {
		open = a.next
	}
	if open != nil && open.n == t.n {
		open.waiting = append(open.waiting, t.waiting...)
		return
	}
	if t.n > 0 {
		a.take(t)
	}
}

// take starts what is above all that was taken. Moves never overlap.
func (a *application) take(t task) {
	a.taken = task{n: t.n, kind: t.kind, lease: t.lease}
	if a.running == nil {
		a.startMove(t)
		return
	}
	if a.next != nil {
		a.replyAll(a.next, stale)
	}
	a.next = &t
}

func (a *application) startMove(t task) {
	a.running = &t
	w := a.w
	w.notef("%s begins to %s %d, n=%d", a.inc, t.kind, t.lease, t.n)
	if t.kind == prepare {
		a.before = 0
		if len(a.uses) > 0 {
			a.before = a.uses[0]
		}
	}
	// From here on it may have sessions with it.
	if t.lease != 0 && w.vault.works(t.lease) {
		a.add(t.lease)
	}
	if !w.peaceful && !a.hung && w.choice.chance(40) {
		w.hit(ConsumerHangs, a.name)
		a.hung = true
	}
	if a.hung {
		return
	}
	w.flights = append(w.flights, &flight{kind: flyMove, app: a, move: a.running})
}

func (a *application) add(lease uint64) {
	if !slices.Contains(a.uses, lease) {
		a.uses = append(a.uses, lease)
		if a.left {
			a.excused = append(a.excused, lease)
		}
	}
}

func (a *application) drop(lease uint64) {
	if i := slices.Index(a.uses, lease); i >= 0 {
		a.uses = slices.Delete(a.uses, i, i+1)
	}
}

// moved ends a move: the application is there, or it is where it was.
func (a *application) moved(t *task) {
	if a.running != t || !a.up || a.hung {
		return
	}
	w := a.w
	a.running = nil
	good := !w.choice.chance(90)
	if !good {
		w.hit(ConsumerSaysNo, a.name)
	}
	switch {
	case t.kind == prepare:
		good = good && slices.Contains(a.uses, t.lease) && w.now.Before(t.ends)
		if !good && t.lease != a.before {
			a.drop(t.lease)
		}
	case t.lease == 0:
		if good {
			a.uses, a.excused = nil, nil
		}
	default:
		good = good && (slices.Contains(a.uses, t.lease) || w.vault.works(t.lease))
		if good {
			to := t.lease
			if w.opts.Mutant == RestoreRemembered && t.kind == revert && a.before != 0 {
				to = a.before
			}
			a.uses, a.excused = nil, nil
			a.add(to)
		}
	}
	if good && t.kind != prepare {
		w.checkMoved(a, t)
	}
	if t.n != a.taken.n || t.kind != a.taken.kind || t.lease != a.taken.lease {
		a.replyAll(t, stale)
	} else {
		a.conclude(t, good)
	}
	if a.next != nil {
		t := *a.next
		a.next = nil
		a.startMove(t)
	}
	if a.answered && a.running == nil && !a.hung {
		a.settleDown()
	}
}

func (a *application) conclude(t *task, good bool) {
	v := no
	switch {
	case good && t.kind == prepare:
		v = yes
	case good:
		v = confirmed
	}
	a.w.notef("%s: %s to %s %d, n=%d", a.inc, v, t.kind, t.lease, t.n)
	a.replyAll(t, v)
	switch {
	case t.kind == prepare:
		a.taken.said = v
		a.taken.verdictBy = t.ends.Add(verdictGrace)
	case good:
		a.taken.said = v
	}
}

// settleDown decides when to register again.
func (a *application) settleDown() {
	switch {
	case !a.taken.verdictBy.IsZero():
		a.askAt = a.taken.verdictBy
		if soon := a.w.now.Add(500 * time.Millisecond); a.askAt.Before(soon) {
			a.askAt = soon
		}
	case a.running == nil && a.taken.n > 0 && a.taken.said == 0:
		a.askAt = a.w.now.Add(time.Second)
	default:
		a.pause = 0
		a.askAt = a.w.now.Add(registerEvery)
	}
}

// answerArrives brings the answer to a registration.
func (w *world) answerArrives(f *flight) {
	a, r := f.app, f.ans
	if !a.up || a.cutOff {
		return
	}
	if r.inc != a.inc && w.opts.Mutant != AnswerAnyIncarnation {
		return
	}
	if r.refused {
		a.refusedBy(r.registered)
		return
	}
	if r.lease == 0 && w.opts.Mutant == NoneNotConfirmable {
		return
	}
	if r.epoch < a.epoch && w.opts.Mutant != ConsumerChecksNothing {
		return
	}
	a.epoch = r.epoch
	a.answered, a.replaces = true, ""
	t := task{n: r.n, kind: follow, lease: r.lease}
	if r.lease == 0 {
		t.kind = revert
	}
	switch {
	case w.opts.Mutant == ConsumerChecksNothing && t.n > 0, w.opts.Mutant == ConsumerComparesEpochs && t.n > 0:
		a.take(t)
	case t.n > a.taken.n, t.n > 0 && t.n == a.taken.n && t.amends(&a.taken):
		a.take(t)
	case t.n == a.taken.n && t.repeats(&a.taken):
		a.repeat(t)
	}
	a.settleDown()
}

// refusedBy replaces the incarnation that is registered, if that is a
// predecessor.
func (a *application) refusedBy(registered string) {
	if registered == "" || registered >= a.inc {
		return
	}
	a.replaces = registered
	a.askAt = a.w.now
}

// leave ends it in good order.
func (a *application) leave() {
	inc := a.inc
	a.die()
	a.w.fly(&flight{kind: flyLeave, app: a, reg: registration{inc: inc}})
}
