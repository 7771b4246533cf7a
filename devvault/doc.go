// Package devvault is an embedded HTTP server that speaks the part of the
// Vault and OpenBao API that leasesvc uses, with their semantics: tokens,
// leases, policies, the database engine and KV. `leasesvc dev` runs one, and
// the tests of this module run many.
//
// Which function do I call: [New] makes a [Server], which is an http.Handler;
// [Server.Start] makes it listen, [Server.Do] configures it as root through
// the API itself, [Server.Inject] makes it misbehave, [Server.Close] ends it.
// Accounts that the database engine hands out live in an [Accounts] backend:
// a [Directory] in memory, or a real database through [NewPostgres].
//
// # What it guarantees
//
// Paths, status codes, JSON fields and error texts are OpenBao's. A lease
// hangs on the token that asked for it: when that token expires or is revoked,
// its children and all their leases go, and the accounts with them. TTLs are
// computed as OpenBao computes them, warnings included. A drop that fails is
// tried again with back-off and becomes an irrevocable lease in the end, which
// a lookup shows. What is mounted at start is what `bao server -dev` mounts:
// KV version 2 at secret/, and nothing else.
//
// # What it does not
//
// Nothing is stored: a restart loses everything. A namespace header is
// accepted and recorded, and separates nothing. No identity, no response
// wrapping, no auth method but tokens, no audit devices, no quotas, no
// clustering. Of a policy, paths and capabilities count; conditions on
// parameters are ignored. Texts about input that cannot be converted are
// shorter than OpenBao's. A role without creation statements gets a default one (OpenBao
// refuses the read). It must not be used for secrets that matter.
//
// # Concurrency
//
// Everything may be called from any goroutine. One mutex guards the state and
// is never held while an account is created, extended or dropped. One
// goroutine, owned by the server, expires tokens and leases; at most
// [maxDrops] accounts are dropped by it at a time. [Server.Close] waits for
// all of them.
//
// # How it is tested
//
// Each rule with an injected clock through the HTTP API; policies by table;
// PostgreSQL accounts on a private server. The conformance suite of package
// vault runs on this server and on a real OpenBao.
package devvault
