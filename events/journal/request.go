package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
)

// What ends a wait without an answer of the stream.
var (
	errLost      = errors.New("the connection was lost before the answer")
	errForbidden = errors.New("the server denies it")
	errNobody    = errors.New("nobody answers for the subject: the stream has no leader, or there is no stream")
)

// requester sends messages and hands their answers to who waits for them. It is
// our own and not the connection's, because a batch has two answers that matter,
// and because a lost connection or a denied publish must end the wait at once.
type requester struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	prefix string

	mu      sync.Mutex
	last    uint64
	waiting map[string]*waiter
}

// waiter waits for the answers of one append.
type waiter struct {
	token string
	// subjects is what every subject of the append begins with.
	subjects string
	first    chan reply
	final    chan reply
}

type reply struct {
	data []byte
	err  error
}

func newRequester(nc *nats.Conn) (*requester, error) {
	r := &requester{nc: nc, prefix: nc.NewInbox() + ".", waiting: map[string]*waiter{}}
	var err error
	if r.sub, err = nc.Subscribe(r.prefix+"*.*", r.answered); err != nil {
		return nil, fmt.Errorf("subscribing to the answers of the log: %w", err)
	}
	return r, nil
}

func (r *requester) close() {
	_ = r.sub.Unsubscribe() // the connection may be closed already
	r.fail(errLost)
}

func (r *requester) wait(scope string) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	w := &waiter{
		token: strconv.FormatUint(r.last, 36), subjects: events.SubjectRoot + "." + scope + ".",
		first: make(chan reply, 1), final: make(chan reply, 1),
	}
	r.waiting[w.token] = w
	return w
}

func (r *requester) forget(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, w.token)
}

// The reply subjects of a waiter: of the first message of a batch, which may be
// refused early, and of the one that decides.
func (r *requester) firstReply(w *waiter) string { return r.prefix + w.token + ".first" }
func (r *requester) finalReply(w *waiter) string { return r.prefix + w.token + ".final" }

func (r *requester) answered(m *nats.Msg) {
	token, which, _ := strings.Cut(strings.TrimPrefix(m.Subject, r.prefix), ".")
	r.mu.Lock()
	w := r.waiting[token]
	r.mu.Unlock()
	if w == nil {
		return // nobody waits any more
	}
	answer := reply{data: m.Data}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		answer = reply{err: errNobody}
	}
	if which == "first" {
		offer(w.first, answer)
	} else {
		offer(w.final, answer)
	}
}

func offer(c chan reply, answer reply) {
	select {
	case c <- answer:
	default: // the first answer counts
	}
}

// fail ends every wait.
func (r *requester) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		offer(w.final, reply{err: err})
	}
}

// forbid ends the waits of appends that may have published to subject.
func (r *requester) forbid(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if strings.HasPrefix(subject, w.subjects) {
			offer(w.final, reply{err: errForbidden})
		}
	}
}

// AsyncError is to be called with every error that the connection's error
// handler gets. A denied publish is told there only; without this call it is
// noticed when the answer has not come for [Config.AckWait].
func (l *Log) AsyncError(err error) {
	if subject, denied := deniedSubject(err); denied {
		l.requests.forbid(subject)
	}
}

// deniedSubject gives the subject of a publish that was denied.
func deniedSubject(err error) (string, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	_, rest, found := strings.Cut(err.Error(), `Publish to "`)
	if !found {
		return "", false
	}
	subject, _, found := strings.Cut(rest, `"`)
	return subject, found
}
