package epochkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// entry is a cell as the stream leader has it. A deleted key is an entry
// without data: its marker's revision is what a create must replace.
type entry struct {
	revision uint64
	data     []byte
	stored   time.Time // by the server's clock
}

// store is the bucket as this package uses it: a read that the stream's leader
// answers, and a compare-and-set. Tests put faults between.
type store interface {
	// get returns errNotFound when there never was such a key.
	get(ctx context.Context, key string) (entry, error)
	// put writes key if its last revision is expected (0: never written) and
	// returns the new revision; errRefused when it is not, ErrInFlight,
	// ErrNotAuthorized or ErrUnknownOutcome otherwise.
	put(ctx context.Context, key string, expected uint64, data []byte) (uint64, error)
	// lastRevision is the newest revision of the whole bucket.
	lastRevision(ctx context.Context) (uint64, error)
	// created is the creation time of the bucket's stream.
	created(ctx context.Context) (time.Time, error)
}

// bucketStore is the store on JetStream.
type bucketStore struct {
	js      jetstream.JetStream
	bucket  string
	stream  jetstream.Stream // bound with allow_direct off, never refreshed: reads stay with the leader
	timeout time.Duration
}

func streamName(bucket string) string { return "KV_" + bucket }

func (s *bucketStore) subject(key string) string { return "$KV." + s.bucket + "." + key }

func (s *bucketStore) get(ctx context.Context, key string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	m, err := s.stream.GetLastMsgForSubject(ctx, s.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return entry{}, errNotFound
	}
	if err != nil {
		return entry{}, fmt.Errorf("reading key %s of bucket %s: %w", key, s.bucket,
			s.classify(err, "STREAM.MSG.GET."+streamName(s.bucket)))
	}
	if m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "" {
		return entry{revision: m.Sequence}, nil
	}
	return entry{revision: m.Sequence, data: m.Data, stored: m.Time}, nil
}

func (s *bucketStore) put(ctx context.Context, key string, expected uint64, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx,
		&nats.Msg{Subject: s.subject(key), Data: data},
		jetstream.WithExpectStream(streamName(s.bucket)),
		jetstream.WithExpectLastSequencePerSubject(expected),
		jetstream.WithRetryAttempts(0)) // the caller's loop is the retry, with its pace
	if err == nil {
		return ack.Sequence, nil
	}
	err = s.classify(err, s.subject(key))
	if !errors.Is(err, errRefused) && !errors.Is(err, ErrInFlight) && !errors.Is(err, ErrNotAuthorized) && !errors.Is(err, errNoBacking) {
		err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return 0, fmt.Errorf("writing key %s of bucket %s: %w", key, s.bucket, err)
}

func (s *bucketStore) lastRevision(ctx context.Context) (uint64, error) {
	info, err := s.info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

func (s *bucketStore) created(ctx context.Context) (time.Time, error) {
	info, err := s.info(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}

// info binds anew instead of refreshing s.stream, whose reads would follow an
// allow_direct that somebody turned on.
func (s *bucketStore) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st, err := s.js.Stream(ctx, streamName(s.bucket))
	if err != nil {
		return nil, fmt.Errorf("reading the state of stream %s: %w", streamName(s.bucket),
			s.classify(err, "STREAM.INFO."+streamName(s.bucket)))
	}
	return st.CachedInfo(), nil
}

// classify tells the kinds apart by code, never by text. The one exception is
// a denied publish, which looks like a time-out; only the connection's last
// error, with the subject in its text, says what it was.
func (s *bucketStore) classify(err error, subject string) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return fmt.Errorf("%w: %w", errRefused, err)
	case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("%w: %w", ErrInFlight, err)
	case isAuthorization(err):
		return fmt.Errorf("%w: %w", ErrNotAuthorized, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %w", errNoBacking, err)
	}
	last := s.js.Conn().LastError()
	switch {
	case last == nil:
	case errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), subject+`"`):
		return fmt.Errorf("%w: %w", ErrNotAuthorized, last)
	case !s.js.Conn().IsConnected() && isAuthorization(last):
		return fmt.Errorf("%w: %w", ErrNotAuthorized, last)
	}
	return err
}

// isAuthorization tells refused credentials from everything else (E12).
func isAuthorization(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		errors.Is(err, nats.ErrPermissionViolation)
}
