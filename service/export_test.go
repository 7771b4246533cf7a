package service

import (
	"context"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// SaveOften has every event of a scope saved, with the next decision and at a stop.
func SaveOften(s *Service) { s.savePace = savePace{every: 1, atStop: 1} }

// ErrPanicked is what who waits for a command is told that panicked.
var ErrPanicked = errPanicked

// Decide has a command decided by a scope that s leads; look, if set, gets the
// state after it on the scope's goroutine.
func Decide(ctx context.Context, s *Service, scope string, c leasecore.Command, look func(*leasecore.State)) error {
	sc := s.scopes[scope]
	sc.mu.Lock()
	t := sc.term
	sc.mu.Unlock()
	if t == nil {
		return errNotLeading
	}
	_, err := t.do(ctx, c, events.Actor{}, func(s *leasecore.State) any {
		if look != nil {
			look(s)
		}
		return nil
	})
	return err
}

// HoldFeedsBack has f called before anything is fed to the followers of s. It is
// to be called before Run.
func HoldFeedsBack(s *Service, f func()) { s.beforeFeed = f }

// LookAt has s find out how a scope is, for its metrics and its readiness.
func LookAt(s *Service, scope string) {
	sc := s.scopes[scope]
	_, _ = sc.figures(), sc.judge(true)
	_, _ = sc.standbyKey()
}

// HoldSealingBack has f called before the values are sealed anew under another key.
// It is to be called before Run.
func HoldSealingBack(s *Service, f func() error) { s.beforeReseal = f }

// HoldAppendsBack has f called before events are appended; what it gives is what the
// append comes to. It is to be called before Run.
func HoldAppendsBack(s *Service, f func([]events.Event) error) { s.beforeAppend = f }

// CutOff ends the connection of s, as the end of its process would.
func CutOff(s *Service) { s.nc.Close() }

// StandbyReads tells how many reads of a scope s answered as a standby, and how
// often it could not.
func StandbyReads(s *Service, scope string) (given, unable int64) {
	r := s.scopes[scope].reads
	return r.given.Load(), r.unable.Load()
}

// Sleep has the clock of s jump ahead, as the wall clock of a machine does that
// slept: the monotonic one stood still meanwhile.
func Sleep(s *Service, d time.Duration) { s.clock.AtLeast(s.clock.Now().Add(d)) }

// RefuseReadsAfter sets when a standby of s that can't answer a read says so. It is to
// be called before Run.
func RefuseReadsAfter(s *Service, d time.Duration) { s.refuseAfter = d }

// StuckAfter sets how long a step of a loop of s may take. It is to be called
// before Run.
func StuckAfter(s *Service, d time.Duration) { s.stuckAfter = d }

// Lacking tells which of some holders are there for a scope and can't read all of
// some formats.
var Lacking = lacking

// Others gives the other instances that are alive, as an operator's finalize sees
// them.
func Others(ctx context.Context, s *Service) ([]epochkv.HolderCell, error) {
	return s.instances.list(ctx, s, 0)
}

// Sweep has a scope that s leads swept of the sealed values that no event names,
// however young they are.
func Sweep(ctx context.Context, s *Service, scope string) (swept int, err error) {
	return s.scopes[scope].led.Load().sweepOnce(ctx, 0)
}

// InHand tells of how many names of a scope that s leads a candidate's values are
// held beside the store.
func InHand(s *Service, scope string) int {
	h := &s.scopes[scope].led.Load().inHand
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byName)
}
