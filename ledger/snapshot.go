package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// snapshot is a ledger written down.
type snapshot struct {
	Version int                       `json:"version"`
	Since   time.Time                 `json:"since"`
	Clock   time.Time                 `json:"clock"`
	Seq     uint64                    `json:"seq"`
	Names   map[string]*account       `json:"names"`
	Totals  map[By]map[string]*Totals `json:"totals"`
}

const snapshotVersion = 1

// Snapshot writes the ledger down; equal ledgers give equal bytes.
func (l *Ledger) Snapshot() ([]byte, error) {
	b, err := json.Marshal(snapshot{snapshotVersion, l.since, l.clock, l.seq, l.names, l.totals})
	if err != nil {
		return nil, fmt.Errorf("writing the ledger down: %w", err)
	}
	return b, nil
}

// Restore takes a ledger up where [Ledger.Snapshot] left it.
func Restore(b []byte) (*Ledger, error) {
	l := New(time.Time{})
	var s snapshot
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading a ledger: %w", err)
	}
	if s.Version != snapshotVersion {
		return nil, fmt.Errorf("reading a ledger: it has version %d, this release knows %d; make it anew from the log", s.Version, snapshotVersion)
	}
	l.since, l.clock, l.seq = s.Since, s.Clock, s.Seq
	if s.Names != nil {
		l.names = s.Names
	}
	for by, totals := range s.Totals {
		l.totals[by] = totals
	}
	return l, nil
}
