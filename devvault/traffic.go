package devvault

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is one line of the request log. It holds no secret.
type Request struct {
	At     time.Time // by the server's clock
	Method string
	// Path is below /v1/. It can hold a lease id, where the caller put one.
	Path      string
	Namespace string // the X-Vault-Namespace header
	// Accessor is of the token used; empty for none, a batch token, or one
	// that is not valid.
	Accessor string
	Status   int  // 0 while it runs, and when the connection was dropped instead
	Fault    bool // a [Fault] had a hand in it
}

// traffic is the request log and the gate for handlers.
type traffic struct {
	mu     sync.Mutex
	limit  int
	log    []*Request
	active sync.WaitGroup
	shut   bool
}

func (t *traffic) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return false
	}
	t.active.Add(1)
	return true
}

func (t *traffic) leave(r *Request) {
	defer t.active.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.log) >= 2*t.limit {
		t.log = append(t.log[:0:0], t.log[len(t.log)-t.limit:]...)
	}
	t.log = append(t.log, r)
}

func (t *traffic) wait() {
	t.mu.Lock()
	t.shut = true
	t.mu.Unlock()
	t.active.Wait()
}

func (s *Server) entryFor(r *http.Request) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := &Request{
		At: s.now(), Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, "/v1/"),
		Namespace: r.Header.Get("X-Vault-Namespace"),
	}
	if t := s.tokens[tokenOf(r)]; t != nil {
		entry.Accessor = t.accessor
	}
	return entry
}

// Requests returns the finished requests, oldest first: the last
// Config.RequestLog at least, twice as many at most. What [Server.Do] does is
// not among them.
func (s *Server) Requests() []Request {
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	out := make([]Request, len(s.traffic.log))
	for i, r := range s.traffic.log {
		out[i] = *r
	}
	return out
}

// Count counts the logged requests of a method ("" is any) whose path matches
// a pattern, in which "*" stands for anything.
func (s *Server) Count(method, pattern string) int {
	n := 0
	for _, r := range s.Requests() {
		if (method == "" || r.Method == method) && globMatch(pattern, r.Path) {
			n++
		}
	}
	return n
}

// globMatch compares a text with a pattern, in which "*" stands for any text,
// slashes too.
func globMatch(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[last])
}
