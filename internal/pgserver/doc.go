// Package pgserver runs a private PostgreSQL server: [Open] makes and starts
// one, [Server.Close] ends and removes it. `leasesvc dev` uses it, and itest/pgtest
// gives it to tests.
//
// It guarantees that the server listens on 127.0.0.1 only, on a port nobody
// else had, with its data in a directory of its own, that its only account is
// a superuser with a random password, that its log has no text of a statement
// (a failing one may hold a password), and that nothing is left of it, processes
// and files, after Close. If the owner is killed, the kernel ends the server
// (Linux only); its directory then stays behind in the temporary directory.
//
// It does not keep what was written when the machine dies: fsync is off. It
// does not install PostgreSQL: where there is none, [ErrNotInstalled] says what
// to install. It is for Unix only.
//
// As root it runs initdb and postgres as the user "postgres", since they refuse
// to run as root; otherwise as whoever runs the program.
//
// Concurrency: a [Server]'s methods may be called from several goroutines;
// Start, Stop, Restart and Close exclude each other.
//
// How it is tested: by starting, stopping, restarting and orphaning real
// servers.
package pgserver
