package service

import (
	"context"
	"time"
)

const (
	// aheadLimit bounds how many names of a scope have their values read at the
	// beginning of a term before anybody asks, so that none is let go for another;
	// the others' are read when somebody does.
	aheadLimit = maxOpened
	// aheadAtOnce and aheadQueue are of the whole instance.
	aheadAtOnce, aheadQueue = 8, 1024
	// aheadTimeout bounds one such reading.
	aheadTimeout = 5 * time.Second
)

// ahead is a name whose values are to be read before anybody asks for them, so
// that the bucket of sealed values may be away then.
type ahead struct {
	term *term
	name string
}

// readAhead has a name's values read soon, unless many wait already.
func (t *term) readAhead(name string) {
	select {
	case t.svc.ahead <- ahead{t, name}:
	default:
	}
}

// readAllAhead does so for the names there are, at the pace at which they are
// read.
func (t *term) readAllAhead(ctx context.Context, stop <-chan struct{}, names []string) {
	for _, name := range names[:min(len(names), aheadLimit)] {
		select {
		case t.svc.ahead <- ahead{t, name}:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// readsAhead is one of those who read ahead.
func (s *Service) readsAhead(ctx context.Context) error {
	for {
		select {
		case a := <-s.ahead:
			a.read(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (a ahead) read(ctx context.Context) {
	v := a.term.views.get(a.name)
	if a.term.over() || !v.committed() || v.values.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, aheadTimeout)
	defer cancel()
	if _, err := a.term.read(ctx, a.name, v); err != nil && ctx.Err() == nil {
		a.term.log.Debug("reading values ahead", "error", err)
	}
}
