package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

const (
	killedTarget  = 1200 * time.Millisecond
	stoppedTarget = 4 * time.Second
	plannedTarget = 50 * time.Millisecond
)

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// pair is a holder and a standby, asked all the time.
type pair struct {
	t     *testing.T
	d     *clustertest.Deployment
	r     *clustertest.Recorder
	asker *asker
	in    []*clustertest.Instance
	stood map[*clustertest.Instance]int // how often it had said that it stands by
	// steppedDown is when the last step-down was asked for.
	steppedDown time.Time
}

func newPair(t *testing.T, names int) *pair {
	t.Helper()
	c := clustertest.Start(t)
	d := clustertest.Deploy(t, c, clustertest.Options{Names: names, TTL: "1h", MaxTTL: "24h", GoodFor: "30s"})
	p := &pair{t: t, d: d, stood: map[*clustertest.Instance]int{}}
	p.in = []*clustertest.Instance{d.Instance("a")}
	d.Usable("prod", names, time.Minute)
	p.in = append(p.in, d.Instance("b"))
	p.r = d.Record()
	p.in[1].AwaitSaid("standing by", 1, time.Minute)
	p.asker = newAsker(t, d, "prod", "n0")
	p.asker.first(0, 10*time.Second)
	return p
}

// roles tells who holds and who stands by, and the epoch.
func (p *pair) roles() (holder, standby *clustertest.Instance, epoch uint64) {
	p.t.Helper()
	st := p.d.Leads("prod", 0, 30*time.Second)
	holder = clustertest.ByHolder(st.Holder, p.in...)
	if holder == nil {
		p.t.Fatalf("%s holds, which is none of ours", st.Holder)
	}
	if standby = p.in[0]; holder == standby {
		standby = p.in[1]
	}
	p.stood[holder] = holder.Said("standing by")
	return holder, standby, st.Epoch
}

// rest is longer than one who stepped down leaves the scope to others.
const rest = 6 * time.Second

// settled waits until the one who held before stands by, and a random time more,
// so that signals hit every phase of a heartbeat. Who stepped down need not say
// that it stands by again; the time for it is known.
func (p *pair) settled(before *clustertest.Instance) {
	p.t.Helper()
	since := time.Now()
	clustertest.Await(p.t, 40*time.Second, before.Name+" to stand by", func() bool {
		return before.Said("standing by") > p.stood[before] || time.Since(since) > rest && !p.steppedDown.IsZero() && since.Sub(p.steppedDown) < rest
	})
	<-time.After(time.Second + time.Duration(rand.Int64N(int64(500*time.Millisecond))))
}

// phases of one takeover, each from the signal on.
type phases struct {
	deposed, opened, leading, answered time.Duration
	gap                                time.Duration
	asked, failed, libraryFailed       int
	how                                string
	release                            time.Duration // from released to opened in the log, by the servers' clock
}

// takeover waits for the successor and measures.
func (p *pair) takeover(signal time.Time, above, seq uint64, standby *clustertest.Instance) (ph phases) {
	p.t.Helper()
	var released time.Time
	var opened clustertest.Seen
	p.r.AwaitEach("the successor's opened event", seq, 40*time.Second, func(s *clustertest.Seen) bool {
		if s.Type() == events.TypeReleased {
			released = s.Stored
		}
		opened = *s
		return s.Type() == events.TypeOpened && s.Epoch > above
	})
	ph.opened = opened.At.Sub(signal)
	ph.how = opened.Data.(*events.Opened).How
	if !released.IsZero() {
		ph.release = opened.Stored.Sub(released)
	}
	first := p.asker.first(above, 20*time.Second)
	ph.answered = first.Sub(signal)
	<-time.After(unanswered + 100*time.Millisecond) // the last asks fail or not
	ph.asked, ph.failed, ph.libraryFailed = p.asker.around(signal, first)
	ph.gap = p.asker.gap(signal, first)
	ph.deposed = said(p.t, standby, `msg="deposed a silent holder"`, signal)
	ph.leading = said(p.t, standby, `msg=leading `, signal)
	p.t.Logf("deposed %v, opened %v (%s), leading %v, first get %v; no get for %v; %d of %d raw gets failed, %d of the library's",
		ph.deposed.Round(time.Millisecond), ph.opened.Round(time.Millisecond), ph.how, ph.leading.Round(time.Millisecond),
		ph.answered.Round(time.Millisecond), ph.gap.Round(time.Millisecond), ph.failed, ph.asked, ph.libraryFailed)
	return ph
}

// said tells how long after a moment an instance said something (to the
// millisecond); 0: not since.
func said(t *testing.T, in *clustertest.Instance, text string, since time.Time) time.Duration {
	t.Helper()
	line := regexp.MustCompile(`(?m)^time=(\S+) .*` + regexp.QuoteMeta(text) + `.*$`)
	for _, m := range line.FindAllStringSubmatch(in.Output(), -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			t.Fatal(err)
		}
		if at.After(since) {
			return at.Sub(since)
		}
	}
	return 0
}

// collect turns rounds into columns.
func collect(all []phases, of func(*phases) time.Duration) (out []time.Duration) {
	for i := range all {
		out = append(out, of(&all[i]))
	}
	return out
}

func (p *pair) report(rows *table.Table, what string, all []phases, target time.Duration, signal string) {
	t := p.t
	t.Helper()
	rows.Spread(t, what+": without a holder", collect(all, func(p *phases) time.Duration { return p.opened }), target,
		"from "+signal+" to the successor's opened event, as a follower on a connection of its own is given it")
	rows.Spread(t, what+": first get answered", collect(all, func(p *phases) time.Duration { return p.answered }), 0,
		"from "+signal+" to the first raw get that the successor answered; one is asked every 5 ms")
	rows.Spread(t, what+": no get answered", collect(all, func(p *phases) time.Duration { return p.gap }), 0,
		"the longest time without an answered raw get around the takeover")
	failed, asked, library := 0, 0, 0
	for _, ph := range all {
		failed, asked, library = failed+ph.failed, asked+ph.asked, library+ph.libraryFailed
	}
	rows.Figure(t, what+": raw gets failed, of one takeover", "gets", float64(failed)/float64(len(all)),
		fmt.Sprintf("raw gets that were not repeated and got no credential within 500 ms, sent from %s to the first success: %d of %d", signal, failed, asked))
	rows.Figure(t, what+": library gets failed, in all", "gets", float64(library),
		fmt.Sprintf("consumer.Get with a context of 2 s, one after the other, over all %d takeovers", len(all)))
}

// killed measures takeovers from a holder that kill -9 ended.
func killed(t *testing.T, rows *table.Table) {
	p := newPair(t, 1)
	var all []phases
	for range *rounds {
		holder, standby, epoch := p.roles()
		seq := p.r.Last()
		signal := time.Now()
		holder.Kill()
		all = append(all, p.takeover(signal, epoch, seq, standby))
		holder.Start()
		p.settled(holder)
	}
	p.check(0)
	p.report(rows, "instance killed", all, killedTarget, "kill -9")
	rows.Spread(t, "instance killed: until it is deposed", collect(all, func(p *phases) time.Duration { return p.deposed }), 0,
		"from kill -9 to the standby's compare-and-set on the holder cell (E22), by its log")
	rows.Spread(t, "instance killed: from deposed to opened", collect(all, func(p *phases) time.Duration { return p.opened - p.deposed }), 0,
		"two reads, the claim's compare-and-set, the opened event; R3, sync always")
	rows.Write(t, *out)
}

// stopped measures takeovers from a holder that SIGSTOP holds.
func stopped(t *testing.T, rows *table.Table) {
	p := newPair(t, 1)
	var all []phases
	for range *rounds {
		holder, standby, epoch := p.roles()
		seq := p.r.Last()
		signal := time.Now()
		holder.Signal(syscall.SIGSTOP)
		all = append(all, p.takeover(signal, epoch, seq, standby))
		fenced := holder.Said("fenced by epoch")
		holder.Signal(syscall.SIGCONT)
		holder.AwaitSaid("fenced by epoch", fenced+1, 20*time.Second)
		p.settled(holder)
	}
	p.check(0)
	p.report(rows, "instance stopped", all, stoppedTarget, "SIGSTOP")
	rows.Write(t, *out)
}

// planned measures SIGTERM and step-down, in turns.
func planned(t *testing.T, rows *table.Table) {
	p := newPair(t, 1)
	var terminated, steppedDown []phases
	for n := range max(2, *rounds) {
		holder, standby, epoch := p.roles()
		seq := p.r.Last()
		signal := time.Now()
		p.steppedDown = time.Time{}
		var ph phases
		if n%2 == 0 {
			holder.Signal(syscall.SIGTERM)
			ph = p.takeover(signal, epoch, seq, standby)
			if code := holder.State().ExitCode(); code != 0 {
				t.Errorf("SIGTERM: exit code %d", code)
			}
			holder.Start()
			terminated = append(terminated, ph)
		} else {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if _, err := p.d.API.StepDown(ctx, "prod"); err != nil {
				t.Error(err)
			}
			cancel()
			p.steppedDown = signal
			ph = p.takeover(signal, epoch, seq, standby)
			steppedDown = append(steppedDown, ph)
		}
		if ph.how != events.HowReleased {
			t.Errorf("a planned hand-over was taken as %q", ph.how)
		}
		p.settled(holder)
	}
	p.check(0)
	p.report(rows, "planned", append(terminated, steppedDown...), plannedTarget, "SIGTERM or step-down")
	both := append(terminated, steppedDown...)
	rows.Spread(t, "planned: from released to opened in the log", collect(both, func(p *phases) time.Duration { return p.release }), 0,
		"between the two events, by the servers' clock")
	rows.Spread(t, "planned: SIGTERM, without a holder", collect(terminated, func(p *phases) time.Duration { return p.opened }), 0, "as above")
	rows.Spread(t, "planned: step-down, without a holder", collect(steppedDown, func(p *phases) time.Duration { return p.opened }), 0, "as above")
	failed := 0
	for _, ph := range both {
		failed += ph.failed
	}
	rows.AtMost(t, "planned: raw gets failed, in all", "gets", float64(failed), 0, "standbys are to answer from their own projection")
	rows.Write(t, *out)
}

// check has the log judged as a whole.
func (p *pair) check(least int) {
	p.t.Helper()
	checked := p.r.Check(p.in...)
	if checked.Takeovers < max(least, *rounds+1) {
		p.t.Errorf("%d takeovers in the log, %d rounds", checked.Takeovers, *rounds)
	}
}
