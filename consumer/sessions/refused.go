package sessions

import (
	"context"
	"time"
)

const (
	// coolDown is how long a lease that was reported is not reported again.
	coolDown = 30 * time.Second
	// reportWithin bounds one report.
	reportWithin = 10 * time.Second
)

// reports is what was told to the service: one report at a time, one per lease
// and cool-down.
type reports struct {
	busy  bool
	lease uint64
	until time.Time
}

// refused tells the service that a server refused a login with a lease (C58), if
// that is the committed one: a candidate's refusal is the answer to its
// hand-over. It returns at once; errors that are no refusal are ignored.
func (s *Set[S]) refused(lease uint64, err error) {
	if k, _ := s.find(lease); k != nil && err != nil && s.driver.Refused(err) {
		s.report(k, err)
	}
}

// report tells it, unless that is under way or was done a moment ago.
func (s *Set[S]) report(k *kept[S], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.closed || s.reports.busy || k.cred.Lease != s.committed || k.cred.Lease == s.reports.lease && now.Before(s.reports.until) {
		return
	}
	s.reports = reports{busy: true, lease: k.cred.Lease, until: now.Add(coolDown)}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		ctx, cancel := context.WithTimeout(s.life, reportWithin)
		defer cancel()
		sent := s.client.ReportRefused(ctx, k.cred, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports.busy = false
		if sent != nil {
			s.reports.until = time.Time{} // the next refusal tries again
			s.log.Warn("the server refuses the credential, and the service could not be told", "credential", k.cred, "why", sent)
			return
		}
		s.log.Warn("the server refuses the credential; the service was told", "credential", k.cred)
	}()
}
