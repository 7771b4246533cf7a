// Package amqplease is an AMQP 0-9-1 connection (RabbitMQ) whose credential
// rotates underneath it: a [Conn] publishes with confirms and consumes, and takes
// part in the hand-overs of a name.
//
// Start with [New]. [Conn.Publish] returns when the broker has confirmed the
// message, [Conn.Consume] hands deliveries to a function, [Conn.With] lends a
// channel for anything else. Queues and exchanges are declared by
// [Config].Setup, on each new connection before it is used.
//
// In a hand-over a second connection is opened with the candidate and proven: a
// login, the virtual host, a channel, and Setup. Then new messages are published
// there, and each consumer is cancelled on the old connection, finishes what it
// was handed, and goes on at the new one. On commit the old connection is closed
// when the last confirm and the last handler are through, and only then the
// hand-over is confirmed: RabbitMQ ends the connections of a user that is
// deleted. On a way back new work returns to the old connection, which is still
// open.
//
// Guarantees: no Publish fails because the credential changed under it; what it
// returned nil for, the broker has confirmed; a delivery is acknowledged on the
// channel that brought it; a confirmation means that no connection of another
// lease is open. A connection that breaks is made anew, with Setup. A login that
// the broker refuses is reported to the service (C58). No password is in any
// error or log line of this package.
//
// It does not repeat a message whose confirm was lost with its connection
// ([ErrUnconfirmed]): only the application knows whether it may come twice. It
// does not bound a handler: one that never returns keeps its old user in use
// until the service's retire_after. RabbitMQ answers a login, and not with whose
// it is: who else's password it took, it does not say.
//
// A Conn is safe for concurrent use. [Conn.Close] waits for its goroutines.
//
// Tested with a private RabbitMQ: rotations and ways back under load without a
// lost or failed message, broken candidates, a broker that is restarted.
package amqplease
