package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/projector"
)

// epochStart is when every schedule begins.
var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const scopeName = "prod"

var macKey = []byte("a key of thirty-two bytes, just so")

// MACKey gives the key of the chain of every simulated log.
func MACKey() []byte { return slices.Clone(macKey) }

// world is one schedule. It is single-threaded and knows no map's order.
type world struct {
	opts   Options
	choice *choices
	now    time.Time
	codec  bool // events are encoded, sealed and read back
	apart  bool // the log has one replica: few events go one by one
	ids    int

	names     []string
	log       stream
	cell      cell
	vault     vaultServer
	store     map[uint64]string // sealed values by lease
	purged    map[uint64]bool   // nothing is stored again where something was purged
	adopted   map[string]bool   // lease ids that the log knows as adopted
	instances []*instance
	apps      []*application
	flights   []*flight
	files     []file
	truth     *projector.Projection // the fold of the whole log

	// What the checks remember.
	lastAt      time.Time // for the spin check
	eventsAt    int
	excused     map[uint64]string   // leases that may be revoked whoever is on them
	cutOff      map[uint64][]string // incarnations that may be cut off from a lease
	proofs      map[uint64]*proofs  // by the hand-over's lease
	promises    map[uint64]promise
	retryAt     map[string]backOff
	backAt      map[uint64]uint64 // lease to go back to, by n of the rollback-started
	installedNo map[uint64]bool
	revokedNo   map[uint64]bool

	jumped    time.Duration       // of all clocks, together
	aheadMost time.Duration       // how far ahead a clock that wrote the log was
	lastAsked map[string][]string // a mutant's

	peaceful bool
	peaceAt  time.Time
	steps    int
	coverage Coverage
	trace    []string
	// peaceFrom is where in the trace peace begins.
	peaceFrom int
}

type promise struct {
	until  time.Time
	jumped time.Duration
}

// Violation is a broken invariant.
type Violation struct {
	Rule string
	What string
}

// Error implements error.
func (v *Violation) Error() string { return v.Rule + ": " + v.What }

// failf ends the schedule: an invariant does not hold.
func (w *world) failf(rule, format string, args ...any) {
	panic(&Violation{Rule: rule, What: fmt.Sprintf(format, args...)})
}

// notef adds a line to the schedule's story.
func (w *world) notef(format string, args ...any) {
	if !w.opts.Trace {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%4d %10.3fs  ", w.steps, w.now.Sub(epochStart).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) newID() string {
	w.ids++
	var b [8]byte
	i := len(b)
	for n := w.ids; n > 0; n /= 36 {
		i--
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n%36]
	}
	return string(b[i:])
}

func newWorld(w *world, opts Options, c *choices) {
	*w = world{
		opts: opts, choice: c, now: epochStart, codec: opts.Log || opts.Seed%codecEvery == 0, apart: opts.Seed%2 == 1, store: map[uint64]string{}, purged: map[uint64]bool{}, adopted: map[string]bool{},
		excused: map[uint64]string{}, cutOff: map[uint64][]string{}, proofs: map[uint64]*proofs{}, promises: map[uint64]promise{},
		retryAt: map[string]backOff{}, backAt: map[uint64]uint64{}, installedNo: map[uint64]bool{}, revokedNo: map[uint64]bool{},
		lastAsked: map[string][]string{},
	}
	w.log.w = w
	w.vault = vaultServer{w: w, guards: map[string]*guard{}, kv: map[string]int{}, clocks: map[string]time.Duration{}}
	var key []byte
	if w.codec {
		key = macKey
	}
	w.truth = projector.New(scopeName, key)
	w.setUp()
}

// codecEvery is how many schedules there are to one with real bytes.
const codecEvery = 10

// setUp chooses the size of the world and puts the first definitions in force.
func (w *world) setUp() {
	c := w.choice
	c.begin()
	w.names = []string{"a", "b", "c"}[:1+c.weighted([]int{60, 35, 5})]
	for i := range 2 + c.weighted([]int{85, 15}) {
		w.instances = append(w.instances, newInstance(w, i))
	}
	for _, n := range w.names {
		if c.chance(400) {
			w.vault.clocks[n] = time.Duration(c.between(10, 60)) * time.Second
		}
		for i := range c.weighted([]int{10, 45, 45}) {
			w.apps = append(w.apps, newApplication(w, n, i))
		}
	}
	w.files = []file{{}}
	w.edit(true)
}

// run lives through a schedule of a length that is chosen, then leaves the
// world in peace.
func (w *world) run() {
	steps := w.opts.Steps
	if steps == 0 {
		steps = w.choice.between(280, 560)
	}
	for w.steps = 1; w.steps <= steps; w.steps++ {
		w.choice.begin()
		w.step()
		w.checkReaders()
	}
	w.leaveInPeace()
}

// step does one thing.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(5+w.choice.below(30)) * time.Millisecond)
	flying, late := 0, 0
	for _, f := range w.flights {
		if f.late {
			late++
		} else {
			flying++
		}
	}
	busy, idle, committing := 0, 0, false
	for _, t := range w.instances {
		committing = committing || t.op != nil && t.op.commits
		if t.hasWork() {
			busy++
		}
		if t.canStep() {
			idle++
		}
	}
	leading, quiet := w.leader() != nil, w.idleNow()
	weights := [...]int{
		busy * 40,
		min(flying, 3) * 40,
		pick(idle > 0, pick(leading, 2, 30), 0),
		12,                                       // a little time
		pick(committing, 25, pick(quiet, 25, 3)), // until something is due
		1,                                        // a long time
		late * 3,
		pick(committing, 20, 10),                // somebody's own step
		pick(quiet, 25, 4),                      // an operation
		pick(committing, 25, pick(quiet, 8, 6)), // a fault
	}
	switch w.choice.weighted(weights[:]) {
	case 0:
		w.choose(func(t *instance) bool { return t.hasWork() }).work()
	case 1:
		w.deliver(w.pickFlight(false))
	case 2:
		w.choose(func(t *instance) bool { return t.canStep() }).standByStep()
	case 3:
		w.pass(time.Duration(w.choice.below(800)) * time.Millisecond)
	case 4:
		w.passUntilDue()
	case 5:
		w.pass(time.Duration(w.choice.below(60)) * time.Second)
	case 6:
		w.deliver(w.pickFlight(true))
	case 7:
		w.ownStep()
	case 8:
		w.operate()
	case 9:
		w.breakSomething()
	}
}

func pick(cond bool, yes, no int) int {
	if cond {
		return yes
	}
	return no
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
}

// idleNow tells whether nothing happens until time passes.
func (w *world) idleNow() bool {
	for _, t := range w.instances {
		if t.hasWork() {
			return false
		}
	}
	return len(w.flights) == 0
}

// passUntilDue lets time go by until the next deadline of anybody's.
func (w *world) passUntilDue() {
	next := w.now.Add(maxWait)
	if w.peaceful {
		next = w.now.Add(time.Minute)
	}
	for _, t := range w.instances {
		if at, ok := t.nextDeadline(); ok && at.Before(next) && at.After(w.now) {
			next = at
		}
	}
	for _, a := range w.apps {
		if at := a.nextDeadline(); !at.IsZero() && at.Before(next) && at.After(w.now) {
			next = at
		}
	}
	w.pass(next.Sub(w.now))
}

// maxWait is the longest that the service's loop sleeps (L36).
const maxWait = 5 * time.Second

// choose gives one of the instances that qualify.
func (w *world) choose(which func(*instance) bool) *instance {
	var all [4]*instance
	n := 0
	for _, t := range w.instances {
		if which(t) {
			all[n] = t
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return all[w.choice.below(n)]
}

// leader gives the instance that leads by the log and knows it; nil: none.
func (w *world) leader() *instance {
	for _, t := range w.instances {
		if t.role == leading && t.fence == w.log.opened {
			return t
		}
	}
	return nil
}

// story gives what led to the end: the last lines before peace, the first and
// last of it, and the state.
func (w *world) story(lines int) string {
	faults, peace := w.trace, []string(nil)
	if w.peaceFrom > 0 {
		faults, peace = w.trace[:w.peaceFrom], w.trace[w.peaceFrom:]
	}
	faults = faults[max(0, len(faults)-lines):]
	if over := len(peace) - lines/2; over > 0 {
		peace = slices.Concat(peace[:lines/4], []string{"     ..."}, peace[len(peace)-lines/4:])
	}
	var apps strings.Builder
	for _, a := range w.apps {
		fmt.Fprintf(&apps, "%s up=%t answered=%t hung=%t cut-off=%t liar=%t taken n=%d lease=%d, on %v\n", a.inc, a.up, a.answered, a.hung, a.cutOff, a.liar, a.taken.n, a.taken.lease, a.uses)
	}
	for _, t := range w.instances {
		fmt.Fprintf(&apps, "%s up=%t role=%d epoch=%d fence=%d deposed=%t hangs=%t append under way=%t queue=%d\n", t.name, t.up, t.role, t.epoch, t.fence, t.deposed, t.hangs, t.op != nil, len(t.queue))
	}
	return strings.Join(slices.Concat(faults, peace), "\n") + "\n" + w.truth.State().Print() + apps.String()
}

// file is one revision of the definitions file.
type file struct {
	revision uint64
	defs     map[string]events.Definition
}
