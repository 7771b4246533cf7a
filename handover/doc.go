// Package handover is the service's side of the protocol with consumers: the
// keys it seals with, the courier that asks registered incarnations to
// prepare, follow or revert, the check of what they send, and the store of
// sealed values.
//
// Start with [NewKeys], [NewCourier], [VerifyRegistration] and [OpenBlobs].
//
// Guarantees. An answer that [Courier] returns came from the incarnation that
// was asked, signed with the consumer's key, for the very epoch and n that
// were asked (P8); everything else is counted and ignored. A prepare or follow
// is sent again until it is answered or its context ends (P14). Nobody there,
// silence and vague answers are never a yes (L14). Values at rest open only
// under the scope, name and lease number they were sealed for.
//
// It does not decide: whether a hand-over starts, commits or rolls back, when
// an incarnation counts as gone, and what is in the log is the caller's. It
// knows nothing of Vault, of the log or of cells.
//
// All types are safe for concurrent use. No goroutine outlives the call that
// started it.
//
// Tested against an embedded NATS server with scripted consumers: late,
// duplicate, forged and vague answers, nobody there, reconnects; the seals by
// round trips and by moving them to other names.
package handover
