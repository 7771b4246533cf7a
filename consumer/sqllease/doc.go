// Package sqllease is a database/sql DB whose credential rotates underneath it:
// a [DB] is used like the sql.DB that it embeds, and takes part in the
// hand-overs of a name. Use it for MySQL and MariaDB, and for PostgreSQL where an
// application speaks database/sql; with pgx itself, package pgxlease keeps more.
//
// Start with [Open] and a [Dialect]: [PostgreSQL] or [MySQL]. In a hand-over a
// session with the candidate is opened and proven (the server must say that it is
// the candidate's user's); then new connections are the candidate's, and those
// of the old credential are closed as they come back to the pool or lie idle in
// it. On commit the rest of them are waited for, and only then the hand-over is
// confirmed.
//
// Guarantees: no call fails because the credential changed under it; a
// transaction, a sql.Conn and open rows stay on the session they began on; a
// confirmation means that no session of another lease is open. A login that the
// server refuses is reported to the service (C58). No password is in any error or
// log line of this package.
//
// It does not bound a transaction: one that never ends keeps its old user in use
// until the service's retire_after. It does not keep idle sessions of the old
// credential over a hand-over: a way back opens new ones. A prepared statement
// (sql.Stmt) is prepared again on each new connection, as database/sql does.
//
// A DB is safe for concurrent use. [DB.Close] waits for its goroutines.
//
// Tested with a private PostgreSQL and a private MariaDB: rotations and ways back
// under load without a failed query, broken candidates, transactions across a
// rotation.
package sqllease
