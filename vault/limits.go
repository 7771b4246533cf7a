package vault

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Limits bound what one connection asks of its server. A zero field takes the
// default; what is out of range is an error of [New].
type Limits struct {
	// InFlight bounds the requests at a time, [1, 4096]; default 64.
	InFlight int
	// PerMount bounds those that are about one mount, so that an engine whose
	// database hangs does not hold up the others (C45), [1, InFlight]; default
	// half of InFlight.
	PerMount int
	// Rate bounds the requests in a second, (0, 1e6]; 0 means no bound but
	// InFlight's.
	Rate float64
	// RecoveryRate is the rate right after an outage, (0, 1e6]; default 50. It
	// doubles every 5 s, and after 40 s only Rate is left (C13).
	RecoveryRate float64
	// Waiting bounds the calls that wait for their turn, [1, 1e6]; default
	// 65536. Further ones fail with KindQuota.
	Waiting int
	// ProbeFirst and ProbeLast bound the back-off between probes of a server
	// that is out, [1 ms, 10 min]; default 500 ms and 10 s. It doubles, with a
	// spread of 20 %.
	ProbeFirst, ProbeLast time.Duration
}

const (
	recoveryDoubles = 5 * time.Second
	recoverySteps   = 8
	// pauseWait is the longest quota pause that calls wait for; in a longer one
	// they fail, and come back when it is over.
	pauseWait = 5 * time.Second
	// calmUrgency is the urgency of a call that names none: it goes before what
	// has more than that left, and after what has less.
	calmUrgency = time.Minute
)

func (l *Limits) fill() error {
	def := func(v *int, by int) {
		if *v == 0 {
			*v = by
		}
	}
	def(&l.InFlight, 64)
	def(&l.PerMount, max(1, l.InFlight/2))
	def(&l.Waiting, 65536)
	if l.RecoveryRate == 0 {
		l.RecoveryRate = 50
	}
	if l.ProbeFirst == 0 {
		l.ProbeFirst = 500 * time.Millisecond
	}
	if l.ProbeLast == 0 {
		l.ProbeLast = max(10*time.Second, l.ProbeFirst)
	}
	rate := func(r float64) bool { return r >= 0 && r <= 1e6 && !math.IsNaN(r) }
	switch {
	case l.InFlight < 1 || l.InFlight > 4096:
		return fmt.Errorf("%d requests in flight are not in [1, 4096]", l.InFlight)
	case l.PerMount < 1 || l.PerMount > l.InFlight:
		return fmt.Errorf("%d requests per mount are not in [1, %d]", l.PerMount, l.InFlight)
	case l.Waiting < 1 || l.Waiting > 1_000_000:
		return fmt.Errorf("%d waiting calls are not in [1, 1000000]", l.Waiting)
	case !rate(l.Rate) || !rate(l.RecoveryRate):
		return fmt.Errorf("the rates %g and %g are not in (0, 1e6]", l.Rate, l.RecoveryRate)
	case l.ProbeFirst < time.Millisecond || l.ProbeLast > 10*time.Minute || l.ProbeFirst > l.ProbeLast:
		return fmt.Errorf("the probes' back-off %s to %s is not in [1ms, 10m]", l.ProbeFirst, l.ProbeLast)
	}
	return nil
}

type urgencyKey struct{}

// WithUrgency says that what the calls under ctx are about ends at by: while
// calls wait for their turn, those with the earliest end go first. Without it a
// call counts as ending in a minute. It bounds nothing: for that give ctx a
// deadline.
func WithUrgency(ctx context.Context, by time.Time) context.Context {
	return context.WithValue(ctx, urgencyKey{}, by)
}

func urgencyOf(ctx context.Context, now time.Time) time.Time {
	if by, ok := ctx.Value(urgencyKey{}).(time.Time); ok {
		return by
	}
	return now.Add(calmUrgency)
}
