// Package sim lives through random schedules of the production core
// (leasecore) and projector on a simulated clock, log, epoch cell, Vault and
// consumers, and checks the invariants I1 to I8 after each event.
//
// [Run] lives through one schedule; its seed decides everything, so the same
// seed gives the same schedule on every machine. [RunMany] lives through many,
// one per processor at a time. [Minimise] makes a failed one short. What a
// schedule can meet is listed by [Fault]; how often it was met in which phase
// of a hand-over is counted ([Coverage]). A [Mutant] is a deliberate fault of
// the surroundings, to prove that the simulator sees it.
//
// What is real: leasecore.Decide, Apply, Owed, Wake and Confirm,
// projector.Projection, and in every tenth schedule the codec and the chain of
// MACs. What is modelled, after service, events/journal, vault and consumer: the
// scope's loop, the fenced append with its lost and late answers, claims, the
// effects, the carrying of messages, and the consumer's rules P9 to P11.
//
// What it does not show: documents and their references, adoption, shared lease
// ids, snapshots; that the modelled parts do what their originals do. See
// docs/simulation.md.
//
// A world is single-threaded; worlds share nothing.
package sim
