package web

import (
	"context"
	"math"
	"time"
)

// Now is the moment of a view that is not of the past: all that is there.
const Now = math.MaxInt64

// Overview is what the first glance gets.
type Overview struct {
	At    int64  `json:"at"` // the moment, or the present
	Live  bool   `json:"live"`
	Ready bool   `json:"ready"`
	Seq   uint64 `json:"seq"`
	// First and Last are when the log's first and last event happened.
	First    int64     `json:"first"`
	Last     int64     `json:"last"`
	Events   uint64    `json:"events"`
	Scopes   []Scope   `json:"scopes"`
	Concerns []Concern `json:"concerns"`
	// More counts the concerns that were too many to list.
	More int `json:"more,omitempty"`
	// Link says what is wrong with this instance's own view; empty: nothing.
	Link string `json:"link,omitempty"`
}

// Scope is one scope at a moment.
type Scope struct {
	Scope    string         `json:"scope"`
	Epoch    uint64         `json:"epoch"`
	Holder   string         `json:"holder"`
	How      string         `json:"how"`
	Since    int64          `json:"since"`
	Led      bool           `json:"led"`
	Revision uint64         `json:"revision"`
	Names    int            `json:"names"`
	Leases   map[string]int `json:"leases"`
	// Of the present only:
	Holding *Instance  `json:"holding,omitempty"`
	Standby []Instance `json:"standby,omitempty"`
}

// Instance is a running leasesvc.
type Instance struct {
	Holder  string `json:"holder"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	State   string `json:"state"`
	// Age is how long ago its last heartbeat was, in milliseconds, by the clock of
	// who answers.
	Age int64 `json:"age_ms"`
}

// Present is what is not in the log: who is alive.
type Present struct {
	// Holding and Standby are by scope.
	Holding map[string]Instance
	Standby map[string][]Instance
	// Link says what is wrong with the connection to NATS; empty: nothing.
	Link string
}

// Live gives the present; it is asked at most about once a second.
type Live func(ctx context.Context) Present

// Overview gives the overview at a moment, or [Now].
func (h *History) Overview(at int64) Overview {
	h.mu.RLock()
	defer h.mu.RUnlock()
	o := Overview{At: at, Live: at == Now, Ready: h.ready, Seq: h.seq, Scopes: []Scope{}, Concerns: []Concern{}}
	clock := at
	if o.Live {
		clock = time.Now().UnixMilli()
		o.At = clock
	}
	for _, s := range h.scopes {
		o.Scopes = append(o.Scopes, s.overview(at))
		o.Concerns = append(o.Concerns, s.concerns(at, clock)...)
		o.Events += s.events
		if len(s.epochs) > 0 && (o.First == 0 || s.epochs[0].from < o.First) {
			o.First = s.epochs[0].from
		}
		o.Last = max(o.Last, s.at)
	}
	if n := len(o.Concerns); n > maxConcerns {
		o.Concerns, o.More = o.Concerns[:maxConcerns], n-maxConcerns
	}
	return o
}

func (h *history) overview(at int64) Scope {
	s := Scope{Scope: h.scope, Leases: map[string]int{}}
	if i := h.epochAt(at); i >= 0 {
		e := &h.epochs[i]
		s.Epoch, s.Holder, s.How, s.Since = e.epoch, e.holder, e.how, e.from
		s.Led = e.released == 0 || e.released > at
	}
	for _, r := range h.revisions {
		if r.at <= at {
			s.Revision = r.revision
		}
	}
	if at == Now {
		s.Names = h.names
		for p := phaseRequested; !p.closed(); p++ {
			if n := h.phases[p]; n > 0 {
				s.Leases[p.String()] = n
			}
		}
		return s
	}
	for _, l := range h.lanes {
		n := l.until(at)
		if n == 0 {
			continue
		}
		there := l.defined(n)
		for i := range l.bars {
			if p := l.bars[i].phaseAt(at); p != phaseNone && !p.closed() {
				s.Leases[p.String()]++
				there = true
			}
		}
		if there {
			s.Names++
		}
	}
	return s
}
