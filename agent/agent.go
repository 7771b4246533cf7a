package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/service/config"
)

// Options are what [New] needs beside the configuration.
type Options struct {
	Config *config.Agent
	// Client is the consumer's; it stays the caller's.
	Client *consumer.Client
	Logger *slog.Logger
	// Stdout and Stderr are those of the applications.
	Stdout, Stderr io.Writer
}

// Agent keeps targets on what is in force.
type Agent struct {
	cfg     *config.Agent
	client  *consumer.Client
	log     *slog.Logger
	targets []*target

	group   *errgroup.Group
	mu      sync.Mutex
	serving map[string]bool // leases
	serve   func(lease string)
}

// New checks everything that can be checked without NATS: templates, owners,
// groups. What is wrong with the file comes back as [*config.Errors].
func New(o Options) (*Agent, error) {
	a := &Agent{cfg: o.Config, client: o.Client, log: o.Logger, serving: map[string]bool{}}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	var all []error
	for _, name := range o.Config.TargetNames() {
		t, err := a.newTarget(name, o)
		if err != nil {
			all = append(all, err)
			continue
		}
		a.targets = append(a.targets, t)
	}
	if len(all) > 0 {
		return nil, joined(all)
	}
	return a, nil
}

// joined puts the errors of a file together.
func joined(all []error) error {
	out := &config.Errors{}
	for _, err := range all {
		var some *config.Errors
		if !errors.As(err, &some) {
			return errors.Join(all...)
		}
		out.List = append(out.List, some.List...)
	}
	return out
}

// Run keeps the targets until ctx ends; then it ends the applications that it
// runs and gives nil. Another error says that it can't go on, such as
// [consumer.ErrSuperseded].
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	a.group = group
	a.serve = func(lease string) { a.serveOnce(ctx, lease) }
	defer func() {
		for _, t := range a.targets {
			t.close()
		}
	}()
	for _, t := range a.targets {
		t.sweep()
		for _, lease := range t.leases() {
			a.serve(lease)
		}
		group.Go(func() error {
			t.keep(ctx, a.cfg.Refresh.Duration(), a.serve)
			return nil
		})
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serveOnce takes part in a lease's hand-overs, if it does not yet.
func (a *Agent) serveOnce(ctx context.Context, lease string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving[lease] || ctx.Err() != nil {
		return
	}
	a.serving[lease] = true
	a.group.Go(func() error {
		err := a.client.Serve(ctx, lease, &follower{a, lease})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return consumer.ErrClosed
		default:
			return err
		}
	})
}

// onceRest is the pace at which [Agent.Once] asks again.
const onceRest = 500 * time.Millisecond

// Once renders every file with what is in force now and tells nobody; targets that
// run an application are left out. What is not there yet is waited for until ctx
// ends. The error names the targets that could not be written.
func (a *Agent) Once(ctx context.Context) error {
	var group sync.WaitGroup
	errs := make([]error, len(a.targets))
	for i, t := range a.targets {
		if t.app != nil {
			a.log.Info("left out, since it runs an application", "target", t.name)
			continue
		}
		t.sweep()
		group.Go(func() {
			if err := t.once(ctx); err != nil {
				errs[i] = fmt.Errorf("target %s: %w", t.name, err)
			}
		})
	}
	group.Wait()
	for _, t := range a.targets {
		t.close()
	}
	return errors.Join(errs...)
}

// follower is the agent's part in one lease's hand-overs.
type follower struct {
	*Agent
	lease string
}

// each does something with every target that shows the lease, side by side, so
// that one that hangs does not keep the others.
func (f *follower) each(do func(*target) error) error {
	errs := make([]error, len(f.targets))
	var all sync.WaitGroup
	for i, t := range f.targets {
		all.Go(func() {
			if err := do(t); err != nil {
				errs[i] = fmt.Errorf("target %s: %w", t.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Prepare implements [consumer.Handler]: every target shows the candidate, and
// every application that was told of it said yes.
func (f *follower) Prepare(ctx context.Context, c consumer.Credential) error {
	return f.each(func(t *target) error { return t.prepare(ctx, f.lease, c) })
}

// Commit implements [consumer.Handler].
func (f *follower) Commit(ctx context.Context, c consumer.Credential) error {
	if err := f.each(func(t *target) error { return t.follow(ctx, f.lease, c, "commit") }); err != nil {
		return err
	}
	return f.drain(ctx)
}

// Revert implements [consumer.Handler].
func (f *follower) Revert(ctx context.Context, c consumer.Credential) error {
	if err := f.each(func(t *target) error { return t.follow(ctx, f.lease, c, "revert") }); err != nil {
		return err
	}
	return f.drain(ctx)
}

// drain waits until the sessions of other leases have ended, as the configuration
// has it, since a confirmation lets those leases be revoked (C43).
func (f *follower) drain(ctx context.Context) error {
	until := time.Now()
	for _, t := range f.targets {
		if at := t.drained(f.lease); at.After(until) {
			until = at
		}
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for old sessions to end: %w", context.Cause(ctx))
	}
}

// Leave implements [consumer.Leaver]: applications that live on the lease end.
func (f *follower) Leave(ctx context.Context) {
	for _, t := range f.targets {
		if t.app != nil && t.shows(f.lease) {
			if err := t.app.Stop(ctx); err != nil {
				f.log.Warn("the application was not ended", "target", t.name, "error", err)
			}
		}
	}
}

// Stay implements [consumer.Stayer]: who read a file lives on without the agent.
func (f *follower) Stay() bool {
	for _, t := range f.targets {
		if t.app == nil && t.shows(f.lease) {
			return true
		}
	}
	return false
}
