package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// maxStreams bounds the pages that are told what is new at a time.
	maxStreams = 64
	// maxQueries bounds the questions that are answered at a time.
	maxQueries = 8
	// queryWithin bounds one question.
	queryWithin = 20 * time.Second
)

// policy is the page's content security policy: its own files and answers, no
// other host, no inline code, no text that becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options are what a page needs beside the history.
type Options struct {
	// Version is the program's.
	Version string
	// Logger gets what goes wrong; nil: nothing.
	Logger *slog.Logger
	// Login asks for a token or a certificate; nil: everybody who reaches the
	// address may look, which only suits a loopback address.
	Login *Login
	// AnyHost answers under any name without a login too, where who configured it
	// means everybody who reaches the address.
	AnyHost bool
}

// Handler serves the page.
type Handler struct {
	history *History
	details details
	opts    Options
	inner   http.Handler
	streams atomic.Int64
	queries chan struct{}
	glance  glance
	ending  context.Context
	end     context.CancelFunc
}

// NewHandler makes the page's handler. Call its Close before the server that
// serves it is shut down: streams end then.
func NewHandler(history *History, source Source, opts Options) *Handler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{history: history, opts: opts, queries: make(chan struct{}, maxQueries)}
	h.details.history, h.details.source = history, source
	h.ending, h.end = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/overview", h.query(h.overview))
	mux.HandleFunc("GET /api/timeline", h.query(h.timeline))
	mux.HandleFunc("GET /api/name", h.query(h.name))
	mux.HandleFunc("GET /api/live", h.live)
	serveAssets(mux)
	h.inner = mux
	switch {
	case opts.Login != nil:
		h.inner = opts.Login.guard(mux)
	case !opts.AnyHost:
		h.inner = loopbackOnly(mux)
	}
	return h
}

// Close ends the streams.
func (h *Handler) Close() { h.end() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	head.Set("Cache-Control", "no-store")
	h.inner.ServeHTTP(w, r)
}

// loopbackOnly refuses a request whose Host is no loopback name: a page of
// somebody else's, whose host name was pointed here, must not read ours.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopbackHost(r.Host) {
			http.Error(w, "this address answers to localhost only; configure http.tls and http.token_file to expose it", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost tells whether a request's Host is a loopback name.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return Loopback(host)
}

// Loopback tells whether a host is this machine only.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// problem is an answer that is an error.
type problem struct {
	Error string `json:"error"`
	// Read counts, while the log is being read, what was read so far.
	Read uint64 `json:"read,omitempty"`
}

// errBadQuestion says that a parameter makes no sense.
var errBadQuestion = errors.New("the address is not right")

// query makes a handler of a question that is answered with JSON.
func (h *Handler) query(answer func(context.Context, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), queryWithin)
		defer cancel()
		select {
		case h.queries <- struct{}{}:
			defer func() { <-h.queries }()
		case <-ctx.Done():
			respond(w, http.StatusServiceUnavailable, problem{Error: "too many questions at a time; try again"})
			return
		}
		if ready, read := h.history.readiness(); !ready {
			w.Header().Set("Retry-After", "1")
			respond(w, http.StatusServiceUnavailable, problem{Error: "the log is being read", Read: read})
			return
		}
		v, err := answer(ctx, r.URL.Query())
		switch {
		case err == nil:
			respond(w, http.StatusOK, v)
		case errors.Is(err, ErrUnknownName):
			respond(w, http.StatusNotFound, problem{Error: err.Error()})
		case errors.Is(err, errBadQuestion):
			respond(w, http.StatusBadRequest, problem{Error: err.Error()})
		default:
			h.opts.Logger.Warn("a question of the page has no answer", "error", err)
			respond(w, http.StatusBadGateway, problem{Error: "the log can't be read now: " + err.Error()})
		}
	}
}

func respond(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v) // escapes <, > and & as well
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer can't be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // who asked may be gone
}

// Ready tells whether the log is read up to what was there at the start.
func (h *History) Ready() bool {
	ready, _ := h.readiness()
	return ready
}

// Latest gives the latest events that count, above a sequence, the oldest first,
// and whether these are all of them. At most 4096 are kept, and of what was there
// at the start 100.
func (h *History) Latest(after uint64) (all []Said, complete bool) {
	all, complete, _ = h.feed.after(after)
	return all, complete
}

// Detail gives all about one name at a moment, or [Now], as the page shows it. It
// fails with [ErrUnknownName], or because the log can't be read.
func (h *Handler) Detail(ctx context.Context, scope, name string, at int64) (*Detail, error) {
	return h.details.Detail(ctx, scope, name, at)
}

// readiness tells whether the log is read up to what was there at the start,
// and how many messages were.
func (h *History) readiness() (ready bool, read uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.ready, h.read
}

// number reads a parameter; empty: otherwise.
func number(q url.Values, key string, otherwise int64) (int64, error) {
	text := q.Get(key)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.Join(errBadQuestion, errors.New(key+" is no number"))
	}
	return n, nil
}

func (h *Handler) overview(_ context.Context, q url.Values) (any, error) {
	at, err := number(q, "at", Now)
	if err != nil {
		return nil, err
	}
	if at == Now {
		return h.glance.of(h.history), nil
	}
	return h.history.Overview(at), nil
}

func (h *Handler) timeline(_ context.Context, q url.Values) (any, error) {
	w := Window{Scope: q.Get("scope"), Query: q.Get("q"), Order: q.Get("order")}
	var errs [6]error
	var width, row, rows int64
	w.From, errs[0] = number(q, "from", 0)
	w.To, errs[1] = number(q, "to", time.Now().UnixMilli())
	w.At, errs[2] = number(q, "at", Now)
	width, errs[3] = number(q, "width", 1200)
	row, errs[4] = number(q, "row", 0)
	rows, errs[5] = number(q, "rows", 50)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	w.Width, w.Row, w.Rows = int(min(width, maxWidth)), int(min(row, 1<<30)), int(min(rows, maxRows))
	if len(w.Query) > 500 {
		w.Query = w.Query[:500]
	}
	return h.history.Timeline(w), nil
}

func (h *Handler) name(ctx context.Context, q url.Values) (any, error) {
	at, err := number(q, "at", Now)
	if err != nil {
		return nil, err
	}
	return h.details.Detail(ctx, q.Get("scope"), q.Get("name"), at)
}
