package web

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
)

var (
	benchNames  = flag.Int("web.names", 200, "names (and about as many leases that live) of BenchmarkPage; make web-bench takes 10,000")
	benchEvents = flag.Int("web.events", 20_000, "events of BenchmarkPage; make web-bench takes 1,000,000")
)

// crowd writes a log of many names into a history, a fleet whose leases are
// renewed every few minutes and rotated now and then, as far back as it takes.
func crowd(names, total int, h *History) *written {
	w := newWritten(time.Now())
	w.sink = h.Add
	w.keep = "db-00042"
	// A renewal of each name every five minutes makes this many events a second.
	tick := 300 * time.Second / time.Duration(names)
	w.pass(-tick * time.Duration(total) * 95 / 100)
	w.open("prod", "node-a", events.HowFresh)
	active := make([]uint64, names)
	name := func(i int) string { return fmt.Sprintf("db-%05d", i) }
	path := func(i int) string { return fmt.Sprintf("database/creds/team-%d/app-%d", i%37, i) }
	for i := range names {
		w.define("prod", name(i), path(i), fmt.Sprint("app-", i%500))
		w.register("prod", name(i), fmt.Sprint("app-", i%500), fmt.Sprint("inc-", i))
		active[i] = w.rotate("prod", name(i), path(i), 0, fmt.Sprint("inc-", i))
	}
	for i := 0; w.ids < total; i++ {
		w.pass(tick)
		k := i % names
		switch i % 97 {
		case 0:
			before := active[k]
			active[k] = w.rotate("prod", name(k), path(k), before, fmt.Sprint("inc-", k))
			w.pass(tick * 3)
			w.retire("prod", name(k), before, events.RetiredReplaced)
		case 50:
			w.revoke("prod", name(k), w.rollBack("prod", name(k), path(k), active[k], fmt.Sprint("inc-", k), "the pool can't connect"))
		default:
			w.renew("prod", name(k), active[k])
		}
		if i%200_000 == 199_999 {
			w.open("prod", fmt.Sprint("node-", i), events.HowQuiet)
		}
	}
	w.sink = nil
	return w
}

// preread is a source whose beginning was given to the history already.
type preread struct {
	*written
	history *History
}

func (p *preread) Replay(ctx context.Context, _ string, _, _ uint64, _ func(journal.Message) error) error {
	return ctx.Err()
}

func median(of [3]float64) float64 {
	s := of[:]
	slices.Sort(s)
	return s[1]
}

// BenchmarkPage measures the page with many leases and a long log: how long the
// first view takes, how smoothly it pans, what it holds in memory.
func BenchmarkPage(b *testing.B) {
	if b.N > 1 {
		b.Log("one round says it all: -benchtime 1x")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := NewHistory([]string{"prod"}, testKey)
	began := time.Now()
	w := crowd(*benchNames, *benchEvents, h)
	read := time.Since(began)
	h.caughtUp()
	if h.scopes[0].stopped != "" {
		b.Fatal(h.scopes[0].stopped)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(w.ids), "events")
	b.ReportMetric(read.Seconds(), "s/write+read")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB/history")
	b.ReportMetric(measure(func() { h.Overview(Now) }), "ms/overview")
	b.ReportMetric(measure(func() { h.Overview(time.Now().Add(-time.Hour).UnixMilli()) }), "ms/overview-past")
	wide := Window{From: h.Overview(Now).First, To: time.Now().UnixMilli(), At: Now, Width: 3600, Rows: 60}
	b.ReportMetric(measure(func() { h.Timeline(wide) }), "ms/timeline-all")
	wide.Query = "database/creds/team-7/app-7/0000"
	b.ReportMetric(measure(func() { h.Timeline(wide) }), "ms/search")
	d := details{history: h, source: w}
	b.ReportMetric(measure(func() {
		if _, err := d.Detail(context.Background(), "prod", w.keep, Now); err != nil {
			b.Fatal(err)
		}
	}), "ms/detail")

	s := serve(b, &preread{w, h}, Options{}, nil, "prod")
	s.stop()
	s.reuse = h
	s.start()
	var all [len(visited)][3]float64
	for run := range 3 {
		for i, v := range visit(b, s) {
			all[i][run] = v
		}
	}
	for i, name := range visited {
		b.ReportMetric(median(all[i]), name)
	}
	b.ReportMetric(0, "ns/op")
}

// measure gives the median of some runs in milliseconds.
func measure(f func()) float64 {
	var took [3]float64
	for i := range took {
		began := time.Now()
		f()
		took[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	return median(took)
}

// frames pans or scrolls (or does nothing, which is what the machine is worth)
// for two seconds and gives the longest and the median time between two frames,
// and the longest time that drawing one took of the page's thread.
const frames = `new Promise((done) => {
	const lanes = document.querySelector('#lanes'), times = [];
	let last = performance.now(), cost = 0;
	const canvas = document.querySelector('#canvas'), begin = last;
	const step = (now) => {
		times.push(now - last); last = now;
		const way = Math.sin((now - begin) / 300);
		%s
		cost = Math.max(cost, Number(canvas.dataset.cost));
		if (now - begin < 2000) requestAnimationFrame(step);
		else { times.splice(0, 2); times.sort((a, b) => a - b); done(times[times.length - 1].toFixed(2) + ' ' + times[times.length >> 1].toFixed(2) + ' ' + cost + ' ' + times.length); }
	};
	requestAnimationFrame(step);
})`

// visited names what a visit measures.
var visited = [...]string{
	"ms/first-view", "ms/worst-frame-idle", "ms/worst-frame-panning", "ms/median-frame-panning", "ms/worst-draw-panning",
	"ms/worst-frame-scrolling", "ms/median-frame-scrolling", "ms/worst-draw-scrolling", "MiB/tab",
	"ms/CPU-a-frame-panning",
}

// visit opens the page in a tab and measures it.
func visit(b *testing.B, s *server) (out [len(visited)]float64) {
	t := newTab(b)
	defer t.close()
	t.open(s.url() + "?span=21600000") // six hours
	t.until(`document.querySelectorAll('#names li:not([hidden])').length > 10 && Number(document.querySelector('#canvas').dataset.bars) > 50`)
	out[0] = number64(b, t.eval(`performance.getEntriesByName('first view')[0].startTime`))
	call(t, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	var typical, cost float64
	for i, do := range map[int]string{
		1: ``,
		2: `lanes.dispatchEvent(new WheelEvent('wheel', { shiftKey: true, deltaY: 60 * way, cancelable: true }));`,
		5: `lanes.scrollTop += 60;`,
	} {
		var count float64
		busy := t.metric("TaskDuration")
		if _, err := fmt.Sscan(t.eval(fmt.Sprintf(frames, do)), &out[i], &typical, &cost, &count); err != nil {
			b.Fatal(err)
		}
		if i == 2 {
			out[9] = (t.metric("TaskDuration") - busy) * 1000 / count
		}
		if i > 1 {
			out[i+1], out[i+2] = typical, cost
		}
	}
	for _, span := range []string{"120000", "3600000", "86400000", "0"} { // every zoom, then what is held
		t.eval(`(() => { const e = document.querySelector('#span'); e.value = '` + span + `'; e.dispatchEvent(new Event('change')); })()`)
		t.until(`Number(document.querySelector('#canvas').dataset.bars) > 0`)
	}
	out[8] = t.metric("JSHeapUsedSize") / (1 << 20)
	b.Logf("%v: %.1f", visited, out)
	return out
}

// metric gives one of the browser's own figures of the tab.
func (b *tab) metric(name string) float64 {
	b.t.Helper()
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	b.t.Fatalf("the browser has no figure %s", name)
	return 0
}

func number64(b *testing.B, s string) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *tab) close() { _ = chromedp.Cancel(b.ctx) }
