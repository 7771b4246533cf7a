package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// Options say whom to look at.
type Options struct {
	// Conn is the connection to play on.
	Conn *nats.Conn
	// Keys are the service's; the consumer pins their public half.
	Keys *handover.Keys
	// Scope and Name are what the consumer serves, Consumer who it is, and Key its
	// public nkey; without Key unsigned answers count.
	Scope, Name, Consumer, Key string
	// Good are credentials that the consumer can log in with; at least two, or none
	// where it does not look.
	Good []Credential
	// Bad is one that it can't log in with; empty: it is not asked.
	Bad Credential
	// Patience is how long an answer is waited for; 10 s by default.
	Patience time.Duration
	// Grace is how long after a prepare's deadline its outcome is waited for; 5 s by
	// default, as docs/protocol.md has it.
	Grace time.Duration
	// Silence is how long nothing must come where nothing may; 1 s by default.
	Silence time.Duration
	// Stop ends the consumer in good order; nil: its leave is not looked at.
	Stop func()
	// Said is called with each verdict as it is known; nil: nobody is told.
	Said func(Verdict)
}

// Credential is what a lease gives.
type Credential struct {
	Public string
	Values wire.Values
}

// Outcome is what is known of a rule.
type Outcome string

// The outcomes.
const (
	Kept    Outcome = "kept"
	Broken  Outcome = "BROKEN"
	Unknown Outcome = "not looked at"
)

// Verdict is what came of one rule.
type Verdict struct {
	// Rule names it as docs/protocol.md or the rules do.
	Rule string `json:"rule"`
	// Says what it asks.
	Says    string `json:"says"`
	Outcome `json:"outcome"`
	// Why says what was seen instead.
	Why string `json:"why,omitempty"`
}

// Passed tells whether no rule was broken.
func Passed(all []Verdict) bool {
	for _, v := range all {
		if v.Outcome == Broken {
			return false
		}
	}
	return len(all) > 0
}

// check is one run.
type check struct {
	Options
	ctx      context.Context
	holder   *consumertest.Holder
	verdicts []Verdict

	to       handover.To
	there    bool // it is registered
	current  consumertest.State
	nextGood int
}

// Check plays the holder until every rule was looked at or ctx ends. The error says
// that it could not be played.
func Check(ctx context.Context, o Options) (verdicts []Verdict, err error) {
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.Silence <= 0 {
		o.Silence = time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if len(o.Good) == 0 {
		o.Good = []Credential{
			{"conformance-1", wire.Values(`{"username":"conformance-1","password":"conformance-1"}`)},
			{"conformance-2", wire.Values(`{"username":"conformance-2","password":"conformance-2"}`)},
		}
	}
	if len(o.Good) < 2 {
		return nil, errors.New("at least two credentials are needed, to rotate from one to the other")
	}
	t := &stage{}
	defer t.end()
	defer func() {
		if p := recover(); p != nil {
			fatal, ours := p.(stageError)
			if !ours {
				panic(p)
			}
			err = errors.New(string(fatal))
		}
	}()
	c := &check{Options: o, ctx: ctx}
	c.holder = consumertest.StartWith(t, o.Conn, o.Scope, o.Keys)
	c.holder.Define(o.Name)
	if o.Key != "" {
		c.holder.Allow(o.Consumer, o.Key)
	}
	c.run()
	return c.verdicts, nil
}

// stage is what the holder takes for its test.
type stage struct{ cleanups []func() }

type stageError string

func (*stage) Helper()                           {}
func (*stage) Fatal(args ...any)                 { panic(stageError(fmt.Sprint(args...))) }
func (*stage) Fatalf(format string, args ...any) { panic(stageError(fmt.Sprintf(format, args...))) }
func (*stage) Errorf(string, ...any)             {}
func (s *stage) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }

func (s *stage) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}

// say notes a verdict: kept when why is nil.
func (c *check) say(rule, says string, why error) {
	v := Verdict{Rule: rule, Says: says, Outcome: Kept}
	if why != nil {
		v.Outcome, v.Why = Broken, why.Error()
	}
	c.note(v)
}

func (c *check) note(v Verdict) {
	c.verdicts = append(c.verdicts, v)
	if c.Said != nil {
		c.Said(v)
	}
}

func (c *check) skip(rule, says, why string) {
	c.note(Verdict{Rule: rule, Says: says, Outcome: Unknown, Why: why})
}

// patience bounds one wait.
func (c *check) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.ctx, c.Patience)
}

// good gives a candidate that works, another one each time.
func (c *check) good() consumertest.State {
	g := c.Good[c.nextGood%len(c.Good)]
	c.nextGood++
	return c.holder.Candidate(g.Public, string(g.Values))
}
