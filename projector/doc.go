// Package projector rebuilds a scope's state from its log.
//
// [Projection.Apply] takes the stored events one by one, in the order of their
// sequences, and folds those that count into a [leasecore.State]. An event
// counts when it is genuine (its MAC holds and it follows the event before it)
// and of the epoch of the last opened before it; what else is found in the
// stream is skipped, counted and told ([Skipped]). An event of a later release,
// a broken chain or an event that does not fit stops the projection for good:
// it keeps the state before that event, and whoever holds it must not claim.
//
// Guarantees: the state is a function of the log alone (I6): live or replayed,
// from the start or resumed, the same events give the same state.
//
// A Projection belongs to one goroutine. Tested by properties over random
// lives, by damaged logs, and by the committed histories of past releases.
package projector
