// Package snapshot saves what a scope's log says, so that a start and a takeover
// read the log from there on and not from its beginning.
//
// [Encode] makes bytes of a projection and [Key.Decode] gives it back; [Store]
// keeps them in a bucket of the JetStream object store, named by scope,
// sequence and release. [Store.Restore] does all of it at a start: the highest snapshot that
// holds wins, one that does not is ignored and said, and without any the log is
// read from its beginning, which is always right and only slower.
//
// Guarantees: a snapshot is believed only if it was made under the scope's seal
// key (its MAC covers every byte), by this release, from the stream that the log is
// now, and if the event that it ends with stands there. Then the
// chain of MACs goes on from it: the next event must follow the one that the
// snapshot ends with. So who can write to the bucket but has no key can make a
// start slower, and can stop one by showing a genuine snapshot of a log that was
// given up; a state that is not the log's it can't make anybody believe. A genuine snapshot of another stream, or of an
// event that the log does not have, says that the log was lost, restored or
// recreated: that is a [*LostError], and no reason to read what there is instead.
// It holds what the events hold and no more: no value, no token.
//
// Not guaranteed: that the events before a snapshot are still as they were. Who
// wants to know reads the whole log (leasesvc verify-log).
//
// The layout follows the structs of leasecore, so no field can be forgotten. A
// release ignores what another one saved, which may have had another layout, or
// have folded the same events to another state: that costs one long read after an
// update and can't go wrong. The last two of the last other release are kept
// beside its own.
//
// Why it is so: docs/adr/0005.
//
// A [Key] and a [Store] are safe for concurrent use. Tested by random lives (a
// snapshot at any event and the rest of the log give the state of the whole log),
// by damaged and forged snapshots, by a fuzz test, and on a NATS server.
package snapshot
