// Package mysqltest gives a test a MariaDB server of its own: [Start] for one
// test, [Shared] with [Main] for one per test binary. The server itself, and
// what it guarantees, is package mysqlserver's.
//
// It guarantees that the server is gone, processes and files, when the test is.
// It never skips: a machine without MariaDB fails the test and says what to
// install.
//
// It does not keep tests that share a server apart: each makes accounts with
// names of its own.
//
// Concurrency: Start and Shared may be called from several tests at once.
//
// How it is tested: by starting real servers and looking for what they leave.
package mysqltest
