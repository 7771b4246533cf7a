package sim

import (
	"flag"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "live through this one schedule, and tell it")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	countFlag = flag.Uint64("schedules", shortRun, "how many schedules")
	timeFlag  = flag.Duration("within", 60*time.Second, "the time that 20,000 may take on two processors")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortRun is how many schedules a short run has.
const shortRun = 20_000

// leastPair is how often each fault must have met each phase in a short run.
const leastPair = 100

func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		one(t, Options{Seed: *seedFlag})
		return
	}
	count := *countFlag
	if raceDetector {
		count = min(count, 1000) // a tenth as fast, and not what the race detector is for
	}
	within := *timeFlag * time.Duration(max(count, shortRun)) / shortRun
	before := processorTime(t)
	total := RunMany(*firstFlag, count, Options{}, 5*within)
	used := processorTime(t) - before
	report(t, total)
	if total.Failed != nil {
		explain(t, *total.Failed)
		return
	}
	if total.Schedules < count {
		t.Errorf("only %d schedules in %s", total.Schedules, total.Took)
	}
	if total.Steps < 200*total.Schedules {
		t.Errorf("a schedule has %d steps on average", total.Steps/total.Schedules)
	}
	if count < shortRun {
		return // too few to say how often each pair is met
	}
	// What others do on the machine is not counted: two processors have the time.
	if most := 2 * within; used > most {
		t.Errorf("%d schedules took %s of processor time, more than %s", total.Schedules, used, most)
	}
	for _, pair := range total.Coverage.Missing(leastPair) {
		t.Errorf("%s: seen too seldom for the run to say anything about it", pair)
	}
}

// processorTime gives what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestASeedReplaysExactly: the same seed gives the same schedule, and what was
// recorded of it gives it once more.
func TestASeedReplaysExactly(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		o := Options{Seed: seed, Trace: true}
		a, b := Run(o), Run(o)
		if a.Story != b.Story || a.Coverage != b.Coverage {
			t.Fatalf("seed %d gives\n%s\nand\n%s", seed, a.Story, b.Story)
		}
		c := newChoices(seed)
		c.keep = true
		recorded := run(o, c)
		o.Steps = recorded.Made
		if again := run(o, replayed(recorded.choices)); again.Story != a.Story {
			t.Fatalf("seed %d, as recorded, gives\n%s\nnot\n%s", seed, again.Story, a.Story)
		}
	}
}

// TestAFailureIsMadeShort: what is left breaks the same rule, in fewer steps.
func TestAFailureIsMadeShort(t *testing.T) {
	o := Options{Mutant: RevokeUnconfirmedRollBack}
	failed := RunMany(1, 20_000, o, time.Minute).Failed
	if failed == nil {
		t.Fatal("the mutant is not caught")
	}
	short := Minimise(failed.Options, 2000)
	if ruleOf(short.Err) != ruleOf(failed.Err) || short.Made >= failed.Made || short.Story == "" {
		t.Fatalf("%d steps and %v, from %d and %v", short.Made, short.Err, failed.Made, failed.Err)
	}
	again := run(Options{Seed: short.Seed, Mutant: o.Mutant, Steps: short.Steps, Trace: true}, replayed(short.choices))
	if again.Story != short.Story {
		t.Error("the short one does not replay")
	}
}

func report(t *testing.T, total Total) {
	t.Helper()
	if total.Schedules > 0 {
		t.Logf("%d schedules in %s (%.0f/s), %d steps and %d events each\n%s", total.Schedules, total.Took.Round(time.Millisecond),
			float64(total.Schedules)/total.Took.Seconds(), total.Steps/total.Schedules, total.Events/total.Schedules, total.Coverage.Table())
	}
}

func one(t *testing.T, opts Options) {
	t.Helper()
	r := Run(opts)
	t.Logf("seed %d: %d steps, %d events", r.Seed, r.Made, r.Events)
	if r.Err != nil {
		explain(t, r)
	}
}

// explain tells a failure, as it was found and made short.
func explain(t *testing.T, r Result) {
	t.Helper()
	o := r.Options
	o.Trace = true
	full := Run(o)
	short := Minimise(r.Options, 4000)
	t.Errorf("seed %d breaks %v\nreplay it with: go test ./sim -run TestSim -seed %d\n%s", r.Seed, r.Err, r.Seed, full.Story)
	t.Logf("made short, %d steps: %v\n%s", short.Made, short.Err, short.Story)
}

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "leasecore", "projector"},
		Why:      "The simulator has the core and the projector, and models what surrounds them; what it imports it could not slow down or break.",
	})
}
