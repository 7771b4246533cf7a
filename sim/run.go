package sim

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options choose a schedule.
type Options struct {
	// Seed decides everything.
	Seed uint64
	// Steps is how many there are before peace; 0: 280 to 560, as the seed
	// says.
	Steps int
	// Mutant plants a deliberate fault.
	Mutant Mutant
	// Trace keeps the story.
	Trace bool
	// Log keeps the log: its events as they are stored, under [MACKey].
	Log bool
}

// Result is what a schedule came to.
type Result struct {
	Options
	// Steps is how many were made before peace, Events how many are in the log.
	Made     int
	Events   int
	Coverage Coverage
	// Err is a [*Violation], or what the core panicked with; nil: all held.
	Err error
	// Story tells, with Trace, how it went.
	Story string
	// Log is, with that option, what was stored; the sequences are 1, 2, ...
	Log     [][]byte
	choices [][]uint32
}

// Run lives through one schedule.
func Run(opts Options) Result { return run(opts, newChoices(opts.Seed)) }

func run(opts Options, c *choices) (r Result) {
	r.Options = opts
	var w *world
	defer func() {
		if p := recover(); p != nil {
			var v *Violation
			if err, ok := p.(error); ok && errors.As(err, &v) {
				r.Err = v
			} else {
				r.Err = &Violation{Rule: "panic", What: fmt.Sprintf("%v\n%s", p, debug.Stack())}
			}
		}
		r.choices = c.made
		if w != nil {
			r.Made, r.Events, r.Coverage = w.steps-1, int(w.log.last()), w.coverage
			if opts.Log {
				r.Log = w.log.payloads()
			}
			if opts.Trace {
				r.Story = w.story(storyLines)
			}
		}
	}()
	w = &world{}
	newWorld(w, opts, c)
	w.run()
	return r
}

// storyLines is how much of a schedule's end is told.
const storyLines = 120

// Total is what many schedules came to.
type Total struct {
	Schedules, Steps, Events uint64
	Took                     time.Duration
	Coverage                 Coverage
	// Failed is the failure with the lowest seed that was found.
	Failed *Result
}

// RunMany lives through the schedules of n seeds from first on, several at a
// time, until one fails or the time is up.
func RunMany(first, n uint64, opts Options, atMost time.Duration) Total {
	var total Total
	var mu sync.Mutex
	var next atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine Total
			for !stop.Load() && time.Since(began) < atMost {
				i := next.Add(1) - 1
				if i >= n {
					break
				}
				o := opts
				o.Seed = first + i
				r := Run(o)
				mine.Schedules++
				mine.Steps += uint64(r.Made)
				mine.Events += uint64(r.Events)
				mine.Coverage.add(&r.Coverage)
				if r.Err != nil {
					stop.Store(true)
					mu.Lock()
					if total.Failed == nil || o.Seed < total.Failed.Seed {
						total.Failed = &r
					}
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.Schedules += mine.Schedules
			total.Steps += mine.Steps
			total.Events += mine.Events
			total.Coverage.add(&mine.Coverage)
		})
	}
	wg.Wait()
	total.Took = time.Since(began)
	return total
}

// Table prints the coverage.
func (c *Coverage) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s", "")
	for p := range Phases {
		fmt.Fprintf(&b, " %12s", p)
	}
	b.WriteByte('\n')
	for f := range Faults {
		fmt.Fprintf(&b, "%-22s", f)
		for p := range Phases {
			if impossible[f][p] != "" && c[f][p] == 0 {
				fmt.Fprintf(&b, " %12s", "-")
				continue
			}
			fmt.Fprintf(&b, " %12d", c[f][p])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
