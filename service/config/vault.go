package config

import (
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/secret"
)

// Vault is a connection to Vault or OpenBao. At most one of Login and the Token
// fields is set; none: the token comes from the environment or ~/.vault-token.
type Vault struct {
	Address, Namespace string
	// Environment tells that the VAULT_ and BAO_ variables win over what stands
	// here; where the file does not say, they do for a connection that is the
	// only one or is named default.
	Environment         bool
	Login               Login
	TokenFile, TokenEnv string
	Token               secret.String
	// GuardRole is the token role of guards; "": work without guards.
	GuardRole string
	// GuardTTL is how long a guard lives until it is extended.
	GuardTTL events.Seconds
	// Timeout bounds a single request.
	Timeout events.Seconds
	// Retries is how often what may be sent twice is repeated at once, 0 to 10.
	Retries int
	// VerifyRevocations has every lease looked up after it was revoked.
	VerifyRevocations bool
	TLS               TLS
	Limits            VaultLimits

	environment *bool // what the file says
	http        bool  // the address has no TLS
}

// Login is an auth method to get the token from; at most one is set.
type Login struct {
	AppRole    *AppRole
	Kubernetes *Kubernetes
	Cert       *Cert
	JWT        *JWT
}

// AppRole logs in with a role id and, where the role wants one, a secret id.
// One of RoleID and RoleIDFile is set, and at most one of the secret id's.
type AppRole struct {
	Mount                     string
	RoleID                    secret.String
	RoleIDFile                string
	SecretIDFile, SecretIDEnv string
	// Wrapped: the secret id is in a response-wrapping token.
	Wrapped bool
}

// Kubernetes logs in with a service account's token.
type Kubernetes struct{ Mount, Role, TokenFile string }

// Cert logs in with the certificate of the connection's TLS.
type Cert struct{ Mount, Role string }

// JWT logs in with a signed token; one of TokenFile and TokenEnv is set.
type JWT struct{ Mount, Role, TokenFile, TokenEnv string }

// VaultLimits bound what a connection asks of its server. Zero is no bound for
// Rate, half of InFlight for PerMount.
type VaultLimits struct {
	InFlight, PerMount    int
	Rate, RecoveryRate    float64
	ProbeFirst, ProbeLast events.Seconds
}
