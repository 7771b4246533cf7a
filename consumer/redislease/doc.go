// Package redislease is a go-redis client whose credential rotates underneath
// it: a [Client] has the commands of a redis.Client and takes part in the
// hand-overs of a name.
//
// Start with [New]. In a hand-over a second client is opened with the candidate
// and proven by a login (the server must say that the connection is the
// candidate's user's); then new commands go there. On commit the old client is
// closed as soon as its last command has its answer, and only then the hand-over
// is confirmed: Redis ends the connections of a user that is deleted, so nothing
// may be in flight on them by then. On a way back new commands return to the old
// client, which is still open. Two clients are kept rather than connections
// logged in anew (go-redis's StreamingCredentialsProvider), since a connection
// that has changed its user cannot go back if the new one is refused.
//
// Guarantees: no command, pipeline or transaction fails because the credential
// changed under it, each runs on the one or the other client as a whole; a
// confirmation means that no connection of another lease is open. A subscription
// ([Client.Subscribe]) moves by itself and misses nothing that was published
// while it did: the new connection is subscribed before the old one ends. A login
// that the server refuses is reported to the service (C58). No password is in any
// error or log line of this package.
//
// It does not bound a command: one that blocks for ever (BLPOP without a
// time-out) keeps its old user in use until the service's retire_after. What is
// published just while a subscription moves can come twice. Cluster and sentinel
// clients have no adapter. Client-side caching is not kept over a rotation.
//
// A Client is safe for concurrent use. [Client.Close] waits for its goroutines.
//
// Tested with a private Redis: rotations and ways back under load without a
// failed command or a lost message, broken candidates, transactions.
package redislease
