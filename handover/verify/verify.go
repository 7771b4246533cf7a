package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The kinds of verifiers.
const (
	// KindPostgreSQL opens a PostgreSQL session.
	KindPostgreSQL = "postgresql"
	// KindMySQL opens a MySQL or MariaDB session.
	KindMySQL = "mysql"
	// KindRabbitMQ opens an AMQP connection and a channel.
	KindRabbitMQ = "rabbitmq"
	// KindRedis opens a Redis connection.
	KindRedis = "redis"
	// KindHTTP asks a URL, which must answer with a 2xx status.
	KindHTTP = "http"
	// KindCommand runs a program, which must end with status 0.
	KindCommand = "command"
)

// kind is how a kind of verifier checks a [Spec], and makes of it and a
// credential's values what can be tried.
type kind struct {
	check   func(Spec) error
	prepare func(Spec, map[string]any) (attempt, error)
}

var kinds = map[string]kind{
	KindPostgreSQL: {checkPostgreSQL, preparePostgreSQL},
	KindMySQL:      {checkMySQL, prepareMySQL},
	KindRabbitMQ:   {checkRabbitMQ, prepareRabbitMQ},
	KindRedis:      {checkRedis, prepareRedis},
	KindHTTP:       {checkHTTP, prepareHTTP},
	KindCommand:    {checkCommand, prepareCommand},
}

// Kinds lists the kinds of verifiers, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

const (
	// DefaultTimeout is the budget of a [Spec] that names none.
	DefaultTimeout = 15 * time.Second

	// One attempt may not eat a whole budget: a server that accepts and then
	// says nothing would keep us from its healthy sibling.
	attemptTimeout = 5 * time.Second
	firstPause     = 50 * time.Millisecond
	longestPause   = time.Second
)

// Spec is a verifier as its definition configures it.
type Spec struct {
	// Kind is one of [Kinds].
	Kind string
	// DSN is a template with {{username}} and {{password}}, and any other
	// {{key}} of the credential; of KindHTTP the URL. Empty of KindCommand only.
	DSN string
	// Headers are sent by KindHTTP; templates like DSN.
	Headers map[string]string
	// Command is the program of KindCommand, as an absolute path, and its
	// arguments. No value is ever put into them: everybody on the machine can
	// read them.
	Command []string
	// Pass says how KindCommand hands the credential over: [PassStdin], the
	// default, or [PassEnv].
	Pass string
	// Timeout is the whole budget, retries included; [DefaultTimeout] if zero.
	Timeout time.Duration
}

// String leaves the DSN out: it is never logged.
func (s Spec) String() string { return fmt.Sprintf("%s login within %v", s.Kind, s.budget()) }

// GoString is [Spec.String], so that %#v does not print the DSN either.
func (s Spec) GoString() string { return s.String() }

func (s Spec) budget() time.Duration {
	if s.Timeout == 0 {
		return DefaultTimeout
	}
	return s.Timeout
}

// Check tells whether such a verifier can work at all, for when the
// configuration is read. It refuses a password that stands in the template
// itself. Its errors don't repeat the template.
func Check(spec Spec) error {
	k, known := kinds[spec.Kind]
	switch {
	case !known:
		return fmt.Errorf("verifier kind %q is not known: use one of %s", spec.Kind, strings.Join(Kinds(), ", "))
	case spec.Kind == KindCommand && spec.DSN != "":
		return errors.New("a verifier of kind command has no dsn: the program knows where to log in")
	case spec.Kind != KindCommand && (len(spec.Command) > 0 || spec.Pass != ""):
		return errors.New("command and pass are for a verifier of kind command")
	case spec.Kind != KindHTTP && len(spec.Headers) > 0:
		return errors.New("headers are for a verifier of kind http")
	}
	return k.check(spec)
}

// Verify logs in with the values (JSON scalars, or [secret.String]) and returns
// nil when that proved them. Otherwise it tries again, pausing 50 ms at first and
// 1 s at most, until the budget is used up or ctx ends, and returns an [*Error]
// with the last failure.
func Verify(ctx context.Context, spec Spec, values map[string]any) error {
	if err := Check(spec); err != nil {
		return &Error{Kind: spec.Kind, Failure: Unusable, Reason: err.Error()}
	}
	login, err := kinds[spec.Kind].prepare(spec, values)
	if err != nil {
		return &Error{Kind: spec.Kind, Failure: Unusable, Reason: err.Error()}
	}
	return retry(ctx, spec, login)
}

// attempt is one login; it returns what went wrong, or nil.
type attempt func(context.Context) *Error

// retry repeats login at a pace until it succeeds, fails for good, or the
// budget is used up.
func retry(ctx context.Context, spec Spec, login attempt) error {
	within, cancel := context.WithTimeout(ctx, spec.budget())
	defer cancel()
	begin := time.Now()
	ends, _ := within.Deadline()
	var last *Error
	for n, pause := 1, firstPause; ; n, pause = n+1, min(2*pause, longestPause) {
		one, done := context.WithTimeout(within, attemptTimeout)
		failed := login(one)
		done()
		if failed == nil {
			return nil
		}
		// An attempt that the end of the budget cut off says less than the one
		// before it. A connection may notice that end before the context does.
		if last == nil || within.Err() == nil && time.Now().Before(ends) {
			last = failed
		}
		last.Kind, last.Attempts, last.Took = spec.Kind, n, time.Since(begin)
		if last.Failure.final() {
			return last
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
		}
		switch {
		case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
			last.Reason = "last: " + string(last.Failure)
			last.Failure, last.cause = Interrupted, ctx.Err()
			return last
		case within.Err() != nil:
			return last
		}
	}
}
