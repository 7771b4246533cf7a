package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasesvc/leasesvc/itest/clustertest"
)

// op is one request to a cell, as it was seen on the wire.
type op struct {
	client    int
	key       string
	call, ret int64
	get       bool
	expected  uint64 // of a write
	attempt   string // written, or read
	rev       uint64 // written, or read; 0: no such cell
	refused   bool
	unknown   bool // never answered
}

// witness writes down each read and write of a bucket's cells that passes the
// proxies, and its answer, and loses some of both. An answer that it loses is
// known to it: the history is that of the servers, whatever the clients made of
// it. What was never answered is left open.
type witness struct {
	began time.Time

	mu      sync.Mutex
	bucket  string
	rnd     *rand.Rand
	losing  bool
	asked   map[asked]op
	ops     []op
	lost    int // answers
	unsent  int // requests
	unknown int
}

// asked names a request that waits: the connection and where its answer goes.
type asked struct {
	proxy, conn int
	reply       string
}

// begin starts the history of another bucket.
func (w *witness) begin(bucket string, rnd *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.bucket, w.rnd, w.losing = time.Now(), bucket, rnd, true
	w.asked, w.ops, w.lost, w.unsent, w.unknown = map[asked]op{}, nil, 0, 0, 0
}

// lose turns the losing of answers and requests on or off.
func (w *witness) lose(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losing = on
}

// count is how many requests the history has.
func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ops)
}

// decide is the proxies'.
func (w *witness) decide(proxy int, f clustertest.Frame) clustertest.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := int64(time.Since(w.began))
	if f.ToClient {
		id := asked{proxy, f.Conn, f.Subject}
		o, ok := w.asked[id]
		if !ok {
			return clustertest.Pass
		}
		delete(w.asked, id)
		o.ret = now
		w.answered(o, f)
		if w.losing && w.rnd.Float64() < 0.03 {
			w.lost++
			return clustertest.Drop
		}
		return clustertest.Pass
	}
	o := op{client: f.Conn*clustertest.Servers + proxy, call: now}
	prefix := "$KV." + w.bucket + "."
	switch {
	case strings.HasPrefix(f.Subject, prefix) && f.Reply != "":
		o.key, o.attempt = f.Subject[len(prefix):], attemptOf(f.Data)
		o.expected = header(f.Header, "Nats-Expected-Last-Subject-Sequence")
	case f.Subject == "$JS.API.STREAM.MSG.GET.KV_"+w.bucket:
		var ask struct {
			Last string `json:"last_by_subj"`
		}
		if json.Unmarshal(f.Data, &ask) != nil || !strings.HasPrefix(ask.Last, prefix) {
			return clustertest.Pass
		}
		o.key, o.get = ask.Last[len(prefix):], true
	default:
		return clustertest.Pass
	}
	if w.losing && w.rnd.Float64() < 0.02 {
		w.unsent++
		return clustertest.Drop
	}
	w.asked[asked{proxy, f.Conn, f.Reply}] = o
	return clustertest.Pass
}

// answered completes a request; the lock is held.
func (w *witness) answered(o op, f clustertest.Frame) {
	var a struct {
		Seq   uint64 `json:"seq"`
		Error struct {
			Code int `json:"err_code"`
		} `json:"error"`
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := json.Unmarshal(f.Data, &a)
	switch {
	case bytes.HasPrefix(f.Header, []byte("NATS/1.0 503")):
		return // nobody took it
	case o.get && err == nil && a.Error.Code == 10037: // no message found
	case o.get && err == nil && a.Error.Code == 0:
		o.rev, o.attempt = a.Message.Seq, attemptOf(a.Message.Data)
	case o.get:
		return
	case err == nil && a.Error.Code == 10071:
		o.refused = true
	case err == nil && a.Error.Code == 10164:
		return // another one is in flight: not stored
	case err == nil && a.Error.Code == 0 && a.Seq > 0:
		o.rev = a.Seq
	default:
		o.unknown = true
		w.unknown++
	}
	w.ops = append(w.ops, o)
}

// gone ends a connection: what was asked on it is not answered any more.
func (w *witness) gone(proxy, conn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, o := range w.asked {
		if id.proxy == proxy && id.conn == conn {
			w.leaveOpen(id, o)
		}
	}
}

func (w *witness) leaveOpen(id asked, o op) {
	delete(w.asked, id)
	if !o.get {
		o.unknown = true
		w.unknown++
		w.ops = append(w.ops, o)
	}
}

func attemptOf(data []byte) string {
	var v struct {
		Attempt string `json:"attempt"`
	}
	_ = json.Unmarshal(data, &v) // not a cell: no attempt
	return v.Attempt
}

func header(h []byte, name string) uint64 {
	for line := range strings.SplitSeq(string(h), "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && k == name {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// cellState is the state of one cell in the model.
type cellState struct {
	rev     uint64
	attempt string
}

// cellModel is a compare-and-set register whose revisions grow.
var cellModel = porcupine.Model{
	Init: func() any { return cellState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, o := state.(cellState), input.(op)
		switch {
		case o.get:
			return o.rev == s.rev && o.attempt == s.attempt, s
		case o.refused:
			return o.expected != s.rev, s
		}
		return o.expected == s.rev && o.rev > s.rev, cellState{o.rev, o.attempt}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// check splits the history by cell and has porcupine order each.
//
// A write without an answer may be ordered anywhere from its sending to the
// first read that saw it. One that no read saw, those at the end of the run
// included, was not applied: to write over it somebody would have had to expect
// its revision, which without an answer is learned from reads only.
func (w *witness) check() (ops int, violations []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, o := range w.asked {
		w.leaveOpen(id, o)
	}
	seen := map[string]op{} // attempt: the read that saw it and returned first
	for _, o := range w.ops {
		if first, ok := seen[o.attempt]; o.get && o.rev != 0 && (!ok || o.ret < first.ret) {
			seen[o.attempt] = o
		}
	}
	byKey := map[string][]porcupine.Operation{}
	for _, o := range w.ops {
		if o.unknown {
			by, ok := seen[o.attempt]
			if !ok {
				continue
			}
			o.rev, o.ret = by.rev, by.ret
		}
		byKey[o.key] = append(byKey[o.key], porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.ret})
	}
	for key, of := range byKey {
		ops += len(of)
		if res := porcupine.CheckOperationsTimeout(cellModel, of, time.Minute); res != porcupine.Ok {
			violations = append(violations, fmt.Sprintf("history of cell %s (%d requests): %s", key, len(of), res))
			for _, o := range of[:min(len(of), 200)] {
				violations = append(violations, fmt.Sprintf("%+v", o.Input))
			}
		}
	}
	return ops, violations
}

// TestWitnessTellsViolations: a checker that finds nothing proves nothing.
func TestWitnessTellsViolations(t *testing.T) {
	put := func(call int64, expected, rev uint64, attempt string) op {
		return op{key: "k", call: call, ret: call + 1, expected: expected, rev: rev, attempt: attempt}
	}
	read := func(call int64, rev uint64, attempt string) op {
		return op{key: "k", call: call, ret: call + 1, rev: rev, attempt: attempt, get: true}
	}
	open := op{key: "k", call: 3, expected: 1, attempt: "open", unknown: true}
	for name, tc := range map[string]struct {
		ops []op
		ok  bool
	}{
		"good":                   {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), read(4, 2, "b")}, true},
		"two over one revision":  {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), put(4, 1, 3, "c")}, false},
		"stale read":             {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), read(4, 1, "a")}, false},
		"refused without reason": {[]op{put(0, 0, 1, "a"), {key: "k", call: 2, ret: 3, expected: 1, refused: true}}, false},
		"open and applied":       {[]op{put(0, 0, 1, "a"), open, read(9, 2, "open")}, true},
		"open and not applied":   {[]op{put(0, 0, 1, "a"), open, put(9, 1, 2, "b"), read(12, 2, "b")}, true},
		"open, applied, undone":  {[]op{put(0, 0, 1, "a"), open, read(9, 2, "open"), read(12, 1, "a")}, false},
	} {
		if _, bad := (&witness{ops: tc.ops}).check(); (len(bad) == 0) != tc.ok {
			t.Errorf("%s: the checker says %v", name, bad)
		}
	}
}
