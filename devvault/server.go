package devvault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// ErrClosed is returned by a server that was closed.
var ErrClosed = errors.New("devvault is closed")

// Config says how a server behaves. The zero value is usable.
type Config struct {
	// RootToken is the token of the administrator; empty makes a random one,
	// which [Server.RootToken] tells.
	RootToken secret.String
	// Clock decides what has expired and what is issued when; nil is
	// time.Now. An injected clock is looked at every 10 ms: call
	// [Server.Settle] after moving it.
	Clock func() time.Time
	// Accounts is where the database engine creates logins; nil makes a
	// [Directory] on Clock.
	Accounts Accounts
	// Plugins are backends for the databases of one plugin_name, in place of
	// Accounts: {"redis-database-plugin": &Redis{}}.
	Plugins map[string]Accounts
	// Broker is where the RabbitMQ engine creates users; nil makes a
	// [MemoryBroker].
	Broker Broker
	// Logger is told what goes wrong inside; nil discards it. No secret
	// reaches it.
	Logger *slog.Logger

	// DefaultLeaseTTL and MaxLeaseTTL are the limits where neither role nor
	// mount has one; 0 is 768 h each, as OpenBao's.
	DefaultLeaseTTL, MaxLeaseTTL time.Duration
	// RevokeRetryBase paces drops that fail: the n-th attempt (from 1) is
	// followed by a pause of base*2^n, and the sixth is the last. 0 is 1 s
	// (OpenBao: 10 s).
	RevokeRetryBase time.Duration
	// Answered is handed the body of each answer over HTTP, secrets and all, with its
	// path (below /v1/), also of one that a [Fault] keeps back: for a test that
	// looks for them elsewhere. It must not keep the body. nil: nobody is.
	Answered func(path string, body []byte)
	// RequestLog bounds [Server.Requests]; 0 is 10,000.
	RequestLog int

	injectedClock bool
}

func (c *Config) fillIn() {
	if c.RootToken.IsZero() {
		c.RootToken = secret.New("s." + randomBase62(24))
	}
	c.injectedClock = c.Clock != nil
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Accounts == nil {
		c.Accounts = &Directory{Clock: c.Clock}
	}
	if c.Broker == nil {
		c.Broker = &MemoryBroker{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxLeaseTTL == 0 {
		c.MaxLeaseTTL = 768 * time.Hour
	}
	if c.DefaultLeaseTTL == 0 {
		c.DefaultLeaseTTL = min(768*time.Hour, c.MaxLeaseTTL)
	}
	if c.RevokeRetryBase == 0 {
		c.RevokeRetryBase = time.Second
	}
	if c.RequestLog == 0 {
		c.RequestLog = 10_000
	}
}

// Server is a Vault of its own, in memory.
type Server struct {
	cfg Config
	log *slog.Logger

	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup // the expiry goroutine, its jobs, the listener
	wake    chan struct{}  // of the expiry goroutine, capacity 1

	mu         sync.Mutex
	closed     bool
	sealed     bool
	mounts     map[string]*mount
	fixtures   []*mount // listed, and nothing more
	authMounts map[string]*mount
	tokenStore *mount // listed, and nothing more
	policies   map[string]*policy
	tokens     map[string]*token
	accessors  map[string]string // accessor to token id
	children   map[string]map[string]bool
	tokenRoles map[string]*tokenRole
	leases     map[string]*lease
	byToken    map[string]map[*lease]bool
	nextDue    time.Time // the earliest that anything is due; zero is never
	jobs       int       // of the expiry goroutine
	waiting    bool      // something due waits for a job to end
	settled    chan struct{}
	breakNext  int
	counters   Counters
	// serviceAccounts are by token.
	serviceAccounts map[string]ServiceAccount

	traffic traffic
	faults  faults

	http     *http.Server
	url      string
	clusterN string
	cluster  string
}

// New makes a server that is unsealed and serves [Server.ServeHTTP]. The
// caller closes it.
func New(cfg Config) (*Server, error) {
	cfg.fillIn()
	if cfg.DefaultLeaseTTL > cfg.MaxLeaseTTL {
		return nil, fmt.Errorf("devvault: default lease TTL %s is above the maximum %s: lower it", cfg.DefaultLeaseTTL, cfg.MaxLeaseTTL)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), settled: make(chan struct{}),
		mounts: map[string]*mount{}, fixtures: fixedMounts(), policies: map[string]*policy{}, tokens: map[string]*token{}, accessors: map[string]string{},
		children: map[string]map[string]bool{}, tokenRoles: map[string]*tokenRole{},
		authMounts: map[string]*mount{}, tokenStore: tokenMount(), serviceAccounts: map[string]ServiceAccount{},
		leases: map[string]*lease{}, byToken: map[string]map[*lease]bool{},
		clusterN: "vault-cluster-" + randomBase62(8), cluster: randomUUID(),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.traffic.limit = cfg.RequestLog
	rules, err := parsePolicy(defaultPolicy)
	if err != nil {
		return nil, fmt.Errorf("devvault: the default policy: %w", err)
	}
	s.policies["default"] = &policy{name: "default", raw: defaultPolicy, rules: rules, version: 1, modified: s.now()}
	kv, err := s.newMount("secret/", "kv", map[string]string{"version": "2"})
	if err != nil {
		return nil, fmt.Errorf("devvault: mounting secret/: %w", err)
	}
	kv.description = "key/value secret storage"
	s.mounts["secret/"] = kv
	now := s.now()
	s.addToken(&token{
		id: cfg.RootToken, policies: []string{"root"}, path: "auth/token/create", display: "token", created: now, issued: now,
	})
	s.counters = Counters{}
	s.running.Add(1)
	go s.expire()
	return s, nil
}

func (s *Server) now() time.Time { return s.cfg.Clock() }

// RootToken is the administrator's.
func (s *Server) RootToken() secret.String { return s.cfg.RootToken }

// Accounts is the backend in use.
func (s *Server) Accounts() Accounts { return s.cfg.Accounts }

// Start listens on addr ("127.0.0.1:0" picks a free port) and serves until
// Close. It may be called once.
func (s *Server) Start(addr string) error {
	return s.listen(addr, "http://", func(l net.Listener) net.Listener { return l })
}

// serveOn serves a listener until Close. The caller holds s.mu.
func (s *Server) serveOn(l net.Listener, url string) {
	s.url = url
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("devvault stopped listening", "error", err)
		}
	}()
}

// URL is where the server listens, "" before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Close ends the listener, its connections and all goroutines, and waits for
// them. Accounts stay as they are, like after a crash of a real server.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	h := s.http
	s.mu.Unlock()
	s.end()
	if h != nil {
		_ = h.Close()
	}
	s.traffic.wait()
	s.running.Wait()
}

// Seal makes everything answer 503 until Unseal, and stops expiry: what runs
// out meanwhile goes at Unseal.
func (s *Server) Seal() { s.setSealed(true) }

// Unseal ends Seal.
func (s *Server) Unseal() { s.setSealed(false) }

func (s *Server) setSealed(sealed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = sealed
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// BreakNextAccounts makes the next n database accounts unusable: their
// password is not the one that is answered, so that a login fails.
func (s *Server) BreakNextAccounts(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakNext = n
}
