// Package sessions is what the adapters of drivers share: a [Set] keeps the
// sessions of one lease current, those of others until they are drained, and is
// the [consumer.Handler] that a hand-over talks to. With a [Driver] it makes a
// driver that has no adapter yet follow rotations.
//
// Which function to call: [Start] makes a set and waits for the first
// credential. Work is done between [Set.Enter] and [Held.Leave]. What follows a
// rotation by itself, such as a subscription, also watches [Held.Replaced].
//
// Guarantees: Enter gives sessions that have been proven by a login, and they
// are not closed before the last Leave; a yes means that new sessions were
// proven and that new work goes there; a confirmation means that the sessions
// of every other lease are closed. Sessions that were replaced are kept until
// the commit, so that a way back finds them open. A server's refusal of the
// committed credential (C58) is told to the service once per lease and cool-down.
//
// It does not bound the work done between Enter and Leave: what never leaves
// keeps its lease in use until the service's retire_after.
//
// A Set is safe for concurrent use. [Set.Close] waits for its goroutines.
//
// Tested with a scripted holder and a driver in memory; the adapters test it on
// real servers.
package sessions
