// Package privateserver is what the private servers have in common: a server
// program of somebody else's (PostgreSQL, MariaDB, RabbitMQ, Redis) that listens on
// 127.0.0.1 only, on ports nobody else had, with its files in a directory of its own.
// A package for each says how its program is set up and run ([Kind]); this one starts
// it, waits until it answers, ends it and removes what is left.
//
// It guarantees that nothing is left of a server, processes and files, after
// [Server.Close], and that no way of printing one shows its password. If the owner
// is killed, the kernel ends the server (Linux only); its directory then stays
// behind in the temporary directory.
//
// Concurrency: a [Server]'s methods may be called from several goroutines; Start,
// Stop, Restart and Close exclude each other.
//
// How it is tested: with the servers, in the packages that use it.
package privateserver
