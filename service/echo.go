package service

import (
	"encoding/json"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// echo is what the heartbeat carries of what this instance is doing (E13), from
// memory alone: for people, and for who looks into a lost or older log. What
// there is of each scope is short: a thousand of them go into each heartbeat.
func (s *Service) echo() []byte {
	out := struct {
		Version  string               `json:"version"`
		Protocol int                  `json:"protocol"`
		Scopes   map[string]scopeEcho `json:"scopes"`
		// Reads are the versions of events that this release reads above the lowest
		// ones; a release without reads the lowest of all.
		Reads events.Formats `json:"reads,omitempty"`
		// For are the scopes that this instance leads or stands by for.
		For []string `json:"for"`
		// Leads counts the scopes led, Leaving those that are being given back,
		// Handovers what is neither committed nor rolled back, in all of them.
		Leads     int `json:"leads"`
		Leaving   int `json:"leaving,omitzero"`
		Handovers int `json:"handovers,omitzero"`
		// LastTime is that of the last event of ours.
		LastTime      time.Time `json:"last_time,omitzero"`
		StreamCreated time.Time `json:"stream_created"`
		// SealKeys are the ids of our seal keys, the first is the one that seals.
		SealKeys []string `json:"seal_keys"`
	}{Version: s.opts.Version, Protocol: 1, Reads: events.Release(), Scopes: map[string]scopeEcho{}, For: s.cfg.ScopeNames(), StreamCreated: s.journal.Created().UTC(), SealKeys: s.keys.IDs()}
	for name, sc := range s.scopes {
		sc.mu.Lock()
		if t := sc.term; t != nil {
			sc.said = scopeEcho{Epoch: t.epoch, LastSeq: t.lastSeq.Load(), Names: int(t.names.Load())}
			out.Leads++
			out.Handovers += int(t.handovers.Load())
			if t.leavingScope.Load() {
				out.Leaving++
			}
			if at := t.lastTime.Load(); at != nil && at.After(out.LastTime) {
				out.LastTime = *at
			}
		}
		if sc.said.LastSeq > 0 { // or what we led last: the log is held to it
			out.Scopes[name] = sc.said
		}
		sc.mu.Unlock()
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
