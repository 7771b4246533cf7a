// Package pgxlease is a pgx pool whose credential rotates underneath it: a
// [Pool] is used like a pgxpool.Pool and takes part in the hand-overs of a
// name.
//
// Start with [New]. In a hand-over a second pool is opened with the candidate
// and proven by a login (the server must say that the session's user is the
// one in the credential); then new work goes there. On commit the old pool is
// closed gracefully: what is in flight on it finishes, and only then the
// hand-over is confirmed. On a way back new work returns to the old pool, which
// is still open.
//
// Guarantees: a call never fails because a pool was swapped under it, it runs
// on the one or the other; a transaction stays on the pool it began on; a
// confirmation means that no session of another lease is open. No password is
// in any error or log line of this package.
//
// It does not bound a transaction: one that never ends keeps its old user in
// use until the service's retire_after. During a hand-over up to twice
// MaxConns connections can be open. SET SESSION AUTHORIZATION or SET ROLE in an
// AfterConnect hook would defeat the proof, which looks at session_user.
//
// A Pool is safe for concurrent use. [Pool.Close] waits for its goroutines.
//
// Tested with a private PostgreSQL: rotations and ways back under load without
// a failed query, broken candidates, transactions across a rotation.
package pgxlease
