package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/tracing"
)

// What work on a [Set] can meet, beside the driver's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = errors.New("there is no credential")
	// ErrClosed: the set is closed.
	ErrClosed = errors.New("closed")
)

// Set is the sessions of a name's leases. It is the [consumer.Handler] of the
// name.
type Set[S any] struct {
	client *consumer.Client
	name   string
	driver Driver[S]
	log    *slog.Logger

	mu      sync.Mutex
	current *kept[S]      // nil: none
	changed chan struct{} // closed and replaced whenever current changes
	closed  bool
	// committed is the lease that was committed last, as far as we know; 0: none.
	committed uint64
	// others are the sessions that are not current and not known to be drained:
	// the old ones, kept until commit, and those that are being closed.
	others  []*kept[S]
	reports reports

	life   context.Context // of reports
	cancel context.CancelFunc
	served chan struct{}
	err    error          // of Serve; read after served is closed
	work   sync.WaitGroup // drains and reports
}

// Start takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [Set.Close] ends the rest. A nil logger
// logs nothing.
func Start[S any](ctx context.Context, client *consumer.Client, name string, d Driver[S], log *slog.Logger) (*Set[S], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Close calls it
	s := &Set[S]{client: client, name: name, driver: d, log: log.With("name", name),
		changed: make(chan struct{}), served: make(chan struct{}), life: life}
	s.cancel = cancel
	go func() {
		defer close(s.served)
		s.err = client.Serve(s.life, name, s)
		if s.err != nil && s.life.Err() == nil {
			s.log.Error("rotations are not followed any more", "why", s.err)
		}
	}()
	for {
		s.mu.Lock()
		current, changed := s.current, s.changed
		s.mu.Unlock()
		if current != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-s.served:
			s.Close()
			return nil, errors.Join(s.err, ErrNone)
		case <-ctx.Done():
			s.Close()
			return nil, errors.Join(context.Cause(ctx), ErrNone, s.err)
		}
	}
}

// Enter chooses the current sessions and holds their closing up until
// [Held.Leave]. While there are none it waits, until ctx ends ([ErrNone]) or the
// set is closed ([ErrClosed]).
func (s *Set[S]) Enter(ctx context.Context) (*Held[S], error) {
	for {
		s.mu.Lock()
		current, changed, closed := s.current, s.changed, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case current != nil && current.enter():
			return &Held[S]{Sessions: current.sessions, kept: current, replaced: changed}, nil
		case current != nil:
			continue // it was swapped between the two locks
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Join(ErrNone, context.Cause(ctx))
		}
	}
}

// Lease tells which lease is current, 0 for none.
func (s *Set[S]) Lease() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.cred.Lease
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([Set.Err] says so).
func (s *Set[S]) Done() <-chan struct{} { return s.served }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (s *Set[S]) Err() error {
	select {
	case <-s.served:
		return s.err
	default:
		return nil
	}
}

// Close turns new work away, deregisters as soon as what is in flight has
// finished (at the latest after the client's LeaveTimeout), and waits until
// everybody has left and every session is closed.
func (s *Set[S]) Close() {
	s.cancel()
	<-s.served
	s.Leave(context.Background()) // in case Serve had ended before
	s.work.Wait()
}

// Leave implements [consumer.Leaver]: all sessions are closed before the
// incarnation deregisters.
func (s *Set[S]) Leave(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.swap(nil)
	if err := s.drainOthers(ctx); err != nil {
		s.log.Warn("leaving with sessions still open", "why", err)
	}
}

// Prepare implements [consumer.Handler]: new work goes to proven sessions of the
// candidate, those that were current are kept.
func (s *Set[S]) Prepare(ctx context.Context, candidate consumer.Credential) error {
	return s.move(ctx, candidate)
}

// Commit implements [consumer.Handler]: it returns nil when only the given
// credential has sessions.
func (s *Set[S]) Commit(ctx context.Context, current consumer.Credential) error {
	s.mu.Lock()
	s.committed = current.Lease
	s.mu.Unlock()
	if err := s.move(ctx, current); err != nil {
		return err
	}
	return s.drainOthers(ctx)
}

// Revert implements [consumer.Handler], like Commit; with no credential, work
// waits until there is one.
func (s *Set[S]) Revert(ctx context.Context, current consumer.Credential) error {
	if !current.None() {
		return s.Commit(ctx, current)
	}
	s.mu.Lock()
	s.committed = 0
	s.mu.Unlock()
	s.swap(nil)
	return s.drainOthers(ctx)
}

// move makes the credential's sessions the current ones, after a proven login.
// Those that are current have had theirs.
func (s *Set[S]) move(ctx context.Context, cred consumer.Credential) error {
	k, current := s.find(cred.Lease)
	if current {
		return nil
	}
	if k != nil {
		if err := s.prove(ctx, k); err != nil {
			s.log.Warn("the sessions that were kept do not log in, opening others", "credential", cred, "refused", s.driver.Refused(err))
			k = nil
		}
	}
	if k == nil {
		opened, err := s.open(ctx, cred)
		if err != nil {
			return err
		}
		k = newKept(cred, opened, s.driver.Close)
	}
	_, step := tracing.Start(ctx, tracerName, "switch")
	if !s.swap(k) {
		step.End(ErrClosed)
		return ErrClosed
	}
	step.End(nil)
	return nil
}

const tracerName = "github.com/leasesvc/leasesvc/consumer/sessions"

// open opens and proves sessions.
func (s *Set[S]) open(ctx context.Context, cred consumer.Credential) (S, error) {
	ctx, step := tracing.Start(ctx, tracerName, "prove")
	opened, err := s.driver.Open(ctx, cred, func(err error) { s.refused(cred.Lease, err) })
	step.End(err)
	return opened, err
}

// prove proves sessions that were kept.
func (s *Set[S]) prove(ctx context.Context, k *kept[S]) error {
	ctx, step := tracing.Start(ctx, tracerName, "prove")
	err := s.driver.Prove(ctx, k.sessions)
	step.End(err)
	return err
}

// find gives the sessions of a lease that are current or kept open.
func (s *Set[S]) find(lease uint64) (k *kept[S], current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.cred.Lease == lease {
		return s.current, true
	}
	for _, o := range s.others {
		if o.cred.Lease == lease && o.open() {
			return o, false
		}
	}
	return nil, false
}

// swap makes k current (nil: none) and keeps what was. On a closed set only
// none can be current: k is closed, and false returned. Calls do not overlap.
func (s *Set[S]) swap(k *kept[S]) bool {
	if k != nil && s.driver.Current != nil {
		s.driver.Current(k.sessions)
	}
	s.mu.Lock()
	if k != nil && s.closed {
		k.drain(&s.work)
		s.others = append(s.others, k)
		s.mu.Unlock()
		return false
	}
	before := s.current
	if before != nil {
		s.others = append(s.others, before)
	}
	s.drop(k)
	s.current = k
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if before != nil && s.driver.Replaced != nil {
		s.driver.Replaced(before.sessions)
	}
	return true
}

// drop takes k off the others. s.mu is held.
func (s *Set[S]) drop(k *kept[S]) {
	for i, o := range s.others {
		if o == k {
			s.others = append(s.others[:i], s.others[i+1:]...)
			return
		}
	}
}

// drainOthers closes all sessions but the current ones and waits until none is
// left, or ctx ends; the closing goes on then.
func (s *Set[S]) drainOthers(ctx context.Context) (err error) {
	_, step := tracing.Start(ctx, tracerName, "drain")
	defer func() { step.End(err) }()
	s.mu.Lock()
	others := append([]*kept[S](nil), s.others...)
	for _, k := range others {
		k.drain(&s.work)
	}
	s.mu.Unlock()
	for _, k := range others {
		select {
		case <-k.drained:
			s.mu.Lock()
			s.drop(k)
			s.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("draining the sessions of lease %d, %d still at work: %w", k.cred.Lease, k.inside(), context.Cause(ctx))
		}
	}
	return nil
}
