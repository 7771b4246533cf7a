// Package conformance is the one suite that holds a Vault-compatible server to
// what package vault relies on. [Run] runs it against a [Target]: our own
// devvault, and a real OpenBao or Vault, so that what is proven on the fake is
// true of the real thing.
//
// It guarantees that a target which passes treats guards, leases, renewals,
// revocations, KV of both versions, static roles, PKI, logins (AppRole with and
// without wrapping, JWT, Kubernetes, TLS certificates), least policies and
// refusals as design.md says. It says nothing of speed, of a cluster, or of other
// engines. Groups that a target does not claim ([Target].Lacks) are logged.
//
// It needs a root token, makes mounts, policies, roles and tokens under random
// names, and takes them away again. It waits in real time, about a minute in all:
// the TTLs are the shortest that leave a loaded machine, which may stand still for
// two seconds, the time to do what must be done before their end.
//
// Subtests do not share state but the setup, and run one after the other.
package conformance
