package service

import (
	"encoding/json"
	"time"
)

// echoScopes bounds how many scopes an echo tells of one by one; all are
// counted. It is sent each heartbeat.
const echoScopes = 100

// echo is what the heartbeat carries of what this instance is doing (E13), from
// memory alone: for people, and for who looks into a lost or older log.
type echo struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	// StreamCreated tells the log from one that was made anew.
	StreamCreated time.Time `json:"stream_created"`
	// Leads counts the scopes led, Handovers their hand-overs that are neither
	// committed nor rolled back.
	Leads     int                  `json:"leads"`
	Handovers int                  `json:"handovers"`
	Scopes    map[string]scopeEcho `json:"scopes"`
}

type scopeEcho struct {
	// Mode is leading, or leaving.
	Mode      string    `json:"mode"`
	Epoch     uint64    `json:"epoch"`
	LastSeq   uint64    `json:"last_seq"`
	LastTime  time.Time `json:"last_time"`
	Names     int       `json:"names"`
	Handovers int       `json:"handovers,omitempty"`
}

func (s *Service) echo() []byte {
	out := echo{Version: s.opts.Version, Protocol: 1, StreamCreated: s.journal.Created().UTC(), Scopes: map[string]scopeEcho{}}
	for name, sc := range s.scopes {
		sc.mu.Lock()
		t := sc.term
		sc.mu.Unlock()
		if t == nil {
			continue
		}
		one := scopeEcho{
			Mode: "leading", Epoch: t.epoch, LastSeq: t.lastSeq.Load(), Names: int(t.names.Load()), Handovers: int(t.handovers.Load()),
		}
		if at := t.lastTime.Load(); at != nil {
			one.LastTime = *at
		}
		if t.leavingScope.Load() {
			one.Mode = "leaving"
		}
		out.Leads++
		out.Handovers += one.Handovers
		if len(out.Scopes) < echoScopes {
			out.Scopes[name] = one
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // an echo that can't be made clears the old one
	}
	return b
}

// noteHandover counts the names that have a hand-over in flight; of the scope's
// goroutine.
func (t *term) noteHandover(name string, inFlight bool) {
	if inFlight {
		t.handing[name] = true
	} else {
		delete(t.handing, name)
	}
	t.handovers.Store(int64(len(t.handing)))
}
