package service

import (
	"encoding/json"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// identify gives the fingerprint by which values are told to be the same, and,
// for a static role, in how long its own clock will have given it new ones
// (L39; 0: it has none). The clock's hand (ttl) is no part of the values: it
// moves with every reading.
func (s *Service) identify(data json.RawMessage) (fingerprint string, reread events.Seconds) {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil || all["last_vault_rotation"] == nil || all["ttl"] == nil {
		return s.fingerprint(data), events.Seconds{}
	}
	if err := json.Unmarshal(all["ttl"], &reread); err != nil || reread.Sign() < 0 {
		reread = events.Seconds{}
	}
	delete(all, "ttl")
	rest, err := json.Marshal(all)
	if err != nil {
		rest = data
	}
	return s.fingerprint(rest), reread
}

// guardTTL is how long a guard of a connection lives until it is extended.
func (s *Service) guardTTL(connection string) time.Duration {
	if v := s.vaults[connection]; v != nil {
		return v.cfg.GuardTTL.Duration()
	}
	return 0
}
