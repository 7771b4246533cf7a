package epochkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is one request to a cell as its client saw it.
type op struct {
	client    int
	key       string
	call, ret int64
	get       bool
	expected  uint64 // of a put
	attempt   string // written, or read
	rev       uint64 // written, or read; 0: no such cell
	refused   bool
	unknown   bool
}

// history collects the requests of all clients.
type history struct {
	mu    sync.Mutex
	began time.Time
	ops   []op
}

func (h *history) add(o op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func attemptOf(data []byte) string {
	var v struct {
		Attempt string `json:"attempt"`
	}
	_ = json.Unmarshal(data, &v)
	return v.Attempt
}

// faultCounts says how often each fault was planted.
type faultCounts struct {
	lostAnswers, lostRequests, lateWrites, failedReads, crashes, strangers, pauses, releases atomic.Int64
}

// chaos is a store that loses answers and requests, delays writes past their
// answer, fails reads, and writes the history.
type chaos struct {
	real   store
	h      *history
	client int
	counts *faultCounts
	late   *sync.WaitGroup
	rate   float64

	mu  sync.Mutex
	rnd *rand.Rand
}

func (c *chaos) roll() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.Float64() / c.rate
}

func (c *chaos) lastRevision(ctx context.Context) (uint64, error) { return c.real.lastRevision(ctx) }
func (c *chaos) created(ctx context.Context) (time.Time, error)   { return c.real.created(ctx) }

func (c *chaos) get(ctx context.Context, key string) (entry, error) {
	if c.roll() < 0.02 {
		c.counts.failedReads.Add(1)
		return entry{}, errDown
	}
	o := op{client: c.client, key: key, get: true, call: c.h.now()}
	e, err := c.real.get(ctx, key)
	o.ret = c.h.now()
	if err == nil || errors.Is(err, errNotFound) {
		o.rev, o.attempt = e.revision, attemptOf(e.data)
		c.h.add(o)
	}
	return e, err
}

func (c *chaos) put(ctx context.Context, key string, expected uint64, data []byte) (uint64, error) {
	o := op{client: c.client, key: key, expected: expected, attempt: attemptOf(data), call: c.h.now()}
	switch r := c.roll(); {
	case r < 0.03:
		c.counts.lostRequests.Add(1)
		return 0, errCut // never sent
	case r < 0.06:
		c.counts.lateWrites.Add(1)
		delay := time.Duration(r * float64(2*time.Second)) // 60 to 120 ms: past other's steps
		c.late.Go(func() {
			_ = wait(context.Background(), delay)
			_, _ = c.real.put(context.Background(), key, expected, data)
		})
		o.unknown = true
		c.h.add(o)
		return 0, errCut
	case r < 0.10:
		c.counts.lostAnswers.Add(1)
		_, _ = c.real.put(ctx, key, expected, data)
		o.unknown = true
		c.h.add(o)
		return 0, errCut
	}
	rev, err := c.real.put(ctx, key, expected, data)
	o.ret, o.rev = c.h.now(), rev
	switch {
	case err == nil:
	case errors.Is(err, errRefused):
		o.refused = true
	case errors.Is(err, ErrInFlight), errors.Is(err, errNoBacking):
		return rev, err // not applied, says nothing
	default:
		o.unknown = true
	}
	c.h.add(o)
	return rev, err
}

// cellState is the state of one cell in the model.
type cellState struct {
	rev     uint64
	attempt string
}

// cellModel is a compare-and-set register whose revisions grow.
var cellModel = porcupine.Model{
	Init: func() any { return cellState{} },
	Step: func(state, input, output any) (bool, any) {
		s, o := state.(cellState), input.(op)
		switch {
		case o.get:
			return o.rev == s.rev && o.attempt == s.attempt, s
		case o.refused:
			return o.expected != s.rev, s
		}
		return o.expected == s.rev && o.rev > s.rev, cellState{o.rev, o.attempt}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v", input) },
}

// check splits the history by cell and has porcupine order each.
//
// An unknown write is left open: it may be ordered anywhere from its call to
// the first read that saw it. One that no read saw, the last of the run
// included, was not applied: to write over it somebody would have had to
// expect its revision, and learns revisions that were not acknowledged to him
// from reads only.
func (h *history) check() (ops int, violations []string) {
	seen := map[string]op{} // attempt: the read that saw it and returned first
	for _, o := range h.ops {
		if first, ok := seen[o.attempt]; o.get && o.rev != 0 && (!ok || o.ret < first.ret) {
			seen[o.attempt] = o
		}
	}
	byKey := map[string][]porcupine.Operation{}
	for _, o := range h.ops {
		if o.unknown {
			by, ok := seen[o.attempt]
			if !ok {
				continue
			}
			o.rev, o.ret = by.rev, by.ret
		}
		byKey[o.key] = append(byKey[o.key], porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.ret})
	}
	for key, kops := range byKey {
		ops += len(kops)
		if res := porcupine.CheckOperationsTimeout(cellModel, kops, 60*time.Second); res != porcupine.Ok {
			violations = append(violations, fmt.Sprintf("history of %s (%d requests): %s", key, len(kops), res))
			for _, o := range kops[:min(len(kops), 50)] {
				violations = append(violations, fmt.Sprintf("%+v", o.Input))
			}
		}
	}
	return ops, violations
}

// fencedLog is the opened events of one scope: a compare-and-set on its last.
type fencedLog struct {
	mu     sync.Mutex
	epochs []uint64
	by     []string
}

// last returns the last epoch and its place, F.
func (l *fencedLog) last() (epoch uint64, f int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.epochs) == 0 {
		return 0, 0
	}
	return l.epochs[len(l.epochs)-1], len(l.epochs)
}

func (l *fencedLog) open(epoch uint64, by string, f int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f != len(l.epochs) {
		return false
	}
	l.epochs, l.by = append(l.epochs, epoch), append(l.by, by)
	return true
}

// claims knows every claim that was reported, to find one reported twice.
type claims struct {
	mu   sync.Mutex
	seen map[string]string // scope/epoch: claimant
}

func (c *claims) add(t *testing.T, scope string, epoch uint64, who string) {
	key := fmt.Sprintf("%s/%d", scope, epoch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.seen[key]; ok {
		t.Errorf("%s was claimed by %s and by %s", key, other, who)
	}
	c.seen[key] = who
}

func (c *faultCounts) String() string {
	return strings.Join([]string{
		fmt.Sprint("lost answers ", c.lostAnswers.Load()), fmt.Sprint("lost requests ", c.lostRequests.Load()),
		fmt.Sprint("late writes ", c.lateWrites.Load()), fmt.Sprint("failed reads ", c.failedReads.Load()),
		fmt.Sprint("crashes ", c.crashes.Load()), fmt.Sprint("strangers ", c.strangers.Load()),
		fmt.Sprint("pauses ", c.pauses.Load()), fmt.Sprint("releases ", c.releases.Load()),
	}, ", ")
}
