package leasecore

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// MaxAttempt is where counting attempts stops.
const MaxAttempt = 7

// MaxBackoff is the longest wait between two attempts.
const MaxBackoff = 60 * time.Second

// Backoff gives the wait after the attempt-th failure in a row: 1, 2, 4, 8, 16,
// 32, 60, 60... seconds.
func Backoff(attempt int) time.Duration {
	if attempt < 1 {
		return 0
	}
	if attempt >= MaxAttempt {
		return MaxBackoff
	}
	return time.Second << (attempt - 1)
}

// retryAfter plans the next attempt after one more failure: not before the
// back-off has passed, nor before what Vault asked us to wait.
func retryAfter(last int, now time.Time, atLeast time.Duration) events.Retry {
	attempt := min(last+1, MaxAttempt)
	return events.Retry{Attempt: attempt, At: now.Add(max(Backoff(attempt), atLeast))}
}

// retryWithin is retryAfter for what must succeed before end: with little time
// left the retries come closer together, down to the smallest interval (C5).
func retryWithin(last int, now, end time.Time, atLeast time.Duration) events.Retry {
	r := retryAfter(last, now, atLeast)
	if soon := now.Add(max(end.Sub(now)/4, minRenewalInterval, atLeast)); soon.Before(r.At) {
		r.At = soon
	}
	return r
}
