// Package consumer lets an application live on credentials that leasesvc
// rotates.
//
// Which function to call: [Connect] first. [Client.Get] for a program that
// reads a credential and is done within its good-for time. [Client.Watch] for
// one that re-reads it. [Client.Serve] for one that must never fail a request
// because of a rotation: it takes part in the hand-over, so that nothing is
// committed that the application cannot use, and nothing is revoked that it
// still uses. Sub-packages adapt drivers: pgxlease for pgx pools, sqllease for
// database/sql, amqplease for RabbitMQ, redislease for Redis; sessions is what they
// are made of.
//
// Guarantees of Serve. It registers before anything else (P9) and takes
// nothing before its registration was answered (P10); after that only what is
// above the last n taken; the same n repeats the answer given; a lower epoch is
// refused. Yes is said only when the [Handler] returned nil in time; a panic,
// an error or silence is none (L14). Calls of one handler never overlap. What
// does not come sealed from the pinned service key is ignored.
//
// With a tracer provider each call of a handler is a span (docs/tracing.md); what
// the header of a trace says decides nothing.
//
// It does not cache credentials, keep them on disk, or make a handler stop
// that ignores its context.
//
// A [Client] is safe for concurrent use. Goroutines end before the call that
// started them returns (Serve), or with its context (Watch); [Client.Close]
// waits for all.
//
// Tested against an embedded NATS server and a scripted holder
// (consumertest): late, duplicate, forged messages, restarts and take-overs.
package consumer
