package vault

import (
	"maps"
	"sync"
)

// Call names what was asked and how it ended, for [Stats.Calls]. Both are words
// of this package's own, so there are few of them and they never hold a path.
type Call struct {
	// Op is that of [Error]: "read", "renew lease", "create guard".
	Op string
	// Kind is KindNone for a call that succeeded.
	Kind Kind
}

// Stats counts since New, for the metrics.
type Stats struct {
	// Requests went out to the server: repetitions, redirects that were followed
	// and questions for the node's health included.
	Requests uint64
	// Calls ended, each counted once whatever it took. Those that were held back
	// are not among them.
	Calls map[Call]uint64
	// Held were not sent at all: the server is out, asked for a pause, or their
	// time ended before their turn came.
	Held uint64
	// Outages is how often the server went out, Probes how many calls found out
	// whether it was back.
	Outages, Probes uint64
	// Suspect are durations that were clamped or made no sense (C15), Warnings
	// the server's warnings that were passed on.
	Suspect, Warnings uint64
}

// Stats gives the counters.
func (c *Client) Stats() Stats {
	c.stats.mu.Lock()
	defer c.stats.mu.Unlock()
	out := c.stats.is
	out.Calls = maps.Clone(out.Calls)
	return out
}

type stats struct {
	mu sync.Mutex
	is Stats
}

func (s *stats) count(add func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is.Calls == nil {
		s.is.Calls = map[Call]uint64{}
	}
	add(&s.is)
}

// ended counts a call by how it ended.
func (s *stats) ended(rq request, err error) {
	kind := KindOf(err)
	s.count(func(is *Stats) { is.Calls[Call{rq.op, kind}]++ })
}

// unusable makes the error of a 2xx answer that the call itself could not
// understand, and counts the call as malformed: [Client.call] took it for a
// success.
func (c *Client) unusable(rq request, a answer, err error) *Error {
	c.stats.count(func(is *Stats) {
		is.Calls[Call{rq.op, KindNone}]--
		is.Calls[Call{rq.op, KindMalformed}]++
	})
	return c.malformed(rq, a, err)
}

// odd counts what was odd about an answer.
func (c *Client) odd(suspect string, warnings []string) {
	if suspect == "" && len(warnings) == 0 {
		return
	}
	c.stats.count(func(is *Stats) {
		if suspect != "" {
			is.Suspect++
		}
		is.Warnings += uint64(len(warnings))
	})
}
