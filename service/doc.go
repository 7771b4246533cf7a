// Package service is one running leasesvc: it brings the log, the epoch cells,
// the decision core, Vault and the consumers together.
//
// [New] takes a configuration, [Service.Run] runs until its context ends; both
// the command and the tests start it so. Each scope has a life of its own
// (scope.go): it stands by, following the log; it claims, opens its epoch in
// the log and folds the log up to that; it leads (term.go) until it is fenced,
// told to step down, or stopped; and it stands by again.
//
// While it leads, one goroutine owns the scope's state. It takes commands from
// a bounded queue, decides them in batches, appends what was decided in one
// fenced write, applies it, and only then starts the effects that the new state
// owes (work.go). Nothing irreversible starts before the event that intends it
// is in the log. Readers never wait for that goroutine: they read views that it
// publishes (view.go).
//
// An instance whose release can't read what is, or may be, in a scope's log stands
// by without claiming ([BehindError], upgrade.go).
//
// Guarantees and what fails how: docs/architecture.md. No secret is in any log
// line, error, event or span of this package. Where nothing is traced a hand-over's
// spans cost nothing (tracing.go).
//
// Tested end to end in itest, on real servers, and here against an embedded
// NATS server and devvault.
package service
