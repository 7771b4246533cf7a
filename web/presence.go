package web

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// presence keeps what [Live] said last, and asks it again only while somebody
// looks.
type presence struct {
	mu     sync.Mutex
	last   Present
	taken  time.Time // zero: never
	looked time.Time
}

const (
	presencePace   = time.Second
	presenceIdle   = 10 * time.Second
	presenceWithin = 3 * time.Second
	// presenceStale is how old an answer may be before it says nothing of now.
	presenceStale = 2*presencePace + presenceWithin
	// silentAfter is how old a heartbeat may be before it is a concern.
	silentAfter = 5 * time.Second
)

// run asks until ctx ends, whose error it gives.
func (p *presence) run(ctx context.Context, live Live) error {
	for {
		p.mu.Lock()
		wanted := time.Since(p.looked) < presenceIdle
		p.mu.Unlock()
		if wanted {
			asking, cancel := context.WithTimeout(ctx, presenceWithin)
			now := live(asking)
			cancel()
			p.mu.Lock()
			p.last, p.taken = now, time.Now()
			p.mu.Unlock()
		}
		if !wait(ctx, presencePace, nil) {
			return ctx.Err()
		}
	}
}

// into adds the present to an overview, and what is wrong with it.
func (p *presence) into(o *Overview) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = time.Now()
	since := time.Since(p.taken)
	if since > presenceStale {
		return // nobody looked for a while: it is asked again, and known in a second
	}
	o.Link = p.last.Link
	if o.Link != "" {
		o.Concerns = append([]Concern{{Level: levelHigh, What: o.Link, Do: "see whether NATS runs: leasesvc doctor"}}, o.Concerns...)
	}
	for i := range o.Scopes {
		s := &o.Scopes[i]
		if in, ok := p.last.Holding[s.Scope]; ok {
			in.Age += since.Milliseconds()
			s.Holding = &in
			if in.Age > silentAfter.Milliseconds() && s.Led && o.Link == "" {
				o.Concerns = append(o.Concerns, Concern{
					Level: levelHigh, Scope: s.Scope, Since: time.Now().UnixMilli() - in.Age,
					What: "the holder's heartbeat is silent", Do: "a standby takes over by itself; without one, see whether " + orHost(in) + " runs",
				})
			}
		}
		s.Standby = slices.Clone(p.last.Standby[s.Scope])
		for k := range s.Standby {
			s.Standby[k].Age += since.Milliseconds()
		}
		slices.SortFunc(s.Standby, func(a, b Instance) int { return strings.Compare(a.Holder, b.Holder) })
	}
}

func orHost(in Instance) string {
	if in.Host != "" {
		return in.Host
	}
	return in.Holder
}
