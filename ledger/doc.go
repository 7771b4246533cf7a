// Package ledger adds up what credentials were out there: for each name, path and
// consumer, how long they were granted, staged, in use, in overlap and exposed.
//
// [New] begins one, [Ledger.See] takes each event of a scope that counts, in the
// order of the log, [Ledger.Rows] gives the totals up to a moment. A ledger can be
// written down ([Ledger.Snapshot]) and taken up again ([Restore]).
//
// # What is measured
//
// A lease is staged from the event that says it was acquired until it is
// committed; in use while it is the name's active one; in overlap from the commit
// of its successor until it is retired (and as a candidate that was rolled back
// without everybody's word); exposed from its retirement until it is revoked or
// gone: nobody needs it, and it still opens the door. Granted is what Vault
// granted: the TTL, and what each renewal added to it, counted in full at the time
// of the event; a later revocation takes nothing away.
//
// A consumer's seconds are those of its incarnations: two instances that use a
// credential for a minute have used it for two. It has a lease from when it was
// asked to prove it, or registered while it was active, until it was asked back
// and confirmed, left, or the lease was retired. When it let go of a replaced
// lease before that is not in the log, so its overlap is an upper bound. Granted
// and exposed are not a consumer's.
//
// Time is that of the events. Where the clock of a new holder is behind that of
// the one before, it stands still until it has caught up.
//
// # Guarantees
//
// All sums are exact decimals. A ledger is a function of the events: from the
// beginning or from any snapshot, the same events give the same digits.
//
// A Ledger belongs to one goroutine. Tested against a naive program over the raw
// events, from every snapshot.
package ledger
