package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/web"
)

// front is what answers on the HTTP address: the probes, for everybody; the
// metrics and what else can be read, for who may look; and the page.
//
// It reads only. Without a login it says no more than the names of scopes and
// words of closed lists.
type front struct {
	svc *Service
	mux *http.ServeMux

	shown   atomic.Pointer[shown]
	queries chan struct{} // bounds the questions about a scope's state
}

// shown is the page, once there is one.
type shown struct {
	page    *web.Handler
	history *web.History
}

const (
	// statesAtOnce and stateWithin bound the questions about a scope's state.
	statesAtOnce = 4
	stateWithin  = 20 * time.Second
)

func newFront(s *Service) *front {
	f := &front{svc: s, mux: http.NewServeMux(), queries: make(chan struct{}, statesAtOnce)}
	open := func(path string, answer http.HandlerFunc) { f.mux.Handle(path, readOnly(answer)) }
	guarded := func(path string, h http.Handler) {
		f.mux.Handle(path, readOnly(web.Protect(s.page.login, s.cfg.HTTP.Insecure, h)))
	}
	open("/livez", f.livez)
	open("/readyz", f.readyz)
	open("/readyz/{scope}", f.readyzScope)
	guarded("/metrics", s.metrics.Handler())
	guarded("/status", f.question(f.status))
	guarded("/leases", f.question(f.leases))
	guarded("/events", f.question(f.events))
	f.mux.HandleFunc("/", f.thePage)
	return f
}

// readOnly refuses every method but GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			tell(w, http.StatusMethodNotAllowed, api.Problem{Code: api.CodeRefused, Message: "nothing can be changed here: ask with GET"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tell answers with JSON.
func tell(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v) // escapes <, > and & as well
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer can't be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // who asked may be gone
}

// tellLater answers that there is no answer now, and that there may be one in a second.
func tellLater(w http.ResponseWriter, v any) {
	w.Header().Set("Retry-After", "1")
	tell(w, http.StatusServiceUnavailable, v)
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// show has the page shown.
func (f *front) show(page *web.Handler, history *web.History) { f.shown.Store(&shown{page, history}) }

// close ends the page's streams.
func (f *front) close() {
	if p := f.shown.Load(); p != nil {
		p.page.Close()
	}
}

func (f *front) thePage(w http.ResponseWriter, r *http.Request) {
	if p := f.shown.Load(); p != nil {
		p.page.ServeHTTP(w, r)
		return
	}
	tellLater(w, api.Problem{Code: api.CodeNotLeading, Message: "the instance is starting; see /readyz"})
}

// may tells whether who asks may be told details.
func (f *front) may(r *http.Request) bool {
	return web.May(f.svc.page.login, f.svc.cfg.HTTP.Insecure, r)
}

func (f *front) livez(w http.ResponseWriter, _ *http.Request) {
	stuck := f.svc.stuck(time.Now())
	if len(stuck) > 0 {
		tell(w, http.StatusServiceUnavailable, api.Live{Stuck: stuck})
		return
	}
	tell(w, http.StatusOK, api.Live{Live: true})
}

// stuck lists the loops that have been at one step of their own for too long.
// Waiting for NATS, Vault or a consumer is none.
func (s *Service) stuck(now time.Time) (out []api.StuckLoop) {
	add := func(scope, loop string, lasted time.Duration) {
		if lasted > 0 {
			out = append(out, api.StuckLoop{Scope: scope, Loop: loop, For: lasted.Round(time.Second).Seconds()})
		}
	}
	for _, name := range s.cfg.ScopeNames() {
		sc := s.scopes[name]
		if t := sc.led.Load(); t != nil {
			add(name, "decide", t.pulse.stuck(now, s.stuckAfter))
		}
		add(name, "follow", sc.follower.pulse.stuck(now, s.stuckAfter))
	}
	// One heartbeat has the time-out of its requests, and a few repetitions.
	add("", "heartbeat", s.heart.stuck(now, s.stuckAfter+2*s.cfg.OperationTimeout.Duration()))
	return out
}

func (f *front) readyz(w http.ResponseWriter, r *http.Request) {
	is, details := f.svc.readiness(r.Context()), f.may(r)
	out := api.Ready{Ready: is.ready(), Problems: shownTo(is.problems, details), Scopes: map[string]api.ScopeReady{}}
	for name := range is.scopes {
		out.Scopes[name] = is.scope(name, details)
	}
	tell(w, statusOf(out.Ready), out)
}

func (f *front) readyzScope(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("scope")
	if f.svc.scopes[name] == nil {
		f.noScope(w)
		return
	}
	is := f.svc.readiness(r.Context())
	out := is.scope(name, f.may(r))
	out.Problems = append(shownTo(is.problems, f.may(r)), out.Problems...)
	out.Ready = len(out.Problems) == 0
	tell(w, statusOf(out.Ready), out)
}

// noScope says which scopes there are.
func (f *front) noScope(w http.ResponseWriter) {
	tell(w, http.StatusNotFound, api.Problem{Code: api.CodeUnknownScope, Message: "this instance has no such scope", Names: f.svc.cfg.ScopeNames()})
}

func statusOf(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// scope gives what was found out of one scope.
func (r *readiness) scope(name string, details bool) api.ScopeReady {
	sc := r.scopes[name]
	out := api.ScopeReady{Ready: len(sc.problems) == 0, Role: api.RoleStandby, Problems: shownTo(sc.problems, details)}
	if sc.leads {
		out.Role = api.RoleLeader
	}
	return out
}

// shownTo leaves out what is only for who may look.
func shownTo(problems []api.NotReady, details bool) []api.NotReady {
	out := slices.Clone(problems)
	for i := range out {
		if !details {
			out[i].Detail = ""
		}
	}
	return out
}

// errNoScope says that this instance has no such scope.
var errNoScope = errors.New("this instance has no such scope")

// badQuestion says what is wrong with a parameter.
type badQuestion struct{ says string }

// Error implements error.
func (e badQuestion) Error() string { return e.says }

// question makes a handler of a question about the state.
func (f *front) question(answer func(context.Context, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), stateWithin)
		defer cancel()
		select {
		case f.queries <- struct{}{}:
			defer func() { <-f.queries }()
		case <-ctx.Done():
			tellLater(w, api.Problem{Code: api.CodeBusy, Message: busy(againLater, "%d questions are being answered", cap(f.queries)).Error()})
			return
		}
		if !f.svc.hasBegun() {
			tellLater(w, api.Problem{Code: api.CodeNotLeading, Message: "the instance is starting; see /readyz"})
			return
		}
		v, err := answer(ctx, r)
		var bad badQuestion
		switch {
		case err == nil:
			tell(w, http.StatusOK, v)
		case errors.Is(err, errNoScope):
			f.noScope(w)
		case errors.Is(err, web.ErrUnknownName):
			tell(w, http.StatusNotFound, api.Problem{Code: api.CodeUnknownName, Message: err.Error()})
		case errors.As(err, &bad):
			tell(w, http.StatusBadRequest, api.Problem{Code: api.CodeRefused, Message: bad.says})
		default:
			f.svc.log.Warn("a question over HTTP has no answer", "path", r.URL.Path, "error", err)
			tellLater(w, api.Problem{Code: api.CodeBusy, Message: busy(againLater, "there is no answer now: %v", err).Error()})
		}
	})
}
