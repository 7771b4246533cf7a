// Package redisserver runs a private Redis server: [Open] makes and starts one,
// [Server.Close] ends and removes it. itest/redistest gives it to tests.
//
// It guarantees that the server listens on 127.0.0.1 only, on a port nobody
// else had, with its files in a directory of its own, that the only account it
// starts with is "default" with a random password that stands in no command
// line, and that nothing is left of it, processes and files, after Close. If
// the owner is killed, the kernel ends the server (Linux only); its directory
// then stays behind in the temporary directory.
//
// It does not keep data over a restart: nothing is saved. Accounts stay over
// one if whoever makes them saves them (ACL SAVE). It does not install Redis:
// where there is none, [ErrNotInstalled] says what to install. It is for Unix
// only.
//
// Concurrency: a [Server]'s methods may be called from several goroutines;
// Start, Stop, Restart and Close exclude each other.
//
// How it is tested: by starting, stopping, restarting and orphaning real
// servers.
package redisserver
