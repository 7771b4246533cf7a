package epochkv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of a Config.
const (
	DefaultBucket         = "leasesvc_epochs"
	DefaultHeartbeat      = 500 * time.Millisecond
	DefaultQuietPolls     = 6
	DefaultRequestTimeout = time.Second
)

// Config says where the cells are and how patient we are.
type Config struct {
	Bucket        string // default DefaultBucket
	Replicas      int    // of a bucket that is created; above 0 also checked
	Create        bool   // create the bucket when it is absent
	FirstRevision uint64 // of a bucket that is created; 0: 1

	State    *StateDir // required; stays the caller's to close
	Instance string    // a name for people, in the holder cell
	Version  string    // of the program, in every cell

	Heartbeat      time.Duration // default DefaultHeartbeat; the pace of Renew and ClaimStep
	QuietPolls     int           // default DefaultQuietPolls; observations after the first sight
	RequestTimeout time.Duration // of one request to the store, default DefaultRequestTimeout

	// Presence asks whether anybody serves the holder's presence subject
	// (E22). An error is no answer. nil: only the quiet polls count.
	Presence func(ctx context.Context, holder string) (noResponders bool, err error)

	Logger *slog.Logger // default: nothing is logged

	now   func() time.Time  // tests
	store func(store) store // tests: faults between
}

func (c *Config) setDefaults() error {
	if c.State == nil {
		return errors.New("configuring the epoch cells: no state directory; open one with OpenStateDir")
	}
	if c.Heartbeat < 0 || c.QuietPolls < 0 || c.RequestTimeout < 0 || c.Replicas < 0 {
		return errors.New("configuring the epoch cells: a negative heartbeat, quiet polls, request timeout or replicas")
	}
	if c.Bucket == "" {
		c.Bucket = DefaultBucket
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.QuietPolls == 0 {
		c.QuietPolls = DefaultQuietPolls
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	return nil
}

// Cells are the holder cell of this instance and the cells of the scopes.
type Cells struct {
	cfg   Config
	js    jetstream.JetStream
	store store
	dir   *StateDir
	id    string // our holder id
	stats stats

	holding chan struct{} // a lock of one: StartHolder, Renew, StopHolder

	mu      sync.Mutex
	me      *holding            // nil: no live holder cell
	fence   error               // the last *Fenced, nil after StartHolder
	leases  map[string]uint64   // scope: the epoch we claimed and have not dropped
	watched map[string]*watched // holder id: what we see of its cell
	paused  [2]time.Time        // first refusal of our credentials (E12), by request
	made    time.Time           // creation time of the bucket
}

// Open binds the bucket (or creates it, if Config.Create), checks its
// settings, and probes it (E20). It returns *WrongSettings, ErrNoBucket,
// ErrIgnoresCAS or ErrStaleReads for what an operator has to put right.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Cells, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	stream, err := bind(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the epoch cells: %w", err)
	}
	var st store = &bucketStore{js: js, bucket: cfg.Bucket, stream: stream, timeout: cfg.RequestTimeout}
	if cfg.store != nil {
		st = cfg.store(st)
	}
	if err := probe(ctx, st, cfg.Heartbeat/4); err != nil {
		return nil, fmt.Errorf("opening the epoch cells: %w", err)
	}
	c := &Cells{
		cfg: cfg, js: js, store: st, dir: cfg.State, id: cfg.State.Holder(),
		holding: make(chan struct{}, 1),
		leases:  map[string]uint64{},
		watched: map[string]*watched{},
	}
	c.bindBucket(stream.CachedInfo().Created)
	if err := c.dir.flush(cfg.now()); err != nil {
		return nil, fmt.Errorf("opening the epoch cells: %w", err)
	}
	return c, nil
}

// HolderID is our holder id, the last token of our holder cell's key.
func (c *Cells) HolderID() string { return c.id }

// BucketCreated is the creation time of the bucket's stream: with it, an
// epoch names one revision for good.
func (c *Cells) BucketCreated() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// QuietWindow is how long a holder may be silent before it can be deposed by
// quiet polls.
func (c *Cells) QuietWindow() time.Duration {
	return time.Duration(c.cfg.QuietPolls) * c.cfg.Heartbeat
}

// Held returns the epoch we hold of scope, 0 when we don't.
func (c *Cells) Held(scope string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leases[scope]
}

// Drop forgets our claim of scope without telling the store: for a holder that
// the fence refused. The cell stays as it is.
func (c *Cells) Drop(scope string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, scope)
}

func (c *Cells) bindBucket(created time.Time) {
	c.mu.Lock()
	c.made = created
	c.mu.Unlock()
	c.dir.bindBucket(c.cfg.Bucket, created)
}

// acquire takes a lock of one, or gives up with ctx.
func acquire(ctx context.Context, lock chan struct{}) error {
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get and put are the store, with the pause (E12) noted on the way.

func (c *Cells) get(ctx context.Context, key string) (entry, error) {
	e, err := c.store.get(ctx, key)
	c.noteAuthorization(err, read)
	return e, err
}

func (c *Cells) put(ctx context.Context, key string, expected uint64, cell any) (uint64, error) {
	rev, err := c.store.put(ctx, key, expected, encodeCell(cell))
	c.noteAuthorization(err, write)
	return rev, err
}
