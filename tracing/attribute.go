package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The keys of all attributes that a span of ours can have.
const (
	ScopeKey    = attribute.Key("leasesvc.scope")
	NameKey     = attribute.Key("leasesvc.name")
	LeaseKey    = attribute.Key("leasesvc.lease")
	EpochKey    = attribute.Key("leasesvc.epoch")
	NKey        = attribute.Key("leasesvc.n")
	ConsumerKey = attribute.Key("leasesvc.consumer")
	InstanceKey = attribute.Key("leasesvc.instance")
	TargetKey   = attribute.Key("leasesvc.target")
	OutcomeKey  = attribute.Key("leasesvc.outcome")
	FailureKey  = attribute.Key("leasesvc.failure")
	LinkKey     = attribute.Key("leasesvc.link")
)

// Keys lists them.
func Keys() []attribute.Key {
	return []attribute.Key{ScopeKey, NameKey, LeaseKey, EpochKey, NKey, ConsumerKey, InstanceKey, TargetKey, OutcomeKey, FailureKey, LinkKey}
}

// Outcome is how a span came out.
type Outcome string

// The outcomes.
const (
	// OK: it worked.
	OK Outcome = "ok"
	// Failed: it did not.
	Failed Outcome = "failed"
	// Ended: it was not needed any more, or its instance stopped.
	Ended Outcome = "ended"

	// Committed and those below are a hand-over's, as the event that ended it.
	Committed     Outcome = "committed"
	RolledBack    Outcome = "rolled-back"
	Kept          Outcome = "kept" // rolled back without everybody's word (L22)
	AcquireFailed Outcome = "acquire-failed"
	VerifyFailed  Outcome = "verify-failed"
	Orphaned      Outcome = "orphaned"
	Expired       Outcome = "expired"
	Retired       Outcome = "retired"

	// Yes and those below are what an incarnation said.
	Yes       Outcome = "yes"
	No        Outcome = "no"
	Vague     Outcome = "vague"
	Confirmed Outcome = "confirmed"
	Stale     Outcome = "stale"
	// NoAnswer: it said nothing in time.
	NoAnswer Outcome = "no-answer"
	// Absent: nobody listened.
	Absent Outcome = "absent"
	// Superseded: something newer was asked for meanwhile.
	Superseded Outcome = "superseded"
)

// Attribute gives the outcome as one.
func (o Outcome) Attribute() attribute.KeyValue { return OutcomeKey.String(string(o)) }

// Bad tells whether a span with the outcome shows as an error.
func (o Outcome) Bad() bool {
	switch o {
	case Failed, RolledBack, Kept, AcquireFailed, VerifyFailed, Orphaned, Expired, No, Vague, NoAnswer, Absent:
		return true
	default:
		return false
	}
}

// Lease gives a lease's number.
func Lease(no uint64) attribute.KeyValue { return number(LeaseKey, no) }

// Epoch gives a scope's epoch.
func Epoch(epoch uint64) attribute.KeyValue { return number(EpochKey, epoch) }

// N gives the log's sequence that a message or an outcome follows from.
func N(n uint64) attribute.KeyValue { return number(NKey, n) }

func number(k attribute.Key, n uint64) attribute.KeyValue {
	return k.Int64(int64(n)) // sequences stay below 2^53
}

// The links of a hand-over to others.
const (
	// Replaces: the hand-over of the lease that was active when it began.
	Replaces = "replaces"
	// Attempt: the one before it of the same name, which came to nothing.
	Attempt = "attempt-before"
	// Answer: the consumer's own span, where that is in another trace.
	Answer = "answer"
)

// Link gives a link of a kind.
func Link(to trace.SpanContext, kind string) trace.Link {
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{LinkKey.String(kind)}}
}

// failures has every kind of failure that is one of ours: of Vault
// (vault.Kind), of a verifier (verify.Failure), of the core and of the service.
var failures = map[string]bool{
	"invalid": true, "not-found": true, "permission": true, "sealed": true, "standby": true, "uninitialised": true, "quota": true,
	"conflict": true, "redirect": true, "transient": true, "timeout": true, "malformed": true, "refused": true, "unreachable": true,
	"canceled": true, "not-logged-in": true, "store": true, "unknown": true, "missing-keys": true, "removed": true, "expired": true, "takeover": true,
	"authentication-refused": true, "session-refused": true, "server-unreachable": true, "session-belongs-to-another-user": true,
	"verifier-unusable": true, "interrupted": true,
}

// otherFailure stands for a kind that is none of ours: what an event of another
// release says is text like any other.
const otherFailure = "other"

// Failure gives a kind of failure, in the words that metrics have for it.
func Failure(kind string) attribute.KeyValue {
	if kind = strings.ReplaceAll(kind, " ", "-"); !failures[kind] {
		kind = otherFailure
	}
	return FailureKey.String(kind)
}
