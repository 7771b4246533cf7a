// Package rabbitserver runs a private RabbitMQ broker with its management API:
// [Open] makes and starts one, [Server.Close] ends and removes it.
// itest/rabbittest gives it to tests.
//
// It guarantees that broker, management API and Erlang's distribution listen on
// 127.0.0.1 only, on ports nobody else had, under a node name, an Erlang port
// mapper (epmd), an Erlang cookie and a directory of its own, that its only
// account is an administrator with a random password that stands in no command
// line, and that nothing is left of it, processes and files, after Close. If the
// owner is killed, the kernel ends the broker (Linux only); its directory then
// stays behind in the temporary directory. It runs as whoever runs the program,
// root included, and reads no configuration of the system's.
//
// It does not keep what was written when the machine dies. It does not install
// RabbitMQ: where there is none, [ErrNotInstalled] says what to install. It is
// for Unix only.
//
// Concurrency: a [Server]'s methods may be called from several goroutines;
// Start, Stop, Restart and Close exclude each other.
//
// How it is tested: by starting, restarting and orphaning real brokers.
package rabbitserver
