package api

import "time"

// What keeps an instance from being ready.
const (
	NotReadyStarting     = "starting"
	NotReadyDisconnected = "nats-disconnected"
	NotReadyCredentials  = "nats-credentials-refused"
	NotReadyHeartbeat    = "heartbeat-lost"
	NotReadyLog          = "log-unreadable"
	NotReadyLeaving      = "leaving"
	NotReadyTaking       = "taking-over"
	NotReadyAppend       = "append-failing"
	NotReadyShutDown     = "shut-down"
	NotReadyLost         = "log-lost"
	NotReadyStopped      = "log-stopped"
	NotReadySealKey      = "seal-key"
	NotReadyBlocked      = "blocked"
	NotReadyBehind       = "behind"
)

// NotReady is one reason for not being ready.
type NotReady struct {
	// Problem is one of the NotReady constants, Says the same in words.
	Problem string `json:"problem"`
	Says    string `json:"says"`
	// Detail is the error behind it; only for who is signed in.
	Detail string `json:"detail,omitempty"`
}

// The roles of an instance in a scope.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
)

// Ready answers /readyz: 200 if it is, else 503.
type Ready struct {
	Ready    bool       `json:"ready"`
	Problems []NotReady `json:"problems,omitempty"`
	// Scopes are by name.
	Scopes map[string]ScopeReady `json:"scopes,omitempty"`
}

// ScopeReady answers /readyz/SCOPE.
type ScopeReady struct {
	Ready    bool       `json:"ready"`
	Role     string     `json:"role"`
	Problems []NotReady `json:"problems,omitempty"`
}

// Live answers /livez: 200 if nothing is stuck, else 503.
type Live struct {
	Live  bool        `json:"live"`
	Stuck []StuckLoop `json:"stuck,omitempty"`
}

// StuckLoop is a loop that has been at one step for too long.
type StuckLoop struct {
	Scope string  `json:"scope"`
	Loop  string  `json:"loop"`
	For   float64 `json:"for_s"`
}

// InstanceStatus answers GET /status: one instance as it sees itself.
type InstanceStatus struct {
	Holder    string          `json:"holder,omitempty"`
	Version   string          `json:"version"`
	Time      time.Time       `json:"time"`
	Ready     bool            `json:"ready"`
	Connected bool            `json:"nats_connected"`
	Problems  []NotReady      `json:"problems,omitempty"`
	Vaults    []Vault         `json:"vaults"`
	Log       *Log            `json:"log,omitempty"`
	Scopes    []ScopeInstance `json:"scopes"`
	Notes     []string        `json:"notes,omitempty"`
}

// Log is the stream of the log.
type Log struct {
	Created  time.Time `json:"created"`
	LastSeq  uint64    `json:"last_seq"`
	Messages uint64    `json:"messages"`
	Bytes    int64     `json:"bytes"`
	MaxBytes int64     `json:"max_bytes"`
	Replicas int       `json:"replicas"`
}

// ScopeInstance is a scope as an instance sees it.
type ScopeInstance struct {
	Scope    string     `json:"scope"`
	Role     string     `json:"role"`
	Ready    bool       `json:"ready"`
	Problems []NotReady `json:"problems,omitempty"`
	// Holder is who leads, as far as a standby knows.
	Holder string `json:"holder,omitempty"`
	// Foreign counts the messages in the log that do not count, which this instance
	// has met since it started.
	Foreign uint64 `json:"foreign_messages,omitempty"`
	// Status is what the holder says over NATS too; of a standby, what it has
	// followed.
	Status Status `json:"status"`
}

// Tables answers GET /leases.
type Tables struct {
	Scopes []Leases `json:"scopes"`
}

// EventLine is one event as GET /events shows it: no accessor of a guard, no
// fingerprint, no key.
type EventLine struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Scope string    `json:"scope"`
	Name  string    `json:"name,omitempty"`
	Lease uint64    `json:"lease,omitempty"`
	Type  string    `json:"type"`
	// Epoch and Actor are told where one name was asked for.
	Epoch uint64 `json:"epoch,omitempty"`
	Actor string `json:"actor,omitempty"`
	Says  string `json:"says"`
}

// Events answers GET /events: events that count, the oldest first.
type Events struct {
	Events []EventLine `json:"events"`
	// Complete: nothing was left out that was asked for. What is older than what is
	// kept, leasesvc events reads from the log.
	Complete bool `json:"complete"`
}
