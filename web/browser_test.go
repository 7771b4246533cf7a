package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/leasesvc/leasesvc/events"
)

// The tests of the whole page share one Chromium, each with a tab of its own.
var browser struct {
	once   sync.Once
	ctx    context.Context
	cancel []context.CancelFunc
	err    error
}

func startBrowser() {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		browser.err = errors.New("there is no chromium: run scripts/install-test-deps (make deps)")
		return
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.DisableGPU, chromedp.WSURLReadTimeout(60*time.Second),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, stop := chromedp.NewContext(alloc)
	//nolint:fatcontext // it is made once, and shared on purpose
	browser.ctx, browser.cancel = ctx, []context.CancelFunc{stop, stopAlloc}
	browser.err = chromedp.Do(ctx)
}

func stopBrowser() {
	for _, c := range browser.cancel {
		c()
	}
}

// tab is a page of the browser, and what it complained of and asked for.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// within bounds each test, and each wait in it.
const (
	within     = 100 * time.Second
	waitWithin = 30 * time.Second
)

func newTab(t testing.TB) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	b := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithListener(b.hear))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // a time-out of the first would end the browser
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, within)
	t.Cleanup(stop)
	b.ctx = ctx
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	b.size(1280, 900, false)
	return b
}

// call runs a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, parameters)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *tab) size(width, height int64, phone bool) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: phone})
}

func (b *tab) scheme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			what, _ := json.Marshal(e.Args)
			b.errors = append(b.errors, "console: "+string(what))
		}
	case *runtime.EventExceptionThrown:
		what, _ := json.Marshal(e.ExceptionDetails)
		b.errors = append(b.errors, "exception: "+string(what))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.errors = append(b.errors, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	var err error
	for end := time.Now().Add(waitWithin); time.Now().Before(end) && b.ctx.Err() == nil; time.Sleep(25 * time.Millisecond) {
		var is bool
		if is, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")); is {
			return
		}
	}
	shown, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 3000) + '\n' + [...document.querySelectorAll('#names button')].map(b => b.getAttribute('aria-label')).join('\n') + JSON.stringify(document.querySelector('#canvas').dataset) + document.visibilityState + JSON.stringify(performance.getEntriesByType('resource').map(e => [e.name, e.duration, e.responseStatus]))`))
	b.t.Fatalf("%s does not come true: %v\nshown is:\n%s\n%v", expression, err, shown, b.errors)
}

// eval gives what an expression or a promise comes to, as text.
func (b *tab) eval(expression string) string {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// input puts a text into an input.
func (b *tab) input(selector, value string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event('input')); })()`, selector, value))
}

// open opens a page and waits until it is live and drawn.
func (b *tab) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
	b.until(`document.querySelector('#link').className.includes('live') && document.documentElement.dataset.drawn !== undefined`)
}

// label gives an expression that tells whether a lane's words have a text.
func label(name, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#names li:not([hidden]) button')].some(b => b.textContent === %q && b.getAttribute('aria-label').includes(%q))`, name, text)
}

func contains(selector, text string) string {
	return fmt.Sprintf(`document.querySelector(%q).innerText.includes(%q)`, selector, text)
}

// quiet checks that nothing was complained of, and nobody else asked.
func (b *tab) quiet(host string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.t.Errorf("the console has: %s", e)
	}
	for _, r := range b.requests {
		if u, err := url.Parse(r); err != nil || u.Host != host && u.Scheme != "data" && u.Scheme != "blob" {
			b.t.Errorf("somebody else is asked: %s", r)
		}
	}
	if len(b.requests) < 5 {
		b.t.Errorf("only %d requests were seen", len(b.requests))
	}
}

// aliveNow is a day that ends now, and who is alive.
func aliveNow() (*written, Live) {
	w := aDay(time.Now().Add(-17 * time.Minute).Truncate(time.Second))
	w.clock = time.Now()
	return w, func(context.Context) Present {
		return Present{
			Holding: map[string]Instance{"prod": {Holder: "holder-two", Host: "node-b", State: "live", Age: 300}},
			Standby: map[string][]Instance{"prod": {{Holder: "holder-three", Host: "node-c", State: "live", Age: 200}}},
		}
	}
}

func TestPageFollowsARotationWithinASecond(t *testing.T) {
	w, live := aliveNow()
	s := serve(t, w, Options{Version: "v1.2.3"}, live, "prod")
	b := newTab(t)
	b.open(s.url())
	b.until(label("orders-db", "lease 3"))
	b.until(contains("#scopes", "node-c") + "&&" + contains("#scopes", "2 active") + "&&" + contains("#scopes", "holder-two"))
	before, best := uint64(3), time.Hour
	for range 3 { // a loaded machine may be late once
		w.clock = time.Now()
		began := time.Now()
		next := w.rotate("prod", "orders-db", "database/creds/orders", before, "inc-1")
		b.until(label("orders-db", fmt.Sprintf("lease %d", next)) + "&&" + contains("#scopes", "1 grace") + "&&" + contains("#feed", fmt.Sprintf("lease %d is active now", next)))
		best = min(best, time.Since(began))
		w.clock = time.Now()
		w.retire("prod", "orders-db", before, events.RetiredReplaced)
		b.until("!" + contains("#scopes", "1 grace"))
		before = next
	}
	t.Logf("a rotation was shown after %v", best)
	if best > time.Second {
		t.Errorf("the fastest of three rotations was shown after %v", best)
	}
	b.until(`document.querySelector('#canvas').dataset.marks.includes('installed') && Number(document.querySelector('#canvas').dataset.bars) > 3`)
	b.quiet(s.addr)
}

func TestPageShowsARollBack(t *testing.T) {
	w, live := aliveNow()
	s := serve(t, w, Options{}, live, "prod")
	b := newTab(t)
	b.open(s.url() + "?span=600000")
	w.clock = time.Now()
	bad := w.rollBack("prod", "billing-db", "database/creds/billing", 2, "inc-9", "the new account is not there")
	b.until(label("billing-db", "rolled-back") + "||" + label("billing-db", "rollback-started"))
	b.until(`document.querySelector('#canvas').dataset.marks.includes('roll-back')`)
	b.until(contains("#concerns", "the new account is not there") + "&&" + contains("#concerns", "ask the application that said no"))
	// The keyboard opens the detail, and closes it.
	b.do(chromedp.Focus("#lanes"), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.until(`!document.querySelector('#detail').hidden && ` + contains("#detail-title", "billing-db") + "&&" + contains("#detail-story", fmt.Sprintf("lease %d is rolled back", bad)))
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until(`document.querySelector('#detail').hidden && document.activeElement.id === 'lanes'`)
	// Zoom and pan by keys and by dragging.
	b.do(chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.ArrowLeft))
	b.until(`document.querySelector('#follow').getAttribute('aria-pressed') === 'false' && location.search.includes('from=')`)
	b.do(chromedp.KeyEvent(kb.End))
	b.until(`document.querySelector('#follow').getAttribute('aria-pressed') === 'true'`)
	b.quiet(s.addr)
}

func TestPageTravelsInTime(t *testing.T) {
	w, live := aliveNow()
	s := serve(t, w, Options{}, live, "prod")
	b := newTab(t)
	then := time.UnixMilli(s.at(t, 2*time.Minute))
	b.open(s.url() + "?at=" + url.QueryEscape(then.UTC().Format(time.RFC3339Nano)) + "&in=prod&name=orders-db")
	b.until(label("orders-db", "lease 1") + "&&" + contains("#scopes", "holder-one") + "&&" + contains("#scopes", "2 active") + "&& !" + contains("#concerns", "orders-db"))
	b.until(`!document.querySelector('#detail').hidden && ` + contains("#detail-leases", "lease 1: active") + "&& !" + contains("#detail-body", "rolled back"))
	b.until(`document.documentElement.dataset.moment === 'past' && ` + contains("#moment-says", "as it was at"))
	// What comes meanwhile does not change what is shown.
	w.clock = time.Now()
	next := w.rotate("prod", "orders-db", "database/creds/orders", 3, "inc-1")
	b.until(contains("#moment-says", "events have come"))
	b.until(label("orders-db", "lease 1"))
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.Click("#now"))
	b.until(label("orders-db", fmt.Sprintf("lease %d", next)) + "&&" + contains("#scopes", "holder-two") + `&& document.documentElement.dataset.moment === 'now' && !location.search.includes('at=')`)
	// The slider, and a link to what it shows.
	b.input("#slider", "1500")
	b.until(label("orders-db", "lease 1") + `&& location.search.includes('at=')`)
	link := b.eval("location.href")
	other := newTab(t)
	other.open(link)
	other.until(label("orders-db", "lease 1") + "&&" + contains("#scopes", "holder-one"))
	b.quiet(s.addr)
	other.quiet(s.addr)
}

// at gives a moment after the log's beginning.
func (s *server) at(t *testing.T, after time.Duration) int64 {
	t.Helper()
	for until := time.Now().Add(waitWithin); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if ready, _ := s.history.readiness(); ready {
			return s.history.Overview(Now).First + after.Milliseconds()
		}
	}
	t.Fatal("the log is not read")
	return 0
}

func TestPageFollowsARestartedServer(t *testing.T) {
	w, live := aliveNow()
	s := serve(t, w, Options{}, live, "prod")
	b := newTab(t)
	b.open(s.url())
	b.until(label("billing-db", "lease 2"))
	b.eval(`window.notReloaded = true`)
	s.stop()
	b.until(`document.querySelector('#link').className.includes('lost')`)
	w.clock = time.Now()
	next := w.rotate("prod", "billing-db", "database/creds/billing", 2)
	s.start()
	b.until(label("billing-db", fmt.Sprintf("lease %d", next)) + `&& document.querySelector('#link').className.includes('live')`)
	// A tab that slept through more than is kept reads everything again.
	s.stop()
	for range maxKept + 100 {
		w.renew("prod", "billing-db", next)
	}
	w.clock = time.Now()
	last := w.rotate("prod", "orders-db", "database/creds/orders", 3, "inc-1")
	s.start()
	b.until(label("orders-db", fmt.Sprintf("lease %d", last)) + `&& document.querySelector('#link').className.includes('live')`)
	if b.eval(`window.notReloaded`) != "true" {
		t.Error("the page was reloaded")
	}
	b.mu.Lock()
	kept := b.errors[:0]
	for _, e := range b.errors {
		// While there was no server, or it was still reading.
		if !strings.Contains(e, "net::ERR_") && !strings.Contains(e, "status of 503") {
			kept = append(kept, e)
		}
	}
	b.errors = kept
	b.mu.Unlock()
	b.quiet(s.addr)
}

// TestPageCatchesUpAfterSleep: a tab that nobody sees gives its stream back, one
// that the browser has frozen hears nothing; both show what is when they wake.
func TestPageCatchesUpAfterSleep(t *testing.T) {
	w, live := aliveNow()
	s := serve(t, w, Options{}, live, "prod")
	b := newTab(t)
	b.open(s.url())
	b.until(label("billing-db", "lease 2"))
	b.eval(`window.notReloaded = true`)

	seen := func(hidden bool) {
		b.eval(fmt.Sprintf(`(() => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => %t}); document.dispatchEvent(new Event('visibilitychange')); })()`, hidden))
	}
	seen(false)
	seen(true)
	for until := time.Now().Add(waitWithin); s.handler.streams.Load() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("a page that nobody sees keeps its stream")
		}
	}
	w.clock = time.Now()
	next := w.rotate("prod", "billing-db", "database/creds/billing", 2)
	seen(false)
	b.until(label("billing-db", fmt.Sprintf("lease %d", next)) + `&& document.querySelector('#link').className.includes('live')`)

	b.eval(`(() => { let last = performance.now(); window.gap = 0; setInterval(() => { const now = performance.now(); window.gap = Math.max(window.gap, now - last); last = now; }, 50); })()`)
	began := time.Now()
	call(b, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateFrozen})
	w.clock = time.Now()
	last := w.rotate("prod", "orders-db", "database/creds/orders", 3, "inc-1")
	for until := time.Now().Add(waitWithin); time.Since(began) < 2*time.Second || s.history.Overview(Now).Last < w.clock.UnixMilli(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the server has not read what happened")
		}
	}
	call(b, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateActive})
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.until(label("orders-db", fmt.Sprintf("lease %d", last)) + `&& document.querySelector('#link').className.includes('live')`)
	b.until(`window.gap > 1000`) // it was frozen
	if b.eval(`window.notReloaded`) != "true" {
		t.Error("the page was reloaded")
	}
	b.quiet(s.addr)
}

// nasty are texts that would be markup, code or a broken frame somewhere.
var nasty = []string{
	`<img src=x onerror="window.hurt=1">`, `<script>window.hurt=1</script>`, `"><svg/onload=window.hurt=1>`, `javascript:window.hurt=1`,
	"a\n\nevent: batch\ndata: {}\n\n", `</pre><iframe src="https://example.com"></iframe>`, "\u2028\u2029\u202e", `{{7*7}}${7*7}`, `<!-- `, `&lt;b&gt;`,
}

func TestPageMakesNoMarkupOfEvents(t *testing.T) {
	w, live := aliveNow()
	for i, text := range nasty {
		name := fmt.Sprint("name-", i)
		w.define("prod", name, text, text)
		w.register("prod", name, text, text)
		no := w.request("prod", name, text, text)
		w.write("prod", name, no, &events.AcquireFailed{Failure: events.Failure{Kind: text, Message: text}, Retry: events.Retry{Attempt: 1, At: w.clock.UTC()}})
	}
	s := serve(t, w, Options{Version: nasty[0]}, live, "prod")
	b := newTab(t)
	b.open(s.url())
	for i, text := range nasty {
		name := fmt.Sprint("name-", i)
		w.clock = time.Now()
		w.rollBack("prod", name, text, 0, text, text) // said live as well
		b.input("#query", name)
		b.until(label(name, name+",") + `&& document.querySelector('#found').textContent.startsWith('1 name')`)
		b.eval(`document.querySelector('#names li:not([hidden]) button').click()`)
		b.until(`!document.querySelector('#detail').hidden && document.querySelector('#detail-title').textContent === ` + fmt.Sprintf("%q", name))
		want, _ := json.Marshal(text)
		b.until(fmt.Sprintf(`document.querySelector('#detail-body').textContent.includes(%s) && document.querySelector('#concerns').textContent.includes(%s)`, want, want))
	}
	if got := b.eval(`String(window.hurt) + document.querySelectorAll('img, iframe, svg, body script, object, embed').length`); got != "undefined0" {
		t.Errorf("something of an event came alive: %s", got)
	}
	b.quiet(s.addr)
}

// TestPageIsAccessible has axe-core look at it.
func TestPageIsAccessible(t *testing.T) {
	found, _ := filepath.Glob("../bin/axe-core-*/axe.min.js")
	if len(found) == 0 {
		t.Fatal("there is no axe-core: run scripts/install-test-deps (make deps)")
	}
	axe, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	w, live := aliveNow()
	s := serve(t, w, Options{}, live, "prod")
	b := newTab(t)
	call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // axe compiles its rules; nothing else does
	for _, scheme := range []string{"light", "dark"} {
		for _, view := range []string{"", "?in=prod&name=orders-db"} {
			b.scheme(scheme)
			b.open(s.url() + view)
			b.until(`document.querySelectorAll('#concerns li').length > 1`)
			if view != "" {
				b.until(`!document.querySelector('#detail').hidden`)
			}
			b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
			out := b.eval(`axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify({passes: r.passes.length, bad: r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, at: v.nodes.map(n => n.target.join(' ') + ': ' + n.failureSummary).slice(0, 5)}))}))`)
			var r struct {
				Passes int
				Bad    []struct {
					ID, Impact, Help string
					At               []string
				}
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if r.Passes < 20 {
				t.Errorf("axe looked at %d things only", r.Passes)
			}
			for _, v := range r.Bad {
				if v.Impact == "serious" || v.Impact == "critical" {
					t.Errorf("%s %s: %s (%s) at\n%s", scheme, view, v.ID, v.Help, strings.Join(v.At, "\n"))
				} else {
					t.Logf("%s %s: %s %s (%s) at %v", scheme, view, v.Impact, v.ID, v.Help, v.At)
				}
			}
		}
	}
}

// TestScreenshots makes pictures for people, in $LEASESVC_SCREENSHOTS if it is
// set.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("LEASESVC_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w, live := aliveNow()
	s := serve(t, w, Options{Version: "v0.9.0"}, live, "prod")
	b := newTab(t)
	for _, scheme := range []string{"light", "dark"} {
		for device, size := range map[string][2]int64{"desktop": {1280, 1100}, "phone": {390, 844}} {
			for view, query := range map[string]string{"page": "", "detail": "?in=prod&name=orders-db&lease=3"} {
				b.size(size[0], size[1], device == "phone")
				b.scheme(scheme)
				b.open(s.url() + query)
				b.until(`Number(document.querySelector('#canvas').dataset.bars) > 3`)
				if query != "" {
					b.until(`!document.querySelector('#detail').hidden`)
				}
				if got := b.eval(`document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth + ' of ' + innerWidth : 'fits'`); got != "fits" {
					t.Errorf("%s: the page is wider than the screen: %s", device, got)
				}
				beyond := view == "page"
				png := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyond}).Data
				if len(png) < 5000 {
					t.Errorf("a picture has %d bytes", len(png))
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%s.png", view, device, scheme)), png, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	b.quiet(s.addr)
}
