// Package devvault is an embedded HTTP server that speaks the part of the
// Vault and OpenBao API that leasesvc uses, with their semantics: tokens,
// logins, leases, policies, response wrapping, and the engines database,
// RabbitMQ, PKI and KV. `leasesvc dev` runs one, and the tests of this module
// run many.
//
// Which function do I call: [New] makes a [Server], which is an http.Handler;
// [Server.Start] or [Server.StartTLS] makes it listen, [Server.Do] configures
// it as root through the API itself, [Server.Inject] makes it misbehave,
// [Server.Close] ends it. Accounts that the database engine hands out live in
// an [Accounts] backend: a [Directory] in memory, or a real server through
// [NewPostgres], [MySQL] or [Redis]; the RabbitMQ engine's in a [Broker]: a
// [MemoryBroker], or a real one through [RabbitMQ].
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
// Logins: AppRole; JWT with static public keys; Kubernetes, with
// [Server.TrustServiceAccount] in place of a cluster; TLS certificates. A
// token of theirs is renewed within what its role says today, one of a
// certificate only over a connection with that very certificate. A wrapping
// token is good for one request of any kind: who tries it elsewhere spends it.
//
// # What it does not
//
// Nothing is stored: a restart loses everything. A namespace header is
// accepted and recorded, and separates nothing. No identity (an entity id is
// empty), no cubbyhole, no audit devices, no quotas, no clustering; no binding
// of tokens or secret ids to addresses (kept and read back); no JWKS, OIDC or
// groups; no CRL check of client certificates. Of PKI: one issuer, a root; no
// intermediates, no signing of requests, no ACME. Of AppRole: a role as a
// whole, not its fields one by one. Of a policy, paths and capabilities count;
// conditions on parameters are ignored. Texts about input that cannot be
// converted are shorter than OpenBao's. A role without creation statements gets
// a default one (OpenBao refuses the read). It must not be used for secrets
// that matter.
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
// accounts of PostgreSQL, MariaDB, Redis and RabbitMQ on private servers. The
// conformance suite of package vault runs on this server and on a real OpenBao.
package devvault
