package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/secret"
)

// get asks a handler as somebody on this machine would.
func get(h http.Handler, path string, with ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost:8250"
	for _, f := range with {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEveryAnswerKeepsThePolicy(t *testing.T) {
	w := aDay(start)
	h := NewHandler(w.read(t, "prod"), w, Options{})
	defer h.Close()
	for path, want := range map[string]int{
		"/": 200, "/assets/page.js": 200, "/assets/page.css": 200, "/assets/nothing.js": 404, "/api/overview": 200, "/api/overview?at=x": 400,
		"/api/timeline?from=0&to=1&rows=-4&row=-5&width=-6": 200, "/api/timeline?rows=99999999999999999999": 400, "/api/name?scope=prod&name=orders-db": 200,
		"/api/name?scope=prod&name=nobody": 404, "/api/name?scope=prod&name=orders-db&at=5": 404, "/../../etc/passwd": 404, "/assets/login.html": 404,
	} {
		r := get(h, path)
		if r.Code != want && (want != 404 || r.Code != 301 && r.Code != 307) {
			t.Errorf("%s: %d, not %d: %s", path, r.Code, want, r.Body)
		}
		for k, v := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if r.Header().Get(k) != v {
				t.Errorf("%s: %s is %q", path, k, r.Header().Get(k))
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		if r := get(h, "/api/overview", func(r *http.Request) { r.Method = method }); r.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, r.Code)
		}
	}
	// Another page's host name that was pointed here reads nothing.
	for host, want := range map[string]int{"evil.example": 403, "127.0.0.1:8250": 200, "[::1]:8250": 200, "localhost": 200, "127.0.0.1.evil.example:8250": 403, "": 403, "0.0.0.0:8250": 403} {
		if r := get(h, "/api/overview", func(r *http.Request) { r.Host = host }); r.Code != want {
			t.Errorf("host %q: %d, not %d", host, r.Code, want)
		}
	}
}

func TestNothingIsAnsweredBeforeTheLogIsRead(t *testing.T) {
	w := aDay(start)
	h := NewHistory([]string{"prod"}, testKey)
	h.Add(w.log[0])
	handler := NewHandler(h, w, Options{})
	defer handler.Close()
	r := get(handler, "/api/overview")
	if r.Code != http.StatusServiceUnavailable || !strings.Contains(r.Body.String(), `"read":1`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

const testToken = "a token of twenty ch"

func TestLogin(t *testing.T) {
	if _, err := NewLogin(secret.New("short"), false); err == nil {
		t.Error("a short token is taken")
	}
	login, err := NewLogin(secret.New(testToken), false)
	if err != nil {
		t.Fatal(err)
	}
	w := aDay(start)
	h := NewHandler(w.read(t, "prod"), w, Options{Login: login})
	defer h.Close()
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	for path, want := range map[string]int{"/": 401, "/api/overview": 401, "/api/live": 401, "/api/name?scope=prod&name=orders-db": 401, "/assets/page.css": 200} {
		if r := get(h, path); r.Code != want || strings.Contains(r.Body.String(), "orders-db") {
			t.Errorf("%s without a login: %d", path, r.Code)
		}
	}
	if r := get(h, "/api/overview", bearer(testToken)); r.Code != 200 {
		t.Errorf("with the token: %d", r.Code)
	}
	post := func(token string) *httptest.ResponseRecorder {
		return get(h, "/login", func(r *http.Request) {
			*r = *httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("token="+strings.ReplaceAll(token, " ", "+")))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})
	}
	if r := post("not the token at all"); r.Code != 401 || len(r.Result().Cookies()) != 0 || !strings.Contains(r.Body.String(), "not the token") {
		t.Errorf("a wrong token: %d", r.Code)
	}
	r := post(testToken)
	cookies := r.Result().Cookies()
	if r.Code != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("signing in: %d %v", r.Code, cookies)
	}
	with := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: value}) }
	}
	if r := get(h, "/api/overview", with(cookies[0].Value)); r.Code != 200 {
		t.Errorf("signed in: %d", r.Code)
	}
	other, err := NewLogin(secret.New(testToken+" but another"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"", "x", cookies[0].Value + "0", "9999999999." + strings.Repeat("0", 64), login.sign(time.Now().Add(-time.Second)), other.sign(time.Now().Add(time.Hour))} {
		if r := get(h, "/api/overview", with(value)); r.Code != 401 {
			t.Errorf("a cookie %q is taken: %d", value, r.Code)
		}
	}
	// Guessing is slowed down, for the right token as well.
	for range 20 {
		get(h, "/api/overview", bearer("guess"))
	}
	if r := get(h, "/api/overview", bearer(testToken)); r.Code != 401 {
		t.Errorf("after many guesses: %d", r.Code)
	}
	if r := get(h, "/api/overview", with(cookies[0].Value)); r.Code != 200 {
		t.Errorf("who is signed in while somebody guesses: %d", r.Code)
	}
}

// batches reads a stream.
type batches struct {
	t *testing.T
	r *http.Response
	s *bufio.Scanner
}

func listen(t *testing.T, s *server, last string) *batches {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"api/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = got.Body.Close() })
	b := &batches{t, got, bufio.NewScanner(got.Body)}
	b.s.Buffer(nil, 16<<20)
	return b
}

// next gives the next batch and its id.
func (b *batches) next() (id string, out batch) {
	b.t.Helper()
	kind := ""
	for b.s.Scan() {
		key, value, _ := strings.Cut(b.s.Text(), ": ")
		switch key {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			if kind == "batch" {
				if err := json.Unmarshal([]byte(value), &out); err != nil {
					b.t.Fatal(err)
				}
				return id, out
			}
		}
	}
	b.t.Fatalf("the stream ended: %v", b.s.Err())
	return "", out
}

// TestAReconnectLosesNothing: the batches of a stream that was cut at any place,
// together, are the log.
func TestAReconnectLosesNothing(t *testing.T) {
	w := aDay(time.Now().Add(-time.Hour))
	s := serve(t, w, Options{}, nil, "prod")
	id, first := listen(t, s, "").next()
	if first.Complete || len(first.Events) == 0 {
		t.Errorf("a stream that begins: complete %v, %d events", first.Complete, len(first.Events))
	}
	seen := uint64(len(w.log))
	for round := range 12 {
		if round == 6 {
			s.stop() // and the next instance goes on
		}
		for range round {
			w.renew("prod", "orders-db", 3)
		}
		if round == 6 {
			s.start()
		}
		b := listen(t, s, id)
		for want := uint64(len(w.log)); seen < want; {
			var got batch
			id, got = b.next()
			if !got.Complete {
				t.Fatalf("round %d: not complete after %s", round, id)
			}
			for _, e := range got.Events {
				if seen++; e.Seq != seen {
					t.Fatalf("round %d: event %d follows %d", round, e.Seq, seen-1)
				}
			}
		}
	}
	// Who was away for longer than is kept is told so.
	for range maxKept + 10 {
		w.renew("prod", "orders-db", 3)
	}
	for b := listen(t, s, id); ; {
		_, got := b.next()
		if got.Seq < uint64(len(w.log)) {
			continue // the follower is not there yet
		}
		break
	}
	if _, got := listen(t, s, "1").next(); got.Complete {
		t.Error("a stream that left events out says that it is complete")
	}
	if _, got := listen(t, s, "99999999").next(); got.Complete {
		t.Error("a stream behind the end of the log says that it is complete")
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := aDay(start)
	h := NewHandler(w.read(t, "prod"), w, Options{})
	h.streams.Store(maxStreams)
	if r := get(h, "/api/live"); r.Code != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", r.Code)
	}
	h.streams.Store(0)
	h.Close()
	if r := get(h, "/api/live"); r.Code != 200 { // ends at once
		t.Errorf("after the end: %d", r.Code)
	}
}

// FuzzNothingBecomesMarkup: whatever stands in an event, answers are JSON without
// a character that could begin markup, and a stream's frames are whole.
func FuzzNothingBecomesMarkup(f *testing.F) {
	for _, text := range nasty {
		f.Add("name", text)
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if events.CheckName(name) != nil {
			name = "name"
		}
		w := newWritten(start)
		w.open("prod", text, events.HowFresh)
		w.define("prod", name, text, text)
		w.register("prod", name, text, text)
		no := w.request("prod", name, text, text)
		w.write("prod", name, no, &events.AcquireFailed{Failure: events.Failure{Kind: text, Message: text}, LeaseID: text, Retry: events.Retry{Attempt: 1, At: w.clock.UTC()}})
		w.write("prod", events.EpochName, 0, &events.Paused{Vault: text, Kind: text})
		history := NewHistory([]string{"prod"}, testKey)
		for _, m := range w.log {
			history.Add(m)
		}
		history.caughtUp()
		for _, c := range history.scopes {
			if c.stopped != "" {
				return // it is no event at all (text that is not UTF-8)
			}
		}
		h := NewHandler(history, w, Options{Version: text})
		for _, path := range []string{"/api/overview", "/api/timeline?to=99999999999999", "/api/name?scope=prod&name=" + name} {
			r := get(h, path)
			if r.Code != 200 || r.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Fatalf("%s: %d %s", path, r.Code, r.Body)
			}
			if bytes.ContainsAny(r.Body.Bytes(), "<>&\u2028\u2029") || !json.Valid(r.Body.Bytes()) {
				t.Fatalf("%s: %q", path, r.Body)
			}
		}
		h.Close()
		rec := httptest.NewRecorder()
		s := stream{w: rec, control: http.NewResponseController(rec)}
		body, err := json.Marshal(batch{Version: text, Events: history.feed.kept, Overview: history.Overview(Now)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.send("id: %d\nevent: batch\ndata: %s\n\n", 7, body); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(rec.Body.String(), "\n"); len(lines) != 5 || bytes.ContainsAny(body, "<>&\r") {
			t.Fatalf("a frame has %d lines: %q", len(lines), rec.Body)
		}
	})
}

func TestTheAssetsNameNobodyElse(t *testing.T) {
	for _, name := range []string{"index.html", "login.html", "page.js", "page.css", "timeline.js", "link.js", "overview.js", "detail.js", "shapes.js", "say.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "style=\"", "onclick="} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
	if fmt.Sprint(phaseWords[phaseActive]) != "active" || !strings.Contains(policy, "trusted-types 'none'") {
		t.Error("the policy or the phases have changed")
	}
}
