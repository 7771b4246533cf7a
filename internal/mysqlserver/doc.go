// Package mysqlserver runs a private MariaDB server: [Open] makes and starts
// one, [Server.Close] ends and removes it. itest/mysqltest gives it to tests.
//
// It guarantees that the server listens on 127.0.0.1 only, on a port nobody
// else had, with its data in a directory of its own, that its only account that
// can log in is a superuser with a random password that stands in no command
// line, and that nothing is left of it, processes and files, after Close. If
// the owner is killed, the kernel ends the server (Linux only); its directory
// then stays behind in the temporary directory.
//
// It does not keep what was written when the machine dies: nothing is flushed.
// It does not install MariaDB: where there is none, [ErrNotInstalled] says what
// to install. It starts no MySQL of Oracle's, whose set-up is another. It is for
// Unix only.
//
// Concurrency: a [Server]'s methods may be called from several goroutines;
// Start, Stop, Restart and Close exclude each other.
//
// How it is tested: by starting, stopping, restarting and orphaning real
// servers.
package mysqlserver
