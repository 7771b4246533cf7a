// Package vault is the narrow client of Vault and OpenBao: it logs in (with a
// token, AppRole, Kubernetes, a TLS certificate or a JWT), makes guards, reads
// credentials, renews and revokes leases, tells the kinds of error apart, and
// keeps an outage from costing a request per lease.
//
// Which function do I call?
//
//   - [New], then [Client.Login] once and [Client.Run] for as long as the client
//     is used: Run keeps the token alive and picks up a new one.
//   - To acquire: [Client.CreateGuard], one [Client.Read] with that guard,
//     [Client.ExtendGuard] once the lease is on record. A read that failed is
//     never repeated under the same guard (P5): make a new one.
//   - To keep: [Client.RenewLease] and [Client.ExtendGuard].
//   - To give back: [Client.RevokeLease], then [Client.RevokeGuard].
//   - [KindOf] says what an error means, [Error] has the particulars.
//   - [Environment] and [Config.Override] put the environment and flags over a
//     configuration. [WithUrgency] says what a call is about ends when.
//   - [Client.Circuit] tells whether the server is out; Config.OnCircuit when that
//     changes. [Client.CheckGuard], [Policy], [GuardPolicy], [TokenRole] and
//     [Setup] are for a doctor.
//
// # Guarantees
//
//   - A credential read and the creation of a guard are one request each that can
//     take effect. Nothing below repeats them: the API client's retries are off,
//     and each uses a connection of its own, because Go repeats a GET by itself
//     when a connection that it kept alive is dropped (P5, C30). The one
//     exception takes no effect: a 307 of a standby is followed once. Logins and
//     the unwrapping of a secret id are sent once too.
//   - A read under a guard that a deadline or the caller gives up is not broken
//     off: a server that is, in the middle of it, can leave an account without a
//     lease. It goes on until shortly before its guard's end, or until
//     [Client.Close]. So such a guard is left to expire, not revoked.
//   - An [Error] with OutcomeUnknown set means that the request may have taken
//     effect unseen. Without it, the server was never asked, or itself said no.
//   - Lease durations are read from the JSON text, never through a float or an
//     int, and are clamped to [0, 10 years]; what was changed is said (C15).
//   - The data of a credential is given as the exact bytes that came. An answer
//     with duplicate keys, invalid UTF-8 or no data is refused (C57).
//   - No token and nothing that looks like one is in an error, a warning or a log
//     line. [Grant] and [Renewal] print without their data.
//   - The namespace is on every request, those for guards and revocations
//     included (C27), but for [Client.Health], which servers refuse in one.
//   - The environment decides nothing but the token of a connection that has
//     none, in the order that [Client.Login] gives, unless [Config.Override] puts
//     it in. In particular no proxy is taken from it.
//   - While the server is out (unreachable, sealed, standing by, a gateway without
//     a server, or six doubtful answers in a row from three mounts) calls fail at
//     once with Error.NotSent, and one call at a time probes. After it, calls go
//     by urgency, bounded, and at a growing rate (C13). One path that fails does
//     not put the server out (C45).
//
// # Not guaranteed
//
//   - There is no retry here but that of 412 for look-ups and Config.Retries for
//     what may be sent twice, and no pace of the single lease: that belongs to the
//     caller, who knows what it still has to live.
//   - A CA file is read once, at [New].
//   - [Client.RevokeLease] says "gone" when the server does; some servers answer
//     an unknown lease as if they had revoked it.
//   - Malformed VAULT_ variables of the environment make [New] return an error,
//     since the API client looks at them before it can be told not to.
//
// # Concurrency
//
// A [Client] may be used by any number of goroutines. It starts one for each read
// under a guard, which ends with the read or with Close: Run is the caller's, and probes are made by the calls themselves (a timer's short callback
// lets waiting calls go when a rate allows). At most one Run at a time. Calls that
// wait for their turn end with their context.
//
// # Tests
//
// Every rule and case has a test against a real HTTP or TCP server of the
// standard library that misbehaves as told. The package conformance holds one
// suite that runs against our own fake and against a real server.
package vault
