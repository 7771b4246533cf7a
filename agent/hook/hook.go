package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/agent/render"
)

// Hook is how an application is told; one of Command, Shell, Signal and URL is set.
type Hook struct {
	// Command is a program and its arguments.
	Command []string
	// Shell is a line for /bin/sh instead.
	Shell string

	// Signal goes to the process that PIDFile names, or to those whose program is
	// Process.
	Signal           syscall.Signal
	PIDFile, Process string

	// URL is asked with Method; 2xx is a yes.
	URL, Method string

	// Timeout bounds a run.
	Timeout time.Duration
	// Optional takes nobody there (no such process, nobody who listens) for a yes.
	Optional bool
	Logger   *slog.Logger
}

// Occasion is why a hook runs.
type Occasion struct {
	// Target and File are what changed.
	Target, File string
	// Event is prepare, commit, revert or update.
	Event string
	// Traceparent, if set, is sent with a request (W3C Trace Context).
	Traceparent string
	// Hidden must not show in any output.
	Hidden render.Hidden
}

var (
	// ErrHook is wrapped by every error of [Hook.Run].
	ErrHook = errors.New("the hook says no")
	// ErrNobody says that there is nobody to be told.
	ErrNobody = errors.New("there is no such process")
	// ErrTimeout says that it took too long.
	ErrTimeout = errors.New("it did not end in time")
)

// Run tells the application.
func (h *Hook) Run(ctx context.Context, o Occasion) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("%w (%s)", ErrTimeout, h.Timeout))
	defer cancel()
	began := time.Now()
	err := h.run(ctx, o)
	if h.Optional && errors.Is(err, ErrNobody) {
		h.Logger.Info("nobody is there to be told", "target", o.Target, "why", err)
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrHook, err)
	}
	h.Logger.Info("the hook ended", "target", o.Target, "event", o.Event, "took", time.Since(began).Round(time.Millisecond).String(), "error", err)
	return err
}

func (h *Hook) run(ctx context.Context, o Occasion) error {
	switch {
	case h.Shell != "":
		return h.command(ctx, o, []string{"/bin/sh", "-c", h.Shell})
	case len(h.Command) > 0:
		return h.command(ctx, o, h.Command)
	case h.URL != "":
		return h.request(ctx, o)
	default:
		return h.signal()
	}
}

// request asks a URL. Of the answer only the status counts.
func (h *Hook) request(ctx context.Context, o Occasion) error {
	r, err := http.NewRequestWithContext(ctx, h.Method, h.URL, nil)
	if err != nil {
		return errors.New("the URL can't be asked")
	}
	if o.Traceparent != "" {
		r.Header.Set("traceparent", o.Traceparent)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody listens at the URL", ErrNobody)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return errors.New("the request came to nothing: " + causeOf(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	return nil
}

// causeOf leaves the URL out, in which a token may stand.
func causeOf(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
