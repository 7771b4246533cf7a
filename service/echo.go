package service

import (
	"encoding/json"
	"time"
)

// echoScopes bounds of how many scopes an echo, which is sent each heartbeat,
// tells more than what a lost or older log is found by.
const echoScopes = 20

// echo is what the heartbeat carries of what this instance is doing (E13), from
// memory alone: for people, and for who looks into a lost or older log.
type echo struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	// StreamCreated tells the log from one that was made anew.
	StreamCreated time.Time `json:"stream_created"`
	// Leads counts the scopes led, Handovers their hand-overs that are neither
	// committed nor rolled back.
	Leads     int `json:"leads"`
	Handovers int `json:"handovers"`
	// Scopes are those led, and those that were led last.
	Scopes map[string]scopeEcho `json:"scopes"`
	// For are the scopes that this instance leads or stands by for.
	For []string `json:"for"`
}

// scopeEcho is what a holder's heartbeat says of a scope that it leads, or led
// last.
type scopeEcho struct {
	// Mode is leading, or leaving; empty: it is led no more.
	Mode      string    `json:"mode,omitempty"`
	Epoch     uint64    `json:"epoch"`
	LastSeq   uint64    `json:"last_seq"`
	LastTime  time.Time `json:"last_time,omitzero"`
	Names     int       `json:"names,omitempty"`
	Handovers int       `json:"handovers,omitempty"`
}

func (s *Service) echo() []byte {
	out := echo{
		Version: s.opts.Version, Protocol: 1, StreamCreated: s.journal.Created().UTC(), Scopes: map[string]scopeEcho{}, For: s.cfg.ScopeNames(),
	}
	for name, sc := range s.scopes {
		one, leads := sc.echo()
		if leads {
			out.Leads++
			out.Handovers += one.Handovers
		}
		if out.Leads > echoScopes || !leads {
			one = scopeEcho{Epoch: one.Epoch, LastSeq: one.LastSeq}
		}
		if one.LastSeq > 0 {
			out.Scopes[name] = one
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // an echo that can't be made clears the old one
	}
	return b
}

// echo gives what is said of a scope: as it is, or as we led it last, since the
// log is held to that.
func (sc *scope) echo() (said scopeEcho, leads bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	t := sc.term
	if t == nil {
		return sc.said, false
	}
	sc.said = scopeEcho{
		Mode: "leading", Epoch: t.epoch, LastSeq: t.lastSeq.Load(), Names: int(t.names.Load()), Handovers: int(t.handovers.Load()),
	}
	if at := t.lastTime.Load(); at != nil {
		sc.said.LastTime = *at
	}
	if t.leavingScope.Load() {
		sc.said.Mode = "leaving"
	}
	return sc.said, true
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
