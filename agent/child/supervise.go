package child

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Supervisor keeps one application running. Its owner calls [Supervisor.Close].
type Supervisor struct {
	spec Spec
	log  *slog.Logger

	turn chan struct{} // one change at a time

	mu        sync.Mutex
	process   *Process // nil: none runs
	variables []string
	wanted    bool // it is to run

	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	ended  chan *Process // of processes that ended by themselves
}

// The pace at which an application that ends by itself is started again.
const (
	firstPause = time.Second
	lastPause  = time.Minute
	// longLife is after how long a run counts as one that worked.
	longLife = time.Minute
)

// Supervise makes a supervisor; nothing runs before [Supervisor.Become].
func Supervise(spec Spec, log *slog.Logger) *Supervisor {
	s := &Supervisor{spec: spec, log: log, turn: make(chan struct{}, 1), ended: make(chan *Process, 1)}
	s.life, s.cancel = context.WithCancel(context.Background())
	s.work.Go(s.watch)
	return s
}

// Close ends the application and waits for it.
func (s *Supervisor) Close() {
	s.cancel()
	s.work.Wait()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.stop()
}

func (s *Supervisor) take(ctx context.Context) error {
	ending := fmt.Errorf("%w: the agent is ending", ErrStart)
	select {
	case s.turn <- struct{}{}:
		if s.life.Err() != nil { // after Close nothing starts
			<-s.turn
			return ending
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the application: %w", context.Cause(ctx))
	case <-s.life.Done():
		return ending
	}
}

// Running tells whether it runs, and with which variables.
func (s *Supervisor) Running() (variables []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.variables, s.process != nil && !s.process.over()
}

// Become has the application run with these variables: one that runs with them
// already is left alone; any other is stopped first, since two would fight for a
// port. An error wraps [ErrStart]; then none runs.
func (s *Supervisor) Become(ctx context.Context, variables []string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	if now, ok := s.Running(); ok && slices.Equal(now, variables) {
		return nil
	}
	s.stop()
	p, err := s.start(variables)
	if err != nil {
		return err
	}
	if err := p.ready(ctx); err != nil {
		s.stop()
		return err
	}
	return nil
}

// Send sends a signal to the application, which is to be started with other
// variables from now on; none running is no error: it will start with what is right
// then.
func (s *Supervisor) Send(sig syscall.Signal, variables []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.variables = variables
	if s.process == nil {
		return nil
	}
	return s.process.Signal(sig)
}

// Stop ends it; it stays ended until it is to become something.
func (s *Supervisor) Stop(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	s.stop()
	return nil
}

// stop is called with the turn.
func (s *Supervisor) stop() {
	s.mu.Lock()
	p := s.process
	s.process, s.wanted = nil, false
	s.mu.Unlock()
	if p != nil {
		p.Stop()
	}
}

// start is called with the turn.
func (s *Supervisor) start(variables []string) (*Process, error) {
	p, err := Start(s.spec, variables)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.process, s.variables, s.wanted = p, variables, true
	s.mu.Unlock()
	s.log.Info("the application runs", "pid", p.PID())
	s.work.Go(func() {
		select {
		case <-p.exited:
		case <-s.life.Done():
			return
		}
		select {
		case s.ended <- p:
		case <-s.life.Done():
		}
	})
	return p, nil
}

// watch starts an application again that ended by itself.
func (s *Supervisor) watch() {
	pause, began := firstPause, time.Now()
	for {
		var p *Process
		select {
		case p = <-s.ended:
		case <-s.life.Done():
			return
		}
		if !s.current(p) {
			continue // stopped on purpose
		}
		if time.Since(began) > longLife {
			pause = firstPause
		}
		s.log.Error("the application ended by itself and is started again", "how", p.cmd.ProcessState.String(), "in", pause.String())
		select {
		case <-time.After(pause):
		case <-s.life.Done():
			return
		}
		pause, began = min(2*pause, lastPause), time.Now()
		s.again(p)
	}
}

func (s *Supervisor) current(p *Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted && s.process == p
}

func (s *Supervisor) again(p *Process) {
	if s.take(s.life) != nil {
		return
	}
	defer func() { <-s.turn }()
	if !s.current(p) {
		return
	}
	s.mu.Lock()
	variables := s.variables
	s.mu.Unlock()
	if _, err := s.start(variables); err != nil {
		s.log.Error("the application could not be started again", "error", err)
		s.work.Go(func() { // tried at the same pace
			select {
			case s.ended <- p:
			case <-s.life.Done():
			}
		})
	}
}
