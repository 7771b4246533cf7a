// Package verify proves a candidate credential by a login of the service's own,
// before any consumer is asked to follow it (D2).
//
// [Check] looks at a definition's verifier when the configuration is read;
// [Verify] logs in, and tries again within its budget, since a new account can
// take seconds to reach every replica of a database (C48).
//
// It guarantees that nil means: a session was opened with exactly these values,
// and the server says it belongs to the candidate's user (PostgreSQL, MySQL,
// Redis), or has checked its password (RabbitMQ); for HTTP, that a 2xx came; for
// a command, that it ended with status 0. It guarantees that no
// value, no password and no DSN is in an error, and that nothing but the
// template and the values decides who logs in: a PGPASSWORD or a ~/.pgpass of
// the process cannot make a login that proves nothing.
//
// It does not prove what the account may do, nor that every server behind a
// name knows it: a session with one of them is enough. HTTP follows no
// redirection and uses no proxy, since both would carry the credential elsewhere.
// A command gets the credential on its standard input or in its environment,
// never as an argument, and nothing of the process's own environment.
//
// Concurrency: the functions keep no state and may be called at any time; they
// leave no goroutine behind.
//
// How it is tested: against real servers (PostgreSQL, MariaDB, RabbitMQ, Redis,
// HTTP) and programs, the templates also by fuzzing.
package verify
