// Package audit reads a log as an auditor does and says what is wrong with it.
//
// [New] makes an [Auditor], [Auditor.Look] is given every message of the stream
// in its order, [Auditor.Report] says what was found. leasesvc verify-log is
// that, over a stream.
//
// What is checked: that the stream has no holes; that each message is an event
// of the catalogue under its own subject; the chain of MACs, and where it does
// not hold, whether an event was edited, removed, moved, inserted or published
// by hand; that epochs grow and no event is of another than the one in force
// (I1); that each event fits what the events before it say; that nothing was
// committed without the proof that it names, nothing handed over before its
// guard was extended (P5), no lease revoked that was active or that somebody may
// live on (I4), nothing done to a lease whose revocation was intended but to
// revoke it (P7); that lease numbers leave nothing out, and which leases are
// open at the end.
//
// What is not: that Vault did what the events say; what was confirmed by whom
// (it is memory, not log); events that were cut off from the end, which only a
// later look shows: keep the [Head] of each audit and give it to the next one
// ([Options.Anchors]). Without keys the links of the chain are checked and not
// the MACs themselves, so an edit that left the links alone does not show.
//
// An Auditor goes on after what it finds, as well as it can. What comes after
// the first finding may follow from it.
//
// It never guesses, keeps no event and holds at most [MaxFindings] findings; its
// memory grows with the number of names, not of events. An Auditor belongs to
// one goroutine.
//
// Tested on damaged logs, on the logs of simulated lives with every fault (no
// finding) and on those of mutants (found).
package audit
