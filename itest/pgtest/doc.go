// Package pgtest gives a test a PostgreSQL server of its own: [Start] for one
// test, [Shared] with [Main] for one per test binary.
//
// It guarantees that the server listens on 127.0.0.1 only, on a port nobody
// else had, with its data in a directory of its own, that its only account is
// a superuser with a random password, and that it is gone, processes and
// files, when the test is. If the test process is killed, the kernel ends the
// server (Linux only); its directory then stays behind in the temporary
// directory.
//
// It does not keep what was written when the machine dies: fsync is off. It
// never skips: a machine without PostgreSQL fails the test and says what to
// install.
//
// As root it runs initdb and postgres as the user "postgres", since they refuse
// to run as root; otherwise as whoever runs the test.
//
// Concurrency: a [Server]'s methods may be called from several goroutines;
// Start, Stop and Restart exclude each other.
//
// How it is tested: by starting, stopping and restarting real servers.
package pgtest
