package devvault

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is a way to misbehave. What is set is done in the order of the
// fields; a fault that answers nothing itself lets the real answer through.
type Fault struct {
	// Method and Path choose the requests: an empty method is any, and in the
	// path (with or without /v1/ in front) "*" stands for anything, slashes
	// too. An empty path is any.
	Method, Path string
	// Times is how many requests it hits; 0 is all until removed.
	Times int

	// Delay is waited for first, or until the client goes away: then there is
	// no effect.
	Delay time.Duration
	// DropBefore closes the connection before the request has any effect.
	DropBefore bool
	// Do is handed the request in place of the rest. next is the server
	// without this fault.
	Do func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// Effect lets the request have its effect before Status and Body answer
	// in place of the real answer.
	Effect bool
	// DropAfter lets the request have its effect and closes the connection
	// without an answer.
	DropAfter bool
	// Status answers with that code and Body, which may be empty.
	Status int
	Body   string
	// Header is added to whatever is answered.
	Header http.Header
	// Garbage lets the request have its effect and cuts the answer's body to
	// something that is no JSON.
	Garbage bool
	// Set puts values in place of what the real answer has at a path of keys:
	// {"data.password": 5}, {"auth": "text"}, {"data": []int{}}. Objects on the
	// way are made where there are none; a json.RawMessage goes out as it is.
	Set map[string]any
	// SlowBody lets the request have its effect, answers the head and half of
	// the body, and the rest after so long; or never, if the client goes away.
	SlowBody time.Duration
	// CutBody lets the request have its effect, answers the head, with the
	// whole body's length, and half of the body, and closes the connection.
	CutBody bool
	// TTL is put in place of lease_duration in the real answer, the auth
	// block's if there is one. A json.RawMessage or json.Number goes out as
	// it is written: json.Number("1e3").
	TTL any
}

// Injected is a fault in force.
type Injected struct {
	fault Fault
	at    *faults

	// What follows is guarded by at.mu.
	hits    int
	removed bool
}

// Hits counts the requests it hit.
func (i *Injected) Hits() int {
	i.at.mu.Lock()
	defer i.at.mu.Unlock()
	return i.hits
}

// Remove ends it. Requests it has hit already go on.
func (i *Injected) Remove() {
	i.at.mu.Lock()
	defer i.at.mu.Unlock()
	i.removed = true
	i.at.tidy()
}

// faults are those in force, oldest first.
type faults struct {
	mu   sync.Mutex
	list []*Injected
}

func (fs *faults) tidy() {
	kept := fs.list[:0:0]
	for _, i := range fs.list {
		if !i.removed {
			kept = append(kept, i)
		}
	}
	fs.list = kept
}

// take finds the oldest fault for a request and counts the hit.
func (fs *faults) take(method, path string) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, i := range fs.list {
		f := &i.fault
		if f.Method != "" && f.Method != method || f.Path != "" && !globMatch(f.Path, path) {
			continue
		}
		i.hits++
		if f.Times > 0 && i.hits >= f.Times {
			i.removed = true
			fs.tidy()
		}
		return f
	}
	return nil
}

// Inject puts a fault in force. Several that match one request: the oldest
// alone. [Server.Do] is never hit.
func (s *Server) Inject(f Fault) *Injected {
	f.Path = strings.TrimPrefix(strings.TrimPrefix(f.Path, "/"), "v1/")
	i := &Injected{fault: f, at: &s.faults}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = append(s.faults.list, i)
	return i
}

// misbehave does what f says.
func (s *Server) misbehave(f *Fault, w http.ResponseWriter, r *http.Request) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-s.life.Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.DropBefore {
		panic(http.ErrAbortHandler)
	}
	for k, vs := range f.Header {
		w.Header()[http.CanonicalHeaderKey(k)] = vs
	}
	if f.Do != nil {
		f.Do(w, r, http.HandlerFunc(s.serve))
		return
	}
	honest := &held{header: http.Header{}, status: http.StatusOK}
	if f.Status == 0 || f.Effect || f.DropAfter || f.Garbage {
		s.serve(honest, r)
	}
	switch {
	case f.DropAfter:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
	case f.Garbage:
		if honest.status == http.StatusNoContent {
			honest.status = http.StatusOK
		}
		w.WriteHeader(honest.status)
		_, _ = w.Write(append([]byte("<html>"), honest.body.Bytes()[:honest.body.Len()/2]...))
	default:
		body := withSet(withTTL(honest.body.Bytes(), f.TTL), f.Set)
		if f.CutBody || f.SlowBody > 0 {
			s.answerSlowly(w, r, f, honest.status, body)
			return
		}
		w.WriteHeader(honest.status)
		_, _ = w.Write(body)
	}
}

// answerSlowly answers half of the body, and the rest later or never.
func (s *Server) answerSlowly(w http.ResponseWriter, r *http.Request, f *Fault, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	half := len(body) / 2
	_, _ = w.Write(body[:half])
	_ = http.NewResponseController(w).Flush()
	if f.CutBody {
		panic(http.ErrAbortHandler)
	}
	timer := time.NewTimer(f.SlowBody)
	defer timer.Stop()
	select {
	case <-timer.C:
		_, _ = w.Write(body[half:])
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.life.Done():
		panic(http.ErrAbortHandler)
	}
}

// withSet puts values in place of others. A body that is no object stays as
// it is.
func withSet(body []byte, values map[string]any) []byte {
	var top map[string]json.RawMessage
	if len(values) == 0 || json.Unmarshal(body, &top) != nil {
		return body
	}
	for path, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			continue
		}
		body = withValue(body, strings.Split(path, "."), raw)
	}
	return append(body, '\n')
}

func withValue(body []byte, keys []string, raw json.RawMessage) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || object == nil {
		object = map[string]json.RawMessage{}
	}
	if len(keys) == 1 {
		object[keys[0]] = raw
	} else {
		object[keys[0]] = withValue(object[keys[0]], keys[1:], raw)
	}
	return bytes.TrimSpace(encode(object))
}

// withTTL puts ttl in place of lease_duration. A body that is no object stays
// as it is.
func withTTL(body []byte, ttl any) []byte {
	var top map[string]json.RawMessage
	if ttl == nil || json.Unmarshal(body, &top) != nil {
		return body
	}
	raw, err := json.Marshal(ttl)
	if err != nil {
		return body
	}
	var auth map[string]json.RawMessage
	if json.Unmarshal(top["auth"], &auth) == nil && auth != nil {
		auth["lease_duration"] = raw
		top["auth"] = encode(auth)
	} else {
		top["lease_duration"] = raw
	}
	return encode(top)
}
