package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// run looks at every rule, in an order in which each finds the consumer as the one
// before leaves it.
func (c *check) run() {
	c.registers()
	if !c.there {
		return
	}
	c.rotates()
	c.repeats()
	c.refusesWhatIsOver()
	c.ignoresWhatIsNotForIt()
	c.rollsBack()
	c.refusesABadOne()
	c.followsASuccessor()
	c.asksForTheOutcome()
	c.goesToNone()
	c.leaves()
}

// before is an incarnation that was there before, as the service may have it.
const before = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// registers looks at step 1 to 3 of the consumer: the first registration is refused
// so that it must name what it replaces, a question before the first answer gets
// none, and then it is answered.
func (c *check) registers() {
	var mu sync.Mutex
	var seen []handover.Registration
	phase := 0 // 0: mismatch, 1: unavailable, 2: answered
	c.holder.Refuse(func(r handover.Registration) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
		switch {
		case phase == 0 && r.Replaces != before:
			return wire.Refusal{Code: wire.CodeMismatch, Message: "another incarnation is registered", Registered: before}
		case phase < 2:
			return wire.Refusal{Code: wire.CodeUnavailable, Message: "ask again"}
		}
		return nil
	})
	look := func() (last handover.Registration, count int) {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) > 0 {
			last = seen[len(seen)-1]
		}
		return last, len(seen)
	}
	says := "it registers, signed, with a subject and a key of its own"
	if !c.until(func() bool { _, n := look(); return n > 0 }) {
		c.say("step 1", says, errors.New("no registration that can be read and is signed by its key came in time"))
		return
	}
	first, _ := look()
	c.say("step 1", says, nil)

	replaced := c.until(func() bool { last, _ := look(); return last.Replaces == before })
	c.say("mismatch", "told that another incarnation is registered, it registers as its replacement",
		unless(replaced, "no registration with replaces = "+before+" came in time"))
	mu.Lock()
	phase = 1
	mu.Unlock()

	last, n := look()
	if last.Incarnation == "" {
		last = first
	}
	answer, err := c.ask(last.To(), wire.KindPrepare, c.holder.Epoch(), c.holder.Next(), c.good(), c.Silence)
	c.say("P10", "before its registration was answered it answers nothing", unless(err != nil, fmt.Sprintf("it said %q", answer.Verdict)))
	again := c.until(func() bool { _, now := look(); return now > n })
	c.say("step 1", "without an answer it registers again", unless(again, "no further registration came in time"))

	c.current = c.holder.Install(c.Name, c.good())
	mu.Lock()
	phase = 2
	mu.Unlock()
	c.holder.Refuse(nil)
	if !c.until(func() bool { return len(c.holder.Registered(c.Name)) > 0 }) {
		c.say("step 3", "it registers until it is answered", errors.New("it did not"))
		return
	}
	c.to, c.there = c.holder.Registered(c.Name)[0].To(), true
	err = c.follow(c.current, false)
	c.say("step 3", "it moves to what the answer says, and confirms it when it is asked to", err)
}

func unless(ok bool, why string) error {
	if ok {
		return nil
	}
	return errors.New(why)
}

// until waits for something within the patience.
func (c *check) until(ok func() bool) bool {
	ctx, cancel := c.patience()
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ok()
		}
	}
	return true
}

// ask sends one message and waits for an answer that counts.
func (c *check) ask(to handover.To, kind wire.Kind, epoch, n uint64, s consumertest.State, within time.Duration) (handover.Answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	if kind == wire.KindPrepare {
		return c.holder.Courier().Prepare(ctx, to, handover.Prepare{
			Epoch: epoch, N: n, Lease: s.Lease, TimeLeft: within, Public: s.Public, Values: s.Values,
		})
	}
	return c.holder.Courier().Follow(ctx, to, handover.Follow{
		Revert: kind == wire.KindRevert, Epoch: epoch, N: n, Lease: s.Lease, TimeLeft: within, Public: s.Public, Values: s.Values,
	})
}

// prepare wants a yes.
func (c *check) prepare(n uint64, s consumertest.State) error {
	a, err := c.ask(c.to, wire.KindPrepare, c.holder.Epoch(), n, s, c.Patience)
	return wants(a, err, wire.Yes)
}

// follow wants a confirmation.
func (c *check) follow(s consumertest.State, revert bool) error {
	kind := wire.KindFollow
	if revert {
		kind = wire.KindRevert
	}
	a, err := c.ask(c.to, kind, c.holder.Epoch(), s.N, s, c.Patience)
	return wants(a, err, wire.Confirmed)
}

func wants(a handover.Answer, err error, v wire.Verdict) error {
	switch {
	case err != nil:
		return fmt.Errorf("no answer that counts (signed by its key, about what was asked) came in time: %w", err)
	case a.Vague:
		return errors.New("its answer is none of the protocol's: " + a.Reason)
	case a.Verdict != v:
		return fmt.Errorf("it said %q (%s), not %q", a.Verdict, a.Reason, v)
	}
	return nil
}

// rotates is a hand-over that succeeds.
func (c *check) rotates() {
	candidate := c.good()
	err := c.prepare(c.holder.Next(), candidate)
	c.say("prepare", "it says yes to a candidate that works", err)
	c.current = c.holder.Install(c.Name, candidate)
	c.say("follow", "it confirms what is committed", c.follow(c.current, false))
}

// repeats sends what was answered once more.
func (c *check) repeats() {
	c.say("P14", "asked the same again, it answers the same again", c.follow(c.current, false))
	candidate, n := c.good(), c.holder.Next()
	first := c.prepare(n, candidate)
	second := c.prepare(n, candidate)
	c.say("step 4", "a prepare that comes twice gets its yes twice", errors.Join(first, second))
	c.current = c.holder.Install(c.Name, candidate)
	if err := c.follow(c.current, false); err != nil {
		c.say("follow", "it confirms after a prepare that came twice", err)
	}
}

// refusesWhatIsOver sends a lower n and a lower epoch.
func (c *check) refusesWhatIsOver() {
	old := c.holder.Candidate("late", string(c.Good[0].Values))
	a, err := c.ask(c.to, wire.KindPrepare, c.holder.Epoch(), c.current.N-1, old, c.Patience)
	c.say("P10", "a prepare below the last n is stale", wants(a, err, wire.Stale))
	old.N = c.current.N - 1
	a, err = c.ask(c.to, wire.KindFollow, c.holder.Epoch(), old.N, old, c.Patience)
	c.say("P10", "a follow below the last n is stale", wants(a, err, wire.Stale))
	a, err = c.ask(c.to, wire.KindPrepare, c.holder.Epoch(), c.current.N, old, c.Silence)
	c.say("step 4", "a prepare under the n of a follow gets no yes", unless(err != nil || !a.Yes(), "it said yes"))
}

// ignoresWhatIsNotForIt sends what is forged, for somebody else, of a later version,
// and what has fields that nobody knows yet.
func (c *check) ignoresWhatIsNotForIt() {
	n := c.holder.Next()
	candidate := c.good()
	message := func(change func(*wire.Message)) wire.Message {
		m := wire.Message{
			Kind: wire.KindPrepare, Scope: c.Scope, Name: c.Name, Incarnation: c.to.Incarnation, Epoch: c.holder.Epoch(), N: n,
			Lease: candidate.Lease, TimeLeft: wire.SecondsOf(c.Patience), Public: candidate.Public, Values: candidate.Values,
		}
		if change != nil {
			change(&m)
		}
		return m
	}
	seal := func(m wire.Message) []byte {
		b, err := c.Keys.SealBody(c.to.XKey, m)
		if err != nil {
			return nil
		}
		return b
	}
	forged := func() []byte {
		pair, err := nkeys.CreateCurveKeys()
		if err != nil {
			return nil
		}
		plain, err := wire.Encode(message(nil))
		if err != nil {
			return nil
		}
		b, err := wire.Seal(pair, c.to.XKey, plain)
		if err != nil {
			return nil
		}
		return b
	}
	plain, _ := wire.Encode(message(nil))
	for _, one := range []struct {
		says string
		body []byte
	}{
		{"what is sealed by another key is ignored", forged()},
		{"what is not sealed is ignored", plain},
		{"what is no message at all is ignored", []byte("xkv1")},
		{"what is for another incarnation is ignored", seal(message(func(m *wire.Message) { m.Incarnation = before }))},
		{"what is for another name is ignored", seal(message(func(m *wire.Message) { m.Name = c.Name + "-other" }))},
		{"what is for another scope is ignored", seal(message(func(m *wire.Message) { m.Scope = c.Scope + "-other" }))},
		{"a later version is refused", c.sealText(message(nil), `"v":1,`, `"v":2,`)},
	} {
		c.say("sealing", one.says, unless(!c.answers(one.body), "it answered"))
	}
	known := c.answers(c.sealText(message(nil), `"v":1,`, `"v":1,"a_field_of_later":{"x":[1]},`))
	c.say("messages", "a field that it does not know is ignored, and the message counts", unless(known, "it did not answer"))
	c.current = c.holder.Install(c.Name, candidate)
	if err := c.follow(c.current, false); err != nil {
		c.say("follow", "it confirms after messages that were not for it", err)
	}
}

// sealText seals a message whose text was changed.
func (c *check) sealText(m wire.Message, from, to string) []byte {
	plain, err := wire.Encode(m)
	if err != nil {
		return nil
	}
	b, err := c.Keys.Seal(c.to.XKey, replaceOnce(plain, from, to))
	if err != nil {
		return nil
	}
	return b
}

// answers tells whether anything comes back for a message.
func (c *check) answers(body []byte) bool {
	ctx, cancel := context.WithTimeout(c.ctx, c.Silence)
	defer cancel()
	m, err := c.Conn.RequestWithContext(ctx, c.to.Subject, body)
	return err == nil && len(m.Data) > 0
}

// rollsBack is a hand-over that goes back.
func (c *check) rollsBack() {
	if err := c.prepare(c.holder.Next(), c.good()); err != nil {
		c.say("prepare", "it says yes to a candidate that works", err)
	}
	c.current = c.holder.RollBack(c.Name)
	c.say("revert", "it goes back and confirms", c.follow(c.current, true))
	c.say("P14", "a revert that comes twice is confirmed twice", c.follow(c.current, true))
}

// refusesABadOne asks about a credential that does not work.
func (c *check) refusesABadOne() {
	const rule, says = "P11", "it says no to a candidate that does not work"
	if len(c.Bad.Values) == 0 {
		c.skip(rule, says, "no credential was given that does not work")
		return
	}
	a, err := c.ask(c.to, wire.KindPrepare, c.holder.Epoch(), c.holder.Next(), c.holder.Candidate(c.Bad.Public, string(c.Bad.Values)), c.Patience)
	c.say(rule, says, wants(a, err, wire.No))
	if err == nil {
		c.say("reply", "its reason holds none of the values", unless(!holds(a.Reason, c.Bad), "a value shows in it"))
	}
	c.current = c.holder.RollBack(c.Name)
	if err := c.follow(c.current, true); err != nil {
		c.say("revert", "it goes back from a candidate that does not work", err)
	}
}

// followsASuccessor raises the epoch in the middle of a hand-over.
func (c *check) followsASuccessor() {
	was := c.holder.Epoch()
	n, candidate := c.holder.Next(), c.good()
	err := c.prepare(n, candidate)
	c.holder.Succeed()
	c.current = c.holder.Install(c.Name, candidate)
	err = errors.Join(err, c.follow(c.current, false))
	c.say("P12", "a hand-over that another holder brings to its end is followed", err)
	a, err := c.ask(c.to, wire.KindFollow, was, c.holder.Next(), c.current, c.Patience)
	c.say("P10", "a message of a lower epoch is stale", wants(a, err, wire.Stale))
}

// asksForTheOutcome leaves a prepare without its outcome.
func (c *check) asksForTheOutcome() {
	const left = time.Second
	var mu sync.Mutex
	count := 0
	c.holder.Refuse(func(handover.Registration) error {
		mu.Lock()
		defer mu.Unlock()
		count++
		return nil
	})
	defer c.holder.Refuse(nil)
	candidate, n := c.good(), c.holder.Next()
	a, err := c.ask(c.to, wire.KindPrepare, c.holder.Epoch(), n, candidate, left)
	if err := wants(a, err, wire.Yes); err != nil {
		c.say("prepare", "it says yes within a second", err)
	}
	c.current = c.holder.Install(c.Name, candidate) // and nobody is told
	mu.Lock()
	count = 0
	mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, left+c.Grace+c.Patience)
	defer cancel()
	asked := func() bool { mu.Lock(); defer mu.Unlock(); return count > 0 }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !asked() && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	c.say("step 6", "without the outcome of a prepare it registers again", unless(asked(), "it did not within the deadline, the grace and the patience"))
	c.say("step 5", "and follows what the answer says", c.follow(c.current, false))
}

// goesToNone tells it that there is no credential any more.
func (c *check) goesToNone() {
	if err := c.prepare(c.holder.Next(), c.good()); err != nil {
		c.say("prepare", "it says yes to a candidate that works", err)
	}
	none := c.holder.Install(c.Name, consumertest.State{})
	c.say("revert", "it goes back to none and confirms", c.follow(none, true))
	c.current = c.holder.Install(c.Name, c.good())
	c.say("step 4", "and moves to the next that is committed, unprepared", c.follow(c.current, false))
}

// leaves ends it.
func (c *check) leaves() {
	const rule, says = "leave", "at its end it leaves, signed"
	if c.Stop == nil {
		c.skip(rule, says, "it was not started by the check, so it can't be ended")
		return
	}
	go c.Stop()
	gone := c.until(func() bool { return len(c.holder.Registered(c.Name)) == 0 })
	c.say(rule, says, unless(gone, "no leave came in time"))
}
