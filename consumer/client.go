package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

// Options say who the consumer is and where its service is.
type Options struct {
	// Conn is a connection to use; it stays the caller's. Else URL is
	// connected to, with NATS as further options, and closed by
	// [Client.Close].
	Conn *nats.Conn
	URL  string
	NATS []nats.Option

	// Scope is the scope of the names.
	Scope string
	// Consumer is the application's name in the definitions.
	Consumer string
	// Instance is a stable name of this copy of it, such as a pod's ordinal:
	// a promise that one process at a time uses it, so that a restart takes
	// its predecessor's place at once. Empty: random, and a predecessor that
	// died is waited for until leave_after.
	Instance string
	// Seed is the seed of the consumer's user nkey (SU...). Empty only with
	// Insecure.
	Seed secret.String
	// ServiceKey is the service's public curve key (X...), pinned. Empty only
	// with Insecure: the key that answers first is trusted.
	ServiceKey string
	// ServiceKeys are further keys that are pinned: while the service's key is
	// being replaced, the old one and the new one are.
	ServiceKeys []string
	// Insecure allows to leave Seed and ServiceKey out. Values are sealed all
	// the same; who they come from and go to is not proven.
	Insecure bool

	// Logger gets what happens, never a value; nil: nothing is logged.
	Logger *slog.Logger
	// TracerProvider gets a span for each call of the handler, below the
	// service's span of the hand-over; the call's context carries it. Nil:
	// nothing is traced, also where OpenTelemetry's global provider is set;
	// give otel.GetTracerProvider() to use that one. See docs/tracing.md.
	TracerProvider trace.TracerProvider

	// RegisterEvery is how often a registered incarnation registers again, in
	// case it was taken for gone. 1 min by default.
	RegisterEvery time.Duration
	// VerdictGrace is how long after a prepare's deadline the outcome is
	// waited for before the incarnation asks by registering again. 5 s by
	// default (the usual budget of a roll back).
	VerdictGrace time.Duration
	// LeaveTimeout bounds the good-bye when Serve ends. 10 s by default.
	LeaveTimeout time.Duration
}

// What a call can meet, for errors.Is. The error also holds the service's
// [wire.Refusal], for errors.As.
var (
	// ErrNone: the name has no committed credential yet.
	ErrNone = errors.New("no credential is committed yet")
	// ErrExpired: the committed credential has expired.
	ErrExpired = errors.New("the credential has expired")
	// ErrUnknownName: no definition has the name.
	ErrUnknownName = errors.New("unknown name")
	// ErrUnknownKey: the credential has no such key.
	ErrUnknownKey = errors.New("unknown key")
	// ErrUnavailable: nobody who holds the scope answered in time.
	ErrUnavailable = errors.New("the service does not answer")
	// ErrRefused: any other refusal, such as a consumer that is not named in
	// the definition.
	ErrRefused = errors.New("refused by the service")
	// ErrSuperseded: another process registered with our instance's name.
	ErrSuperseded = errors.New("another incarnation took this instance's place")
	// ErrServing: the client serves the name already.
	ErrServing = errors.New("the name is being served by this client already")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("the client is closed")
)

// Client is a consumer's access to one scope.
type Client struct {
	opts     Options
	nc       *nats.Conn
	ownsConn bool
	log      *slog.Logger
	instance string
	// signer is nil in an insecure client without a seed.
	signer    nkeys.KeyPair
	signerKey string
	// box opens the answers to Get, which are sealed to xkey.
	box    *wire.Box
	xkey   string
	trust  trust
	latest latest
	// tracer is nil where nothing is traced.
	tracer trace.Tracer

	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// serving has the registered incarnation of each name that is served;
	// empty before the first answer.
	serving map[string]string
}

// Connect checks the options and connects. It asks the service nothing yet, so
// it works while the service is away. ctx is not kept.
func Connect(_ context.Context, opts Options) (*Client, error) {
	c := &Client{opts: opts, log: opts.Logger, serving: map[string]string{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if opts.TracerProvider != nil {
		c.tracer = opts.TracerProvider.Tracer(tracerName)
	}
	c.opts.RegisterEvery = orElse(opts.RegisterEvery, time.Minute)
	c.opts.VerdictGrace = orElse(opts.VerdictGrace, 5*time.Second)
	c.opts.LeaveTimeout = orElse(opts.LeaveTimeout, 10*time.Second)
	if err := errors.Join(c.checkNames(), c.readKeys()); err != nil {
		return nil, fmt.Errorf("connecting a consumer: %w", err)
	}
	var err error
	if c.nc = opts.Conn; c.nc == nil {
		natsOpts := append([]nats.Option{nats.Name("leasesvc consumer " + opts.Consumer), nats.MaxReconnects(-1)}, opts.NATS...)
		if c.nc, err = nats.Connect(opts.URL, natsOpts...); err != nil {
			return nil, fmt.Errorf("connecting a consumer to NATS: %w", err)
		}
		c.ownsConn = true
	}
	c.life, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func (c *Client) checkNames() error {
	c.instance = c.opts.Instance
	if c.instance == "" {
		id, err := wire.NewIncarnation(time.Now(), "")
		if err != nil {
			return err
		}
		c.instance = id
	}
	return errors.Join(
		wire.CheckToken("scope", c.opts.Scope),
		wire.CheckToken("consumer", c.opts.Consumer),
		wire.CheckToken("instance", c.instance))
}

func (c *Client) readKeys() (err error) {
	if c.opts.Seed.IsZero() {
		if !c.opts.Insecure {
			return errors.New("no seed: give the seed of the consumer's user nkey, or set Insecure")
		}
	} else {
		prefix, _, seedErr := nkeys.DecodeSeed([]byte(c.opts.Seed.Reveal()))
		if seedErr != nil || prefix != nkeys.PrefixByteUser {
			return errors.New("the seed is not that of a user nkey (SU..., as `nk -gen user` prints it)")
		}
		if c.signer, err = nkeys.FromSeed([]byte(c.opts.Seed.Reveal())); err != nil {
			return errors.New("the seed is not that of a user nkey (SU...)")
		}
		if c.signerKey, err = c.signer.PublicKey(); err != nil {
			return errors.New("the seed has no public key")
		}
	}
	for _, key := range append([]string{c.opts.ServiceKey}, c.opts.ServiceKeys...) {
		if key != "" && !slices.Contains(c.trust.pinned, key) {
			c.trust.pinned = append(c.trust.pinned, key)
		}
	}
	switch {
	case len(c.trust.pinned) == 0 && !c.opts.Insecure:
		return errors.New("no service key: pin the service's public curve key (`leasesvc status` shows it), or set Insecure")
	case slices.ContainsFunc(c.trust.pinned, func(key string) bool { return !wire.IsPublicXKey(key) }):
		return errors.New("the service key is not a public curve key (X...)")
	case len(c.trust.pinned) > wire.MaxPinned:
		return fmt.Errorf("%d service keys: at most %d can be pinned", len(c.trust.pinned), wire.MaxPinned)
	}
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return fmt.Errorf("making a curve key: %w", err)
	}
	if c.xkey, err = pair.PublicKey(); err != nil {
		return err
	}
	c.box, err = wire.NewBox(pair)
	return err
}

// Close ends what the client runs, waits for it, and closes the connection if
// the client made it. Serve says its good-byes first.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	if c.ownsConn {
		c.nc.Close()
	}
}

// begin counts a piece of work that Close waits for; its context ends with
// either ctx or the client.
func (c *Client) begin(ctx context.Context) (context.Context, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	c.work.Add(1)
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return both, func() { stop(); cancel(); c.work.Done() }, nil
}

// trust is which service keys are believed: the pinned ones, or, in an insecure
// client, the first that answered.
type trust struct {
	pinned []string
	mu     sync.Mutex
	met    []string
}

func (t *trust) known() []string {
	if t.pinned != nil {
		return t.pinned
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.met
}

// meet believes a key that was met, beside the one that was met before; forget
// ends that.
func (t *trust) meet(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.met; len(before) > 0 && before[0] != key {
		t.met = []string{key, before[0]}
	} else if len(before) == 0 {
		t.met = []string{key}
	}
}

func (t *trust) forget() { t.mu.Lock(); t.met = nil; t.mu.Unlock() }

// serviceKeys gives the keys to open with, asking for one when none is pinned.
func (c *Client) serviceKeys(ctx context.Context) ([]string, error) {
	if keys := c.trust.known(); keys != nil {
		return keys, nil
	}
	met, err := c.askKey(ctx)
	if err != nil {
		return nil, err
	}
	c.trust.meet(met)
	c.log.Warn("trusting the service key that answered first; pin it", "scope", c.opts.Scope, "service_key", met)
	return c.trust.known(), nil
}

func (c *Client) askKey(ctx context.Context) (met string, err error) {
	err = c.ask(ctx, nats.NewMsg(wire.KeySubject(c.opts.Scope)), func(data []byte) error {
		k, err := wire.Decode[wire.Key](data)
		met = k.XKey
		return err
	})
	if err != nil {
		return "", fmt.Errorf("asking for the service's key: %w", err)
	}
	return met, nil
}

// meetAgain has a client that pins no key notice, before it registers, that the
// service's is being replaced: what comes under the new one is taken too.
func (c *Client) meetAgain(ctx context.Context) {
	known := c.trust.known()
	if c.trust.pinned != nil || len(known) == 0 {
		return
	}
	met, err := c.askKey(ctx)
	if err != nil || met == known[0] {
		return // who does not answer this does not answer the registration
	}
	c.trust.meet(met)
	c.log.Warn("the service has another key now; trusting it", "scope", c.opts.Scope, "service_key", met)
}
