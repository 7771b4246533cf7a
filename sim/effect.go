package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// job is one effect under way, with a copy of what it is about.
type job struct {
	t         *instance
	term      int
	effect    leasecore.Effect
	lease     leasecore.Lease
	kind      messageKind
	deadline  time.Time // of a prepare
	cancelled bool
	stage     int
	performed bool // what it comes to is known, if only to Vault
	guard     *guard
	sentAt    time.Time // by the holder's clock
	done      leasecore.AcquireDone
	renewed   *events.Renewed
	polled    *polled

	// Of messages: when it is sent again, and how long it rests then.
	again  time.Time
	pause  time.Duration
	resign bool // at again it gives up, and has the name looked at
}

// sync starts what is owed and does not run, and cancels what is owed no more.
func (t *instance) sync(name string, owed []leasecore.Effect) {
	kept := t.running[:0]
	for _, j := range t.running {
		if j.effect.Name == name && !slices.Contains(owed, j.effect) {
			j.cancelled = true
			continue
		}
		kept = append(kept, j)
	}
	t.running = kept
	for _, e := range owed {
		if runs := slices.ContainsFunc(t.running, func(j *job) bool { return j.effect == e }); runs {
			if t.w.opts.Mutant != RenewTwice || e.Kind != leasecore.Renew || !t.w.choice.chance(300) {
				continue
			}
		}
		if t.draining && e.Kind == leasecore.Verify {
			continue
		}
		t.start(e)
	}
}

func (t *instance) start(e leasecore.Effect) {
	n := t.p.State().Name(e.Name)
	j := &job{t: t, term: t.term, effect: e}
	if l := n.Lease(e.Lease); l != nil {
		j.lease = *l
	}
	t.running = append(t.running, j)
	switch e.Kind {
	case leasecore.Prepare:
		j.kind, j.deadline = prepare, t.w.now.Add(n.Handover.Started.Add(n.Handover.Budget).Sub(t.clock()))
		j.send()
	case leasecore.Tell:
		j.kind = follow
		if n.Reverted || e.Lease == 0 {
			j.kind = revert
		}
		j.send()
	default:
		f := &flight{kind: flyEffect, job: j}
		t.w.fly(f)
		if e.Kind == leasecore.Verify || e.Kind == leasecore.Renew {
			f.late = t.w.choice.chance(400) // it may take its time
		}
		if e.Kind == leasecore.Extend && t.w.opts.Mutant == ClaimExtended {
			j.outcome(leasecore.ExtendDone{Name: e.Name, Lease: e.Lease, Granted: events.WholeSeconds(3600), SentAt: t.clock()})
		}
	}
}

// finished forgets an effect whose outcome was decided.
func (t *instance) finished(j *job) {
	j.cancelled = true
	if i := slices.Index(t.running, j); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
}

// alive tells whether somebody waits for the job's outcome.
func (j *job) alive() bool { return !j.cancelled && j.t.leads(j.term) }

// outcome hands the outcome in.
func (j *job) outcome(c leasecore.Command) {
	if j.alive() {
		j.t.queue = append(j.t.queue, request{command: c, job: j})
	}
}

// send sends the job's message once more, or gives up for now.
func (j *job) send() {
	w := j.t.w
	if !j.alive() {
		return
	}
	if j.resign {
		j.again = time.Time{}
		j.outcome(leasecore.Tick{Name: j.effect.Name})
		return
	}
	if _, there := w.store[j.effect.Lease]; j.effect.Lease != 0 && !there || j.kind == prepare && !w.now.Before(j.deadline) {
		j.rest()
		return
	}
	j.pause = min(max(2*j.pause, 250*time.Millisecond), 5*time.Second)
	j.again = w.now.Add(j.pause)
	if w.opts.Mutant == NoSendingAgain && j.kind != prepare {
		j.again = time.Time{}
	}
	w.fly(&flight{kind: flyMessage, job: j, msg: message{
		kind: j.kind, epoch: j.t.epoch, n: j.effect.N, lease: j.effect.Lease, inc: j.effect.Incarnation, deadline: j.deadline,
	}})
}

// rest has the name looked at again in a second, since the job came to nothing.
func (j *job) rest() {
	j.resign = true
	j.again = j.t.w.now.Add(time.Second)
}

// hear judges a reply: it counts only from whom was asked, about what was asked.
func (j *job) hear(m message) {
	if !j.alive() || j.resign || m.inc != j.effect.Incarnation || m.n != j.effect.N || m.kind != j.kind || m.epoch != j.t.epoch {
		return
	}
	delete(j.t.absence, m.inc)
	e := j.effect
	switch {
	case j.kind == prepare:
		j.again = time.Time{}
		j.outcome(leasecore.Answered{Name: e.Name, N: e.N, Incarnation: e.Incarnation, Yes: m.verdict == yes, Reason: m.reason})
	case m.verdict == confirmed:
		j.again = time.Time{}
		if j.alive() {
			j.t.queue = append(j.t.queue, request{command: leasecore.Tick{Name: e.Name}, job: j, confirm: true})
		}
	case m.verdict == no || m.verdict == vague:
		// Not yet: it is sent again.
	default:
		j.rest()
	}
}

// nobodyThere counts for how long an incarnation has had no responder; after
// leave_after it counts as gone.
func (j *job) nobodyThere() {
	t, inc := j.t, j.effect.Incarnation
	if !j.alive() {
		return
	}
	a := t.absence[inc]
	if a == nil {
		a = &absence{last: t.w.now}
		t.absence[inc] = a
	}
	if gap := t.w.now.Sub(a.last); gap <= time.Minute {
		a.lasted += gap
	}
	a.last = t.w.now
	n := t.p.State().Name(j.effect.Name)
	if n != nil && n.Definition != nil && a.lasted >= n.Definition.LeaveAfter.Duration() {
		t.queue = append(t.queue, request{command: leasecore.Leave{Name: n.Name, Incarnation: inc, Reason: events.LeftSilent}})
	}
}

// perform has an effect reach Vault, stage by stage.
func (w *world) perform(f *flight) {
	j := f.job
	name := j.effect.Name
	if !j.alive() && j.stage == 0 && w.choice.chance(500) {
		return // cancelled before it was sent
	}
	if j.alive() && w.choice.chance(14) {
		w.hit(CrashBeforeEffect, name)
		j.t.crash()
		return
	}
	if j.stage == 0 {
		j.sentAt = j.t.clock()
	}
	var c leasecore.Command
	switch j.effect.Kind {
	case leasecore.Acquire:
		c = j.acquire()
	case leasecore.Extend:
		c = j.extend()
	case leasecore.Verify:
		c = j.verify()
	case leasecore.Renew:
		c = j.renew()
	case leasecore.Revoke:
		c = j.revoke()
	case leasecore.Poll:
		c = j.poll()
	default:
		w.failf("sim", "it does not know how to do %s", j.effect)
	}
	if c == nil { // another stage
		j.stage++
		w.fly(&flight{kind: flyEffect, job: j})
		return
	}
	j.performed = true
	if j.alive() && w.choice.chance(14) {
		w.hit(CrashAfterEffect, name)
		j.t.crash()
		return
	}
	j.outcome(c)
}

// failure makes what the log is told of a failed call.
func failure(f callFault, gone bool) *leasecore.Failed {
	out := &leasecore.Failed{Gone: gone, Refused: gone || f == refused}
	switch {
	case gone:
		out.Kind = "not-found"
	case f == refused:
		out.Kind = "permission"
	default:
		out.Kind = "timeout"
	}
	out.Message = out.Kind
	return out
}

// acquire makes a guard, reads once under it, seals the values away (P5).
func (j *job) acquire() leasecore.Command {
	w, v := j.t.w, &j.t.w.vault
	name := j.effect.Name
	if j.stage == 0 {
		j.done = leasecore.AcquireDone{Name: name, Lease: j.lease.No}
		if j.lease.Vault == bareVault {
			return nil
		}
		f := w.callFault(name, false)
		if f == refused || f == slow {
			j.done.Err = failure(f, false)
			return j.done
		}
		g := v.createGuard()
		if f == answerLost {
			j.done.Err = failure(f, false)
			return j.done
		}
		j.guard, j.done.Guard = g, g.accessor
		return nil
	}
	f := w.callFault(name, false)
	if f == refused || f == slow {
		j.done.Err = failure(f, false)
		return j.done
	}
	g := v.read(j)
	if f == answerLost {
		if w.opts.Mutant == TwoReads && j.stage < 3 {
			return nil
		}
		j.done.Err = failure(f, false)
		return j.done
	}
	g.told = true
	a := &events.Acquired{
		LeaseID: g.id, TTL: events.FromDuration(g.ttl), Renewable: g.renewable, SentAt: j.sentAt,
		Keys: []string{"password", "username"}, Public: map[string]string{"username": "u" + strconv.FormatUint(j.lease.No, 10)}, Fingerprint: "f" + g.id,
	}
	if g.id == "" {
		a.Fingerprint, a.Public, a.RereadIn = v.kvPrint(name), nil, events.FromDuration(v.rereadIn(name))
	}
	switch {
	case w.choice.chance(40) && g.id != "":
		a.TTL = w.lie(name, g)
	case w.choice.chance(25):
		a.Keys = a.Keys[1:]
		w.hit(VaultLies, name)
	}
	if j.guard != nil {
		a.Guard, a.GuardTTL = j.guard.accessor, events.FromDuration(guardTTL)
	}
	if w.choice.chance(20) {
		w.hit(StoreFails, name)
		j.done.Err, j.done.LeaseID = failure(slow, false), g.id
		j.done.Err.Kind = "store"
		if w.opts.Mutant == ForgetOwnership {
			j.done.LeaseID, j.done.Guard = "", ""
		}
		return j.done
	}
	w.store[j.lease.No] = g.secret
	j.done.Grant = a
	if w.opts.Mutant == ExtendBeforeAcquired && j.guard != nil {
		v.extend(j.guard, time.Hour)
	}
	if w.opts.Mutant == ForgetOwnership && len(a.Keys) < 2 {
		j.done.Grant, j.done.Err = nil, failure(refused, false)
		j.done.LeaseID, j.done.Guard = "", ""
	}
	return j.done
}

// guardMargin is how much longer than its lease a guard lives at least.
const guardMargin = 60 * time.Second

// guardLife is how long a guard is asked to live: for the next renewals, too.
func (j *job) guardLife() time.Duration {
	if j.lease.Renewable {
		return 2*j.lease.TTL + guardMargin
	}
	return j.lease.TTL + guardMargin
}

func (j *job) extend() leasecore.Command {
	w := j.t.w
	done := leasecore.ExtendDone{Name: j.effect.Name, Lease: j.lease.No, SentAt: j.sentAt}
	f := w.callFault(j.effect.Name, false)
	if f == refused || f == slow {
		done.Err = failure(f, false)
		return done
	}
	g := w.vault.guards[j.lease.Guard]
	granted, ok := w.vault.extend(g, j.guardLife())
	switch {
	case f == answerLost:
		done.Err = failure(f, false)
	case !ok:
		done.Err = failure(ok2, true)
	default:
		done.Granted = events.FromDuration(granted)
	}
	return done
}

func (j *job) verify() leasecore.Command {
	w := j.t.w
	done := leasecore.VerifyDone{Name: j.effect.Name, Lease: j.lease.No, Verifier: "postgresql"}
	f := w.callFault(j.effect.Name, false)
	if f != ok2 || !w.vault.works(j.lease.No) {
		done.Err = failure(refused, false)
		done.Err.Kind = "login"
	}
	return done
}

// renew renews the lease, then its guard if it would end before it.
func (j *job) renew() leasecore.Command {
	w, v := j.t.w, &j.t.w.vault
	name := j.effect.Name
	done := leasecore.RenewDone{Name: name, Lease: j.lease.No}
	if j.stage == 0 {
		for _, o := range j.t.running {
			if o != j && o.effect == j.effect && o.alive() && j.alive() {
				w.failf("L5", "two renewals of lease %d at a time", j.lease.No)
			}
		}
		f := w.callFault(name, false)
		if f == refused || f == slow {
			done.Err = failure(f, false)
			return done
		}
		g := v.byNo(j.lease.No, j.lease.LeaseID)
		ttl, ok := v.renew(g, j.lease.TTL)
		switch {
		case f == answerLost:
			done.Err = failure(f, false)
			return done
		case !ok:
			done.Err = failure(ok2, true)
			return done
		}
		r := &events.Renewed{TTL: events.FromDuration(ttl), SentAt: j.sentAt, Renewable: g.renewable}
		if ttl < j.lease.TTL {
			w.hit(VaultShort, name)
		}
		if w.choice.chance(pick(w.committing(name), 800, 170)) {
			r.TTL = w.lie(name, g)
		}
		done.Renewed = r
		j.done.Err = nil
		if l := &j.lease; l.Guard == "" || l.GuardExtended && !l.GuardAt.Add(l.GuardTTL).Before(r.SentAt.Add(r.TTL.Duration()+guardMargin)) {
			return done
		}
		j.renewed = r
		return nil
	}
	f := w.callFault(name, false)
	if f == refused || f == slow {
		done.Err = failure(f, false)
		return done
	}
	granted, ok := v.extend(v.guards[j.lease.Guard], j.guardLife())
	switch {
	case f == answerLost:
		done.Err = failure(f, false)
	case !ok:
		done.Err = failure(ok2, true)
	default:
		j.renewed.GuardTTL = events.FromDuration(granted)
		done.Renewed = j.renewed
	}
	return done
}

// poll reads a secret without lease again.
func (j *job) poll() leasecore.Command {
	w := j.t.w
	f := w.callFault(j.effect.Name, false)
	j.polled = &polled{at: j.sentAt, failed: f != ok2, reread: w.vault.rereadIn(j.effect.Name)}
	if f != ok2 {
		return leasecore.Tick{Name: j.effect.Name}
	}
	return leasecore.PollDone{Name: j.effect.Name, Lease: j.lease.No, Fingerprint: w.vault.kvPrint(j.effect.Name)}
}

// polled is what the holder remembers of a reading.
type polled struct {
	at     time.Time
	failed bool
	reread time.Duration
}

// revoke revokes the lease, then its guard, then purges the values.
func (j *job) revoke() leasecore.Command {
	w, v := j.t.w, &j.t.w.vault
	name := j.effect.Name
	done := leasecore.RevokeDone{Name: name, Lease: j.lease.No}
	if j.lease.LeaseID == "" && j.stage == 0 {
		j.stage = 1
	}
	if j.stage == 0 || j.lease.Guard != "" {
		f := w.callFault(name, true)
		if f == refused || f == slow {
			done.Err = failure(f, false)
			return done
		}
		if j.stage == 0 {
			v.revokeLease(j)
		} else {
			v.revokeGuard(j)
		}
		if f == answerLost {
			done.Err = failure(f, false)
			return done
		}
		if j.stage == 0 && j.lease.Guard != "" {
			return nil
		}
	}
	delete(w.store, j.lease.No)
	w.purged[j.lease.No] = true
	return done
}
