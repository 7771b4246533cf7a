package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/leasesvc/leasesvc/events"
)

// Config is a service file that was read and found right. Every path in it is
// absolute or counts from the service file's directory; every default is
// filled in.
type Config struct {
	// File is the service file's name as it was given.
	File string
	NATS NATS
	// StateDir is where the service keeps what outlives it on this machine.
	StateDir string
	SealKey  SealKey
	// Vaults are the Vault connections by name, at least one (D4).
	Vaults map[string]Vault
	// Scopes are the scopes this instance leads or stands by for, at least one.
	Scopes map[string]Scope
	HTTP   HTTP
	// Metrics says what Prometheus is shown.
	Metrics Metrics
	Log     Log
	// Tracing says where spans go; nil: the file does not ask for any.
	Tracing *Tracing
	// InsecureConsumers allows consumers without a key; their answers are then
	// not signed.
	InsecureConsumers bool
	// VerifierCommands are the programs that a verifier of kind command may
	// run; a definitions file can come from an operator far away.
	VerifierCommands []string
	// ExitOnFence ends the process when it is fenced, instead of standing by
	// (E17).
	ExitOnFence bool
	// Heartbeat is the pace of the holder cell.
	Heartbeat events.Seconds
	// OperationTimeout bounds a single operation on NATS.
	OperationTimeout events.Seconds
	// ShutdownTimeout bounds a clean stop (E18).
	ShutdownTimeout events.Seconds
	// Project is the owner that a scope's claim must name (E15); "": no claim
	// is read.
	Project string

	places map[string]Position
}

// NATS says how to reach NATS: URL and what goes with it, or Embedded.
type NATS struct {
	// URL is one server or several with commas between them; "" if Embedded.
	URL string
	// Embedded is the server to run in the process; nil if there is a URL.
	Embedded *Embedded
	// At most one way to log in is set. User comes with PasswordFile.
	CredentialsFile, NKeySeedFile, TokenFile, User, PasswordFile string
	TLS                                                          TLS
	// Replicas of the stream and the buckets: 1, 3 or 5.
	Replicas int
	// Stream is the stream's name.
	Stream string
	// MaxBytes is the stream's limit.
	MaxBytes int64
}

// Embedded is a NATS server in the process.
type Embedded struct {
	// Listen is its address, host:port; port 0 takes a free one.
	Listen string
	// Store is its JetStream directory.
	Store string
}

// TLS names the PEM files of a connection. Cert and Key come together.
type TLS struct {
	CA, Cert, Key string
	// ServerName is what the server's certificate must be for, if not its
	// address's host.
	ServerName string
	// SkipVerify accepts any certificate; for trying things out.
	SkipVerify bool
	// CAPEM is what CA would hold, CAPath a directory of such files; at most one
	// of the three is set, and both only of a connection to Vault.
	CAPEM, CAPath string
}

// SealKey says where the key is that seals values at rest: File or Env. Previous
// are further keys, which open and do not seal: the one before, or the next one.
type SealKey struct {
	File, Env string
	Previous  []SealKey
}

// Scope is what a scope needs to be led.
type Scope struct {
	// Definitions is the definitions file.
	Definitions string
	Documents   Documents
}

// Documents says what the settings documents of a scope may refer to.
type Documents struct {
	// Vault is the connection that vault:// references are read by; "": none.
	Vault string
	// Environment are the variables that env:// references may name. Whoever
	// may write a document can read each of them.
	Environment []string
	// Poll is how often secrets without lease are read again.
	Poll events.Seconds
	// Wait bounds how long an update waits for a hand-over (L43).
	Wait events.Seconds
}

// HTTP says where the page (web) is served, and what it asks of who looks. An
// address that others than this machine reach has TLS and a login, or says
// Insecure.
type HTTP struct {
	Listen string
	// Cert and Key are the server's, PEM files; both or none. ClientCA has the
	// authorities of the client certificates that may look.
	Cert, Key, ClientCA string
	// TokenFile holds a token that lets its bearer look.
	TokenFile string
	// Insecure serves an exposed address without TLS or without a login.
	Insecure bool
}

// Metrics says what is exposed of the metrics: PerLease is how many names a scope
// may have and still get series of each name; 0: it never does.
type Metrics struct{ PerLease int }

// Log says how the service logs: Format text or json, Level debug, info, warn
// or error.
type Log struct{ Format, Level string }

// Load reads a service file. What is wrong with it comes back as [*Errors].
func Load(file string) (*Config, error) {
	src, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, src)
}

// Parse reads a service file from src; file is its name in errors, and its
// directory is what relative paths count from. What is wrong comes back as
// [*Errors], each with a position.
func Parse(file string, src []byte) (*Config, error) {
	root, errs := parseTree(file, src)
	if root == nil {
		return nil, inFileOrder(errs)
	}
	d := &decoder{file: file, dir: filepath.Dir(file), errs: errs, places: map[string]Position{}}
	c := defaults()
	c.File, c.places = file, d.places
	if root.kind == nothing {
		d.failAt(Position{1, 1}, "", "the file is empty; needed: %s (see docs/configuration.md)", "nats, state_dir, seal_key, vaults, scopes")
	} else {
		c.shape().read(d, root, place{Position: Position{1, 1}})
		c.settleVaults(d)
		c.settleDocuments(d)
	}
	if err := inFileOrder(d.errs); err != nil {
		return nil, err
	}
	if e := c.NATS.Embedded; e != nil && e.Store == "" {
		e.Store = filepath.Join(c.StateDir, "nats")
	}
	return c, nil
}

// defaults is what a service file can leave out.
func defaults() *Config {
	return &Config{
		NATS:             NATS{Replicas: 1, Stream: "LEASESVC", MaxBytes: 1 << 30},
		Vaults:           map[string]Vault{},
		Scopes:           map[string]Scope{},
		HTTP:             HTTP{Listen: "127.0.0.1:8250"},
		Metrics:          Metrics{PerLease: 10_000},
		Log:              Log{Format: "text", Level: "info"},
		Heartbeat:        events.MustSeconds("0.5"),
		OperationTimeout: events.WholeSeconds(10),
		ShutdownTimeout:  events.WholeSeconds(10),
	}
}

// VaultNames gives the names of the Vault connections, sorted.
func (c *Config) VaultNames() []string { return slices.Sorted(maps.Keys(c.Vaults)) }

// ScopeNames gives the names of the scopes, sorted.
func (c *Config) ScopeNames() []string { return slices.Sorted(maps.Keys(c.Scopes)) }

// LoadDefinitions reads the definitions file of a scope under the rules of
// this service file: its Vault connections, its insecure_consumers and
// verifier_commands.
func (c *Config) LoadDefinitions(scope string, opts ...Option) (*Definitions, error) {
	s, ok := c.Scopes[scope]
	if !ok {
		return nil, c.Refuse("scopes", "there is no scope %q; known: %v", scope, c.ScopeNames())
	}
	return LoadDefinitions(s.Definitions, c.VaultNames(), append([]Option{InsecureConsumers(c.InsecureConsumers), VerifierCommands(c.VerifierCommands)}, opts...)...)
}

// Refuse gives an error at a key of the file, for what only shows later (an
// unreadable seal key, say): key is a path such as "seal_key.file". A key that
// is not in the file counts as the nearest one around it. The result is an
// [*Errors].
func (c *Config) Refuse(key, format string, args ...any) error {
	at := Position{1, 1}
	for k := key; k != ""; k = parent(k) {
		if p, ok := c.places[k]; ok {
			at = p
			break
		}
	}
	return &Errors{List: []*Error{{File: c.File, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)}}}
}

// parent gives the path of the key around key.
func parent(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '.' {
			return key[:i]
		}
	}
	return ""
}
