package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/service/api"
)

// Readiness: each scope is led here, or followed so that it could be led at once;
// the seal key opens its values; NATS works. The words for what is not are of a
// closed list, so that they can be told to everybody; the details are for those
// who may look.

const (
	// readyFor is for how long what was found out counts.
	readyFor = time.Second
	// readyWithin bounds finding out.
	readyWithin = 3 * time.Second
	// catchUpWithin is how long what is followed may take to get where the stream is.
	catchUpWithin = time.Second
)

// readiness is what was found out at a moment.
type readiness struct {
	at       time.Time
	problems []api.NotReady
	scopes   map[string]scopeReadiness
}

type scopeReadiness struct {
	leads    bool
	problems []api.NotReady
}

// ready tells whether nothing is wrong.
func (r *readiness) ready() bool {
	if len(r.problems) > 0 {
		return false
	}
	for _, sc := range r.scopes {
		if len(sc.problems) > 0 {
			return false
		}
	}
	return true
}

// hasBegun tells whether the connections are there, and whether what belongs to
// them may be looked at.
func (s *Service) hasBegun() bool {
	select {
	case <-s.begun:
		return true
	default:
		return false
	}
}

// readiness finds out how ready we are. It costs one request to NATS for all
// scopes, and no more than one a second, whoever asks.
func (s *Service) readiness(ctx context.Context) *readiness {
	select {
	case s.judging <- struct{}{}:
		defer func() { <-s.judging }()
	case <-ctx.Done():
	}
	if last := s.lastReadiness.Load(); last != nil && (time.Since(last.at) < readyFor || ctx.Err() != nil) {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	r := s.judge(ctx)
	r.at = time.Now()
	s.lastReadiness.Store(r)
	return r
}

func notReady(problem, says string, detail error) api.NotReady {
	out := api.NotReady{Problem: problem, Says: says}
	if detail != nil {
		out.Detail = detail.Error()
	}
	return out
}

func (s *Service) judge(ctx context.Context) *readiness {
	r := &readiness{scopes: map[string]scopeReadiness{}}
	if !s.hasBegun() {
		r.problems = append(r.problems, notReady(api.NotReadyStarting, "it is starting: NATS, its streams and the heartbeat are awaited", nil))
		for name := range s.scopes {
			r.scopes[name] = scopeReadiness{problems: []api.NotReady{notReady(api.NotReadyStarting, "the instance is starting", nil)}}
		}
		return r
	}
	last, err := s.judgeNATS(ctx, r)
	followed := err == nil && s.followedTo(ctx, last)
	for name, sc := range s.scopes {
		r.scopes[name] = sc.judge(followed)
	}
	return r
}

// judgeNATS looks at what all scopes need, and gives the stream's last sequence.
func (s *Service) judgeNATS(ctx context.Context, r *readiness) (uint64, error) {
	if !s.nc.IsConnected() {
		r.problems = append(r.problems, notReady(api.NotReadyDisconnected, "there is no connection to NATS", s.nc.LastError()))
		return 0, errors.New("not connected")
	}
	if since, refused := s.cells.PausedSince(); refused {
		r.problems = append(r.problems, notReady(api.NotReadyCredentials, "NATS refuses our credentials", fmt.Errorf("since %s", since.UTC().Format(time.RFC3339))))
	} else if err := s.cells.FreshEnough(time.Now()); err != nil {
		r.problems = append(r.problems, notReady(api.NotReadyHeartbeat, "our heartbeats do not get through", err))
	}
	info, err := s.journal.Info(ctx)
	if err != nil {
		r.problems = append(r.problems, notReady(api.NotReadyLog, "the log's stream can't be read", err))
		return 0, err
	}
	s.lastLog.Store(&logState{State: info, at: time.Now()})
	return info.LastSeq, nil
}

// followedTo waits, for a little, until the log was followed up to a sequence.
func (s *Service) followedTo(ctx context.Context, seq uint64) bool {
	for until := time.Now().Add(catchUpWithin); s.followed.Load() < seq; {
		if time.Now().After(until) || pause(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// judge looks at one scope.
func (sc *scope) judge(followed bool) (r scopeReadiness) {
	sc.mu.Lock()
	t, blocked := sc.term, sc.blocked
	sc.mu.Unlock()
	wrong := func(problem, says string, detail error) {
		r.problems = append(r.problems, notReady(problem, says, detail))
	}
	if t != nil {
		r.leads = true
		switch {
		case t.leavingScope.Load():
			wrong(api.NotReadyLeaving, "the scope is being given back", nil)
		case sc.reads.serving.Load() == nil:
			wrong(api.NotReadyTaking, "the scope is being taken over", nil)
		case t.stalled.Load():
			wrong(api.NotReadyAppend, "the log takes nothing from us now, so nothing is begun", nil)
		}
		return r
	}
	var loss *LossError
	down, stopped := sc.follower.shutDown(sc.svc.started)
	switch {
	case down, errors.Is(blocked, errLeftAlone):
		wrong(api.NotReadyShutDown, "the scope was shut down by hand", errLeftAlone)
	case errors.As(blocked, &loss):
		wrong(api.NotReadyLost, "the log lacks something that is known of; nobody leads the scope until leasesvc recover was run", blocked)
	case stopped != nil:
		wrong(api.NotReadyStopped, "the log can't be followed any further", stopped)
	case !sc.probed.Load() && blocked == nil:
		wrong(api.NotReadySealKey, "the seal key was not tried on the scope's values yet", nil)
	case !sc.probed.Load():
		wrong(api.NotReadySealKey, "the seal key does not open the scope's values, or they can't be read", blocked)
	case blocked != nil:
		wrong(api.NotReadyBlocked, "this instance does not claim the scope", blocked)
	}
	if !followed {
		wrong(api.NotReadyBehind, "the log is not followed up to its end yet", nil)
	}
	return r
}
