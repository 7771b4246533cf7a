package metrics

import (
	"iter"
	"time"
)

// Source is asked at each scrape. It must not wait for anything.
type Source interface {
	Figures() Figures
}

// Figures is what is at one moment.
type Figures struct {
	// Now is the moment by the clock that leases are judged by.
	Now time.Time
	// Insecure: consumers without a key are allowed.
	Insecure bool
	// Stuck: a loop of the process does not turn.
	Stuck bool

	NATS NATS
	// Log is the stream as it was read last; nil: not lately.
	Log *Log
	// Holder is what the cells counted; nil: the instance has not begun.
	Holder *Holder
	Vaults []Vault
	Scopes []Scope
}

// NATS is the connection.
type NATS struct {
	Connected, Refused bool
	Reconnects         uint64
	// Followed is the last sequence that was followed, Unknown counts messages
	// under subjects of no scope.
	Followed, Unknown uint64
}

// Log is the stream.
type Log struct {
	Bytes, Limit   int64
	Messages, Last uint64
}

// Holder is what keeps the holder cell.
type Holder struct {
	Renewed                                              time.Time
	Renewals, Adopted, Claims, LostRaces, Fast, Deposals uint64
	Deposed                                              uint64
}

// Vault is a connection to Vault.
type Vault struct {
	Name                                        string
	Requests, Held, Outages, Probes             uint64
	Suspect, Warnings                           uint64
	Calls                                       []VaultCalls
	Out, Paused, QuotaPaused, LoggedIn, Guarded bool
	Faults, Waiting, InFlight                   int
	TokenExpires                                time.Time
}

// VaultCalls counts the calls of one kind.
type VaultCalls struct {
	Operation, Result string
	Count             uint64
}

// Scope is a scope that this instance leads or stands by for.
type Scope struct {
	Name           string
	Ready, Blocked bool
	Epoch          uint64
	Foreign        uint64
	// Given and Unable count the reads as a standby.
	Given, Unable uint64
	// SnapshotAt is when this process stored the last one; zero: never.
	SnapshotAt time.Time
	// Led is set where this instance leads.
	Led *Led
}

// Led is a scope under this instance.
type Led struct {
	Since                 time.Time
	Queue, Due, Handovers int
	Unsaved               uint64
	Stalled               bool
	// Work counts the effects in flight by kind, States the words of a lease's
	// states, in the order of [Standing.Leases].
	Work   map[string]int
	States []string
	// Names walks the names that are there, each with how it stands; nil where
	// that is not known yet. It is walked more than once.
	Names iter.Seq2[string, *Standing]
}

// MaxStates bounds the states of a lease.
const MaxStates = 10

// Standing is how a name stands. Times are nanoseconds since 1970; 0: none.
type Standing struct {
	// Committed: there is a committed credential; Expires is its end.
	Committed                   bool
	Expires, Granted, Due, Next int64
	// Failed is how often what is attempted now has failed in a row.
	Failed int32
	// Registered and Behind are instances of consumers, Absent are consumers that
	// are required and of which none is registered.
	Registered, Behind, Absent int32
	// Leases counts by state.
	Leases [MaxStates]uint16
}

// usable tells whether there is a credential to hand out at now.
func (s *Standing) usable(now int64) bool { return s.Committed && (s.Expires == 0 || now < s.Expires) }

// overdue tells whether the credential should long have been renewed.
func (s *Standing) overdue(now int64) bool {
	return s.Committed && s.Expires != 0 && s.Due != 0 && now > s.Due+(s.Expires-s.Due)/2
}
