// Package leasecore decides. It holds what a scope's log says ([State]), turns
// commands into events ([Decide]), folds events into state ([State.Apply]) and
// names the effects that a state owes ([Name.Owed]).
//
// It is pure: no clock, no randomness, no I/O, no logger, no context. Time and
// ids come in with the command ([At]); the spread of renewals is derived from
// the lease. The caller does all input and output under one rule: append the
// events first, apply them as they came out of the log, and only then start
// what the new state owes. A restart, a takeover and a snapshot run the same
// functions, so recovery is no second code path: whatever prefix of the decided
// events reached the log, [Decide] goes on from there.
//
// The life of a lease:
//
//	requested -> acquired -> (guard-extended) -> verified -> handover-started
//	  -> installed -> renewed... -> replaced, in grace -> retired -> revoking -> revoked
//	  -> rollback-started -> rolled-back -> retired, or kept (L22)
//
// Guarantees, given that the caller keeps the rule: the invariants I1 to I8 of
// docs/architecture.md as far as one state can show them; rules L1 to L55 and
// P1 to P15 name the places in the code.
//
// A State, and a Draft over it, belong to one goroutine.
//
// Tested by scenarios (testdata/scenarios, printed state) and properties.
package leasecore
