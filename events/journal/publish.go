package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The bounds of one append.
const (
	// MaxBatch is how many events one append takes; the server's own limit.
	MaxBatch = 1000
	// MaxBatchBytes is how large their payloads may be together.
	MaxBatchBytes = 8 << 20
)

// The server's error codes that mean something here and have no name in the
// client library.
const (
	codeNoPeers       jetstream.ErrorCode = 10005
	codeAccountFull   jetstream.ErrorCode = 10002
	codeServerFull    jetstream.ErrorCode = 10023
	codeMemoryFull    jetstream.ErrorCode = 10028
	codeStorageFull   jetstream.ErrorCode = 10047
	codeMsgTooLarge   jetstream.ErrorCode = 10054
	codeStoreFailed   jetstream.ErrorCode = 10077
	codeInFlight      jetstream.ErrorCode = 10164
	codeIncomplete    jetstream.ErrorCode = 10176
	codeTooManyOpen   jetstream.ErrorCode = 10210
	codeWrongSequence                     = jetstream.JSErrCodeStreamWrongLastSequence
)

// kind says what an attempt to publish came to.
type kind int

const (
	unknown kind = iota // it may be stored, or be stored later
	stored              // seq is the sequence of its last message
	moved               // not stored: actual is the last opened event, not the fence
	untaken             // not stored: nobody took it; later perhaps
	crowded             // not stored: too many batches are open; later
	refused             // not stored, and it would not be if repeated
	denied              // not stored: the user may not
)

type outcome struct {
	kind   kind
	seq    uint64
	actual uint64
	err    error
}

const (
	headerFence        = jetstream.ExpectedLastSubjSeqHeader
	headerFenceSubject = jetstream.ExpectedLastSubjSeqSubjHeader
	headerBatchID      = "Nats-Batch-Id"
	headerBatchSeq     = "Nats-Batch-Sequence"
	headerBatchCommit  = "Nats-Batch-Commit"
)

func fenceHeader(subject string, fence uint64, more int) nats.Header {
	h := make(nats.Header, 2+more)
	h[headerFence] = []string{strconv.FormatUint(fence, 10)}
	h[headerFenceSubject] = []string{subject}
	return h
}

// publish sends one message and waits for the answer, at most AckWait.
func (l *Log) publish(ctx context.Context, scope string, m *nats.Msg) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{kind: untaken, err: err}
	}
	w := l.requests.wait(scope)
	defer l.requests.forget(w)
	m.Reply = l.requests.finalReply(w)
	if o, sent := l.send(m); !sent {
		return o
	}
	return l.answer(ctx, w, "", 1)
}

// publishBatch sends messages as one atomic batch without waiting in between.
// Only the answer to the last message decides: without it none is stored. That
// of the first one tells why a batch was not opened at all.
func (l *Log) publishBatch(ctx context.Context, scope, id string, n int, message func(int) (*nats.Msg, error)) outcome {
	select {
	case l.batches <- struct{}{}:
		defer func() { <-l.batches }()
	case <-ctx.Done():
		return outcome{kind: untaken, err: ctx.Err()}
	}
	if err := ctx.Err(); err != nil {
		return outcome{kind: untaken, err: err}
	}
	w := l.requests.wait(scope)
	defer l.requests.forget(w)
	last := n - 1
	for i := range n {
		m, err := message(i)
		if err != nil { // without its last message the batch comes to nothing
			return outcome{kind: refused, err: err}
		}
		if m.Header == nil {
			m.Header = make(nats.Header, 3)
		}
		m.Header[headerBatchID] = []string{id}
		m.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		switch i {
		case last:
			m.Header[headerBatchCommit] = []string{"1"}
			m.Reply = l.requests.finalReply(w)
		case 0:
			m.Reply = l.requests.firstReply(w)
		}
		if o, sent := l.send(m); !sent {
			if i < last && o.kind == unknown {
				// The batch is not committed, and never will be.
				o.kind = untaken
			}
			return o
		}
	}
	o := l.answer(ctx, w, id, n)
	if o.kind == unknown {
		var e *jetstream.APIError
		select {
		case f := <-w.first:
			if first := classify(f, "", 0); errors.As(o.err, &e) && e.ErrorCode == codeIncomplete && (f.err != nil || len(f.data) > 0) {
				return first
			}
		default:
		}
	}
	return o
}

// send hands a message to the connection; sent tells whether it may be on its
// way. What the connection refuses is certain not to be.
func (l *Log) send(m *nats.Msg) (o outcome, sent bool) {
	err := l.nc.PublishMsg(m)
	switch {
	case err == nil:
		return outcome{}, true
	case errors.Is(err, nats.ErrMaxPayload):
		return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrTooLarge, err)}, false
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrConnectionReconnecting):
		return outcome{kind: untaken, err: err}, false
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrInvalidConnection), errors.Is(err, nats.ErrHeadersNotSupported):
		return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrRefused, err)}, false
	default: // the write broke off; the server may have all of it
		return outcome{kind: unknown, err: err}, false
	}
}

func (l *Log) answer(ctx context.Context, w *waiter, batch string, count int) outcome {
	timer := time.NewTimer(l.cfg.AckWait)
	defer timer.Stop()
	select {
	case r := <-w.final:
		return classify(r, batch, count)
	case <-timer.C:
		if subject, denies := deniedSubject(l.nc.LastError()); denies && strings.HasPrefix(subject, w.subjects) {
			return outcome{kind: denied, err: fmt.Errorf("%s: %w", subject, ErrForbidden)}
		}
		return outcome{kind: unknown, err: fmt.Errorf("no answer within %v", l.cfg.AckWait)}
	case <-ctx.Done():
		return outcome{kind: unknown, err: ctx.Err()}
	}
}

// classify tells what an answer means for a message or, with an id, for a batch
// of count messages.
func classify(r reply, batch string, count int) outcome {
	switch {
	case errors.Is(r.err, errForbidden):
		return outcome{kind: denied, err: fmt.Errorf("%w: %w", ErrForbidden, r.err)}
	case errors.Is(r.err, errNobody):
		return outcome{kind: untaken, err: r.err}
	case r.err != nil:
		return outcome{kind: unknown, err: r.err}
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Batch string              `json:"batch"`
		Count int                 `json:"count"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(r.data, &ack); err != nil {
		return outcome{kind: unknown, err: fmt.Errorf("an answer that is none of a stream's: %w", err)}
	}
	if ack.Error != nil {
		return classifyError(ack.Error)
	}
	if ack.Seq == 0 || ack.Batch != batch || batch != "" && ack.Count != count {
		return outcome{kind: unknown, err: errors.New("an answer that acknowledges something else")}
	}
	return outcome{kind: stored, seq: ack.Seq}
}

func classifyError(e *jetstream.APIError) outcome {
	switch e.ErrorCode {
	case codeWrongSequence:
		// The number is in the text and nowhere else.
		_, n, _ := strings.Cut(e.Description, ": ")
		actual, err := strconv.ParseUint(n, 10, 64)
		if err != nil {
			return outcome{kind: unknown, err: e}
		}
		return outcome{kind: moved, actual: actual, err: e}
	case codeTooManyOpen:
		return outcome{kind: crowded, err: e}
	case codeAccountFull, codeServerFull, codeMemoryFull, codeStorageFull:
		return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrFull, e)}
	case codeStoreFailed:
		// One code for every error of the store; the two limits are refused
		// before anything is written.
		if strings.HasPrefix(e.Description, "maximum ") {
			return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrFull, e)}
		}
		return outcome{kind: unknown, err: e}
	case codeMsgTooLarge:
		return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrTooLarge, e)}
	case codeInFlight, codeIncomplete:
		return outcome{kind: unknown, err: e}
	}
	if e.Code >= 400 && e.Code < 500 {
		return outcome{kind: refused, err: fmt.Errorf("%w: %w", ErrRefused, e)}
	}
	return outcome{kind: unknown, err: e}
}

// pace waits between attempts: 20 ms at first, then longer, at most 250 ms or
// what most says.
type pace struct{ d, most time.Duration }

func (p *pace) wait(ctx context.Context) error {
	p.d = min(max(20*time.Millisecond, p.d*2), cmp.Or(p.most, 250*time.Millisecond))
	t := time.NewTimer(p.d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
