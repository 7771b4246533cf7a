package metrics

import (
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// other stands for every word that is not on its list.
const other = "other"

// kinds are the kinds of failure that have a word of their own: those of Vault's
// answers, of verifiers, of hand-overs and of documents.
var kinds = set(
	"invalid", "not-found", "permission", "sealed", "standby", "uninitialised", "quota", "conflict", "redirect", "transient",
	"timeout", "malformed", "refused", "unreachable", "canceled", "not-logged-in", "store", "unknown", "missing-keys",
	"authentication-refused", "session-refused", "server-unreachable", "session-belongs-to-another-user", "verifier-unusable", "interrupted",
	"expired", "removed", "takeover", "place", "reference", "content", "hand-over", "documents",
)

// operations are what a Vault connection is asked for.
var operations = set(
	"read", "renew-lease", "look-up-lease", "revoke-lease", "create-guard", "extend-guard", "look-up-guard", "revoke-guard",
	"health", "probe", "log-in", "log-out", "look-up-own-token", "renew-own-token", "discard-token", "unwrap-secret-id", "look-up-wrapping-token",
)

func set(words ...string) map[string]bool {
	out := map[string]bool{other: true}
	for _, w := range words {
		out[w] = true
	}
	return out
}

// word gives a word of a closed list; spaces count as hyphens.
func word(list map[string]bool, text string) string {
	if text = strings.ReplaceAll(text, " ", "-"); list[text] {
		return text
	}
	return other
}

// failureOf tells what an event says has failed, and how; "": nothing.
func failureOf(e *events.Event) (action, kind string) {
	var f events.Failure
	switch d := e.Data.(type) {
	case *events.AcquireFailed:
		action, f = "acquire", d.Failure
	case *events.VerifyFailed:
		action, f = "verify", d.Failure
	case *events.RollbackStarted:
		action, f = "handover", d.Failure
	case *events.RenewFailed:
		action, f = "renew", d.Failure
	case *events.RevokeFailed:
		action, f = "revoke", d.Failure
	case *events.Rejected:
		action, f = "document", d.Failure
	default:
		return "", ""
	}
	return action, word(kinds, f.Kind)
}
