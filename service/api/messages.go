package api

import (
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// The operations.
const (
	OpStatus   = "status"
	OpLeases   = "leases"
	OpRotate   = "rotate"
	OpRevoke   = "revoke"
	OpApply    = "apply"
	OpReissue  = "reissue"
	OpAdopt    = "adopt"
	OpStepDown = "step-down"
	OpShutdown = "shutdown"
	OpFinalize = "finalize"
)

// HeaderXKey carries the public curve key that an adoption is sealed with.
const HeaderXKey = "Leasesvc-XKey"

// Adoption is a lease obtained elsewhere, with its values; it is sealed as a
// whole to the service's key (L51).
type Adoption struct {
	LeaseID   string          `json:"lease_id"`
	TTL       events.Seconds  `json:"ttl_s"`
	Renewable bool            `json:"renewable"`
	Values    json.RawMessage `json:"values"`
	// Until bounds how long the sealed message may be used.
	Until time.Time `json:"until"`
}

// LogValue implements slog.LogValuer: never the values.
func (a Adoption) LogValue() slog.Value { return slog.StringValue("adoption of a lease") }

// ServiceName is the name of the NATS micro service; its metadata names the
// scope under MetadataScope.
const (
	ServiceName   = "leasesvc"
	MetadataScope = "scope"
)

// Subject gives the subject of an operation on a scope, or on a name in it.
func Subject(op, scope string, name ...string) string {
	return "leasesvc." + op + "." + strings.Join(append([]string{scope}, name...), ".")
}

// Status is what a holder says of itself and its scope.
type Status struct {
	Scope    string    `json:"scope"`
	Holder   string    `json:"holder"`
	Epoch    uint64    `json:"epoch"`
	Since    time.Time `json:"since"`
	Version  string    `json:"version"`
	LastSeq  uint64    `json:"last_seq"`
	Names    int       `json:"names"`
	Usable   int       `json:"usable"`
	Revision uint64    `json:"revision"`
	// ServiceKey is the public key that consumers pin.
	ServiceKey string `json:"service_key"`
	// SealKey is the id of the seal key in force, OtherKeys are those that the
	// holder has beside it.
	SealKey   string    `json:"seal_key,omitempty"`
	OtherKeys []SealKey `json:"other_seal_keys,omitempty"`
	Insecure  bool      `json:"insecure_consumers,omitempty"`
	// Skipped counts events in the stream that do not count.
	Skipped uint64 `json:"skipped_events,omitempty"`
	// Upgrade is there while an upgrade is going on, or an instance was left behind
	// by one.
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	Vaults  []Vault  `json:"vaults"`
	// Notes are what needs a person's eye.
	Notes []string `json:"notes,omitempty"`
}

// Upgrade is what a holder says of the versions in which events are written.
type Upgrade struct {
	// InForce may be written, Pending may not yet though the holder's release could:
	// versions of event types, above the lowest.
	InForce events.Formats `json:"in_force,omitempty"`
	Pending events.Formats `json:"pending,omitempty"`
	// Behind are the instances that are there for the scope and can't read them all.
	Behind []Instance `json:"behind,omitempty"`
}

// Instance is a running leasesvc.
type Instance struct {
	Holder  string `json:"holder"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Lacks is what it can't read.
	Lacks events.Formats `json:"lacks,omitempty"`
}

// String names it for people.
func (i Instance) String() string {
	version := i.Version
	if version == "" {
		version = "unknown"
	}
	return i.Host + " (" + i.Holder + ", release " + version + ")"
}

// SealKey is what a holder says of a seal key beside the one in force: the next
// one, or one that was replaced.
type SealKey struct {
	ID string `json:"id"`
	// ServiceKey is its public half.
	ServiceKey string `json:"service_key"`
	// Removable: nothing needs it any more, as far as the holder can see. Says
	// tells what does, or what to do now.
	Removable bool   `json:"removable"`
	Says      string `json:"says"`
	// Consumers are registered and pin no other key, as consumer/instance.
	Consumers []string `json:"consumers,omitempty"`
	// Closed are values, as name/number, that no key of the holder opens.
	Closed []string `json:"closed,omitempty"`
}

// Vault is what a holder says of a Vault connection.
type Vault struct {
	Name     string `json:"name"`
	Address  string `json:"address"`
	LoggedIn bool   `json:"logged_in"`
	Guarded  bool   `json:"guarded"`
	Problem  string `json:"problem,omitempty"`
	// PausedSince is since when it refuses our credentials (E12); zero: it
	// does not.
	PausedSince time.Time `json:"paused_since,omitzero"`
	// Unguarded is why acquisitions are made without guards; empty: they are made
	// with them.
	Unguarded string `json:"unguarded,omitempty"`
	// OutSince is since when it is out, so that only probes are sent; zero: it
	// is not.
	OutSince time.Time `json:"out_since,omitzero"`
	// Waiting and InFlight count calls as of now.
	Waiting  int `json:"waiting"`
	InFlight int `json:"in_flight"`
	// What follows counts since the instance started. Requests went out; Calls
	// ended, by what was asked and how that ended ("none": well), whatever
	// number of requests each took; Held were not sent, because it was out or
	// asked for a pause.
	Requests uint64                       `json:"requests"`
	Calls    map[string]map[string]uint64 `json:"calls,omitempty"`
	Held     uint64                       `json:"held"`
	Outages  uint64                       `json:"outages"`
	Probes   uint64                       `json:"probes"`
	// Suspect are durations that made no sense, Warnings the server's own.
	Suspect  uint64 `json:"durations_suspect"`
	Warnings uint64 `json:"warnings"`
}

// Leases is a scope's table.
type Leases struct {
	Scope string  `json:"scope"`
	Time  Time    `json:"time"`
	Names []Lease `json:"names"`
}

// Time is a moment in UTC.
type Time = time.Time

// Lease is one name's row.
type Lease struct {
	Name string `json:"name"`
	// State says in few words what the name is doing and what it waits for.
	State string `json:"state"`
	// Active is the committed lease; 0: none.
	Active  uint64 `json:"active,omitempty"`
	Public  string `json:"public,omitempty"`
	LeaseID string `json:"lease_id,omitempty"`
	Path    string `json:"path"`
	// Acquired is when the active lease was granted in the first place, Expires when
	// it ends; zero: there is none, it never does.
	Acquired time.Time `json:"acquired,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Next is when the name is looked at next.
	Next time.Time `json:"next,omitzero"`
	// Others are the leases beside the active one, as "2 grace".
	Others    []string        `json:"others,omitempty"`
	Consumers []Consumer      `json:"consumers,omitempty"`
	Failure   *events.Failure `json:"failure,omitempty"`
}

// Consumer is one registered incarnation.
type Consumer struct {
	Consumer    string `json:"consumer"`
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	// Follows tells whether it has confirmed what is in force.
	Follows bool `json:"follows"`
}

// Done answers rotate, revoke and apply: the first of the events that were
// recorded for it, 0 where nothing had to be.
type Done struct {
	Seq uint64 `json:"seq,omitempty"`
	// Says tells what happens now.
	Says string `json:"says"`
}

// Definitions is a definitions file that an operator sends to be applied, sealed
// as a whole to the service's key, since its documents may hold secrets.
type Definitions struct {
	// File is its name, for messages.
	File    string `json:"file"`
	Content []byte `json:"content"`
	// Until bounds how long the sealed message may be used.
	Until time.Time `json:"until"`
}

// LogValue implements slog.LogValuer: never the content.
func (d Definitions) LogValue() slog.Value { return slog.StringValue("definitions of " + d.File) }

// Problem is a refusal.
type Problem struct {
	// Code is one of the Code constants.
	Code    string `json:"code"`
	Message string `json:"error"`
	// Names are those that exist, where a name was unknown.
	Names []string `json:"names,omitempty"`
}

// The codes of refusals.
const (
	CodeUnknownName = "unknown-name"
	// CodeUnknownScope: only over HTTP; over NATS nobody answers then.
	CodeUnknownScope = "unknown-scope"
	CodeRefused      = "refused"
	CodeBusy         = "busy"
	CodeNotLeading   = "not-leading"
	// CodeConflict: a document has another revision than the update was made from.
	CodeConflict = "conflict"
)

// Error implements error.
func (p *Problem) Error() string {
	if len(p.Names) > 0 {
		return p.Message + "; the names are: " + strings.Join(p.Names, ", ")
	}
	return p.Message
}
