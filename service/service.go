package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/service/metrics"
	"github.com/leasesvc/leasesvc/snapshot"
)

// Options are what a caller of [New] adds to the configuration.
type Options struct {
	// Version is the program's, shown to others.
	Version string
	// Logger gets a line an event and all that a person should know; nil:
	// nothing is logged.
	Logger *slog.Logger
	// OnEvent, if set, is called with every event of the scopes this instance
	// leads, after it was applied. It must not block.
	OnEvent func(events.Event)
	// TracerProvider, if set, gets the spans of hand-overs (docs/tracing.md). One
	// that makes its ids by [tracing.IDs] and samples by the trace's id alone lets
	// instances that take over from each other make one trace.
	TracerProvider trace.TracerProvider
	// OnHTTP, if set, has the HTTP address served and is called with its URL when
	// it is.
	OnHTTP func(url string)
}

// Service is one instance: New it, Run it.
type Service struct {
	cfg   *config.Config
	opts  Options
	log   *slog.Logger
	clock *clock
	// started is when New was called, on the holder's clock.
	started time.Time
	keys    *handover.Keyring

	embedded *server.Server
	nc       *nats.Conn
	js       jetstream.JetStream
	journal  *journal.Log
	state    *epochkv.StateDir
	cells    *epochkv.Cells
	blobs    *handover.Blobs
	// snapshots is nil where there can be none.
	snapshots *snapshot.Store
	savePace  savePace
	courier   *handover.Courier
	vaults    map[string]*vaultConn
	scopes    map[string]*scope
	presence  *nats.Subscription
	// freshness is that of the renewal that readers saw last.
	freshness atomic.Pointer[freshness]
	// lookers counts the scopes of which a standby asks who serves them.
	lookers atomic.Int64
	ahead   chan ahead

	beforeFeed   func()                     // tests: holds the followers up
	beforeReseal func() error               // tests: keeps values from being sealed anew
	beforeAppend func([]events.Event) error // tests: has an append fail
	page         *page

	metrics *metrics.Metrics
	// begun is closed when the connections are there.
	begun chan struct{}
	// followed is the last sequence of the log that was followed, strangers counts
	// messages under subjects of no scope.
	followed, strangers atomic.Uint64
	heart               pulse // of the heartbeat
	stuckAfter          time.Duration
	refuseAfter         time.Duration // a standby a read that it can't answer
	lastLog             atomic.Pointer[logState]
	judging             chan struct{} // a lock of one
	lastReadiness       atomic.Pointer[readiness]
	instances           instances
}

// FencedError ends Run where exit_on_fence is set: the instance was fenced
// from a scope, which is a clean end (E17).
type FencedError struct {
	Scope string
	// Epoch and Holder are those of who leads now; 0 when it can't be told.
	Epoch  uint64
	Holder string
	Cause  error
}

// Error implements error.
func (e *FencedError) Error() string {
	if e.Epoch == 0 {
		return fmt.Sprintf("scope %s: fenced: %v", e.Scope, e.Cause)
	}
	return fmt.Sprintf("scope %s: fenced by epoch %d of %s", e.Scope, e.Epoch, e.Holder)
}

// Unwrap gives the cause.
func (e *FencedError) Unwrap() error { return e.Cause }

// New checks what a configuration names on this machine: the seal key, the
// token sources, the files. It reaches out to nobody and starts nothing.
func New(cfg *config.Config, opts Options) (*Service, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, opts: opts, log: opts.Logger, clock: newClock(), savePace: defaultSavePace,
		vaults: map[string]*vaultConn{}, scopes: map[string]*scope{}, ahead: make(chan ahead, aheadQueue),
		begun: make(chan struct{}), judging: make(chan struct{}, 1), stuckAfter: stuckAfter, refuseAfter: refuseAfter,
	}
	s.metrics = metrics.New(figures{s}, metrics.Options{Version: opts.Version, PerLease: cfg.Metrics.PerLease, Logger: s.log})
	s.started = s.clock.Now()
	var err error
	if s.keys, err = sealKeys(cfg); err != nil {
		return nil, err
	}
	for name, v := range cfg.Vaults {
		if s.vaults[name], err = newVaultConn(name, v, s.log, func() { s.vaultBack(name) }); err != nil {
			return nil, cfg.Refuse("vaults."+name, "%v", err)
		}
	}
	if err := CheckDefinitions(cfg); err != nil {
		return nil, err
	}
	if s.page, err = newPage(cfg); err != nil {
		return nil, err
	}
	for name := range cfg.Scopes {
		s.scopes[name] = newScope(s, name)
		s.metrics.Known(name)
	}
	return s, nil
}

// ServiceKey gives the public key that consumers pin.
func (s *Service) ServiceKey() string { return s.keys.Public() }

// Run runs the instance until ctx ends, then stops it in good order (E18): what
// is in flight is brought to its end within shutdown_timeout, and the scopes
// are released. It returns nil then, a [*FencedError], an [*epochkv.Refused]
// (final), or what kept it from starting.
func (s *Service) Run(ctx context.Context) error {
	// What serves the stopping outlives ctx; it ends when Run does.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer s.close()
	defer s.serveHTTP(base)()
	if err := s.begin(ctx); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // stopped before it had begun
		}
		return err
	}
	hints, err := s.cells.Hints(base)
	if err != nil {
		return err
	}
	stopReads := func() {
		for _, sc := range s.scopes {
			sc.reads.stop()
		}
	}

	defer stopReads()
	next := s.restoreFollowers(ctx)
	s.followed.Store(next - 1)
	for _, sc := range s.scopes {
		if err := sc.reads.start(base); err != nil {
			return err
		}
	}

	background, bctx := errgroup.WithContext(base)
	leading, lctx := errgroup.WithContext(ctx)
	background.Go(func() error { return s.passHints(bctx, hints) })
	for _, v := range s.vaults {
		background.Go(func() error { return v.run(bctx) })
	}
	background.Go(func() error { return s.followAll(bctx, next) })
	background.Go(func() error { return s.heartbeat(bctx) })
	background.Go(func() error { return s.listen(bctx) })
	background.Go(func() error { return s.noteNeighbours(bctx) })
	for range aheadAtOnce {
		background.Go(func() error { return s.readsAhead(bctx) })
	}
	background.Go(func() error { return s.watch(bctx) })
	close(s.begun)
	s.awaitLogins(ctx)
	for _, sc := range s.scopes {
		leading.Go(func() error { return sc.run(lctx, base) })
	}
	err = leading.Wait()
	stopReads()
	stop, cancelStop := context.WithTimeout(base, s.cfg.OperationTimeout.Duration())
	defer cancelStop()
	if herr := s.cells.StopHolder(stop); herr != nil {
		s.log.Warn("the holder cell could not be marked stopped; a successor waits its quiet polls", "error", herr)
	}
	cancel()
	if berr := background.Wait(); err == nil && berr != nil && !errors.Is(berr, context.Canceled) {
		err = berr
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	return err
}

// loginWait is how long a start waits for the connections to Vault to log in.
const loginWait = 500 * time.Millisecond

// awaitLogins gives each connection to Vault the time to log in or to be refused, so
// that what a fresh holder asks for first does not fail for that, and wait for its
// retry. A Vault that does not answer keeps nobody from leading.
func (s *Service) awaitLogins(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	for _, v := range s.vaults {
		for token := v.client.Token(); !token.LoggedIn && token.LastError == nil; token = v.client.Token() {
			if pause(ctx, 5*time.Millisecond) != nil {
				return
			}
		}
	}
}

// begin brings the instance to where it holds.
func (s *Service) begin(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.awaitExamined(ctx); err != nil {
		return err
	}
	if err := s.cells.StartHolder(ctx); err != nil {
		return fmt.Errorf("starting to hold: %w", err)
	}
	return nil
}

// open connects and opens everything, in the order in which one needs the
// other. What is not there yet is waited for where waiting can help.
func (s *Service) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return s.cfg.Refuse("state_dir", "it can't be made: %v", err)
	}
	if s.state, err = epochkv.OpenStateDir(s.cfg.StateDir); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	n := &s.cfg.NATS
	for {
		err := s.openStores(ctx, n)
		var differs *journal.SettingsError
		var wrong *epochkv.WrongSettings
		var refused *epochkv.Refused
		var bucket *handover.BucketError
		switch {
		case err == nil:
			return s.announce()
		case errors.As(err, &differs), errors.As(err, &wrong), errors.As(err, &refused), errors.As(err, &bucket), ctx.Err() != nil:
			return err // waiting can't help
		}
		s.log.Warn("waiting for JetStream", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (s *Service) connect(ctx context.Context) (err error) {
	opts, err := natsOptions(&s.cfg.NATS, s.log)
	if err != nil {
		return err
	}
	opts = append(opts, nats.ErrorHandler(s.asyncError))
	url := s.cfg.NATS.URL
	if e := s.cfg.NATS.Embedded; e != nil {
		if s.embedded, err = startEmbedded(e, s.log); err != nil {
			return err
		}
		url = s.embedded.ClientURL()
		s.log.Info("embedded NATS listens", "url", url, "store", e.Store)
	}
	if s.nc, err = nats.Connect(url, opts...); err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	if err := awaitConnected(ctx, s.nc, s.log); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.nc)
	return err
}

func (s *Service) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	s.log.Warn("NATS reports", "error", err)
	if l := s.journal; l != nil {
		l.AsyncError(err)
	}
}

func (s *Service) openStores(ctx context.Context, n *config.NATS) (err error) {
	if s.journal == nil {
		jc := journalOf(n)
		jc.Create = true
		if s.journal, err = journal.Open(ctx, s.js, jc); err != nil {
			return err
		}
	}
	if s.blobs == nil {
		if s.blobs, err = handover.OpenBlobs(ctx, s.js, handover.BlobsBucket, n.Replicas); err != nil {
			return err
		}
	}
	if s.snapshots == nil {
		s.openSnapshots(ctx)
	}
	s.cells, err = epochkv.Open(ctx, s.js, epochkv.Config{
		Replicas: n.Replicas, Create: true, State: s.state, Instance: hostName(), Version: s.opts.Version,
		Heartbeat: s.cfg.Heartbeat.Duration(), Presence: s.presenceOf, Logger: s.log,
	})
	if err != nil {
		return err
	}
	return s.cells.VerifyClaim(ctx, s.cfg.Project)
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// presenceSubject is where an instance answers as long as its process runs.
func presenceSubject(holder string) string { return "leasesvc.presence." + holder }

func (s *Service) announce() (err error) {
	s.courier = handover.NewCourier(s.nc, s.keys, handover.CourierOptions{NobodyThere: s.nobodyThere, Logger: s.log})
	s.presence, err = s.nc.Subscribe(presenceSubject(s.cells.HolderID()), func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return fmt.Errorf("answering for our presence: %w", err)
	}
	return nil
}

// presenceOf asks whether anybody answers for a holder (E22).
func (s *Service) presenceOf(ctx context.Context, holder string) (noResponders bool, err error) {
	// A stopped process gives neither an answer nor "no responders": waiting a
	// whole heartbeat for it would halve the pace of the quiet polls.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Heartbeat.Duration()/4)
	defer cancel()
	_, err = s.nc.RequestWithContext(ctx, presenceSubject(holder), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return true, nil
	}
	return false, err
}

// heartbeat renews the holder cell. A deposal ends every term; then the
// instance holds anew and stands by.
func (s *Service) heartbeat(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Heartbeat.Duration())
	defer tick.Stop()
	back := s.nc.StatusChanged(nats.CONNECTED)
	defer s.nc.RemoveStatusListener(back)
	for {
		s.heart.work()
		err := s.cells.Renew(ctx, s.echo())
		s.heart.rest()
		var fenced *epochkv.Fenced
		switch {
		case errors.As(err, &fenced):
			s.log.Error("deposed: every scope is given up", "by", fenced.By, "error", err)
			for _, sc := range s.scopes {
				sc.depose(err)
			}
			if err := s.cells.StartHolder(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("holding anew", "error", err)
			}
		case errors.Is(err, epochkv.ErrNoHolder):
			if err := s.cells.StartHolder(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("holding anew", "error", err)
			}
		case err != nil && ctx.Err() == nil:
			s.log.Warn("the heartbeat did not get through", "error", err)
		}
		select {
		case <-tick.C:
		case _, open := <-back: // after a reconnect every moment counts
			if !open {
				back = nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// listen has the end of another holder show sooner (E22).
func (s *Service) listen(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Heartbeat.Duration() / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.cells.Listen(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// noteNeighbours says, once, when another product writes under our names (E16).
func (s *Service) noteNeighbours(ctx context.Context) error {
	for _, found := range s.cells.Neighbours(ctx, s.cfg.ScopeNames()...) {
		s.log.Error("somebody else writes where we do", "found", found)
	}
	return nil
}

// passHints has the scopes that a hint is about step now.
func (s *Service) passHints(ctx context.Context, hints <-chan string) error {
	for {
		select {
		case name := <-hints:
			for _, sc := range s.scopes {
				if name == "" || name == sc.name {
					sc.hint()
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// vaultBack tells the scopes that this instance leads that a Vault works again.
// It does not block: where the queue is full, what waits is tried in its time.
func (s *Service) vaultBack(connection string) {
	for _, sc := range s.scopes {
		sc.mu.Lock()
		t := sc.term
		sc.mu.Unlock()
		if t != nil {
			_ = t.submit(request{command: leasecore.Tick{}, back: connection})
		}
	}
}

// close gives back what open took, in the reverse order.
func (s *Service) close() {
	if s.presence != nil {
		_ = s.presence.Unsubscribe() // fails only on a closed connection
	}
	if s.journal != nil {
		s.journal.Close()
	}
	if s.nc != nil {
		_ = s.nc.FlushTimeout(time.Second) // best effort: the last replies
		s.nc.Close()
	}
	for _, v := range s.vaults {
		v.client.Close()
	}
	if s.embedded != nil {
		s.embedded.Shutdown()
		s.embedded.WaitForShutdown()
	}
	if s.state != nil {
		if err := s.state.Close(); err != nil {
			s.log.Warn("closing the state directory", "error", err)
		}
	}
}
