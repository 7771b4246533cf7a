package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxOpenBatches is how many batches one instance has open at a stream, which
// takes 50 of all instances together.
const maxOpenBatches = 16

// Log is one stream, opened.
type Log struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	cfg Config
	api string
	// read is bound while direct get is off and never refreshed, so that its
	// reads go to the stream's leader for good.
	read    jetstream.Stream
	created time.Time
	alone   bool // it has one replica

	requests *requester
	batches  chan struct{}
	skipped  atomic.Uint64

	status chan nats.Status
	done   sync.WaitGroup
	closed sync.Once

	mu   sync.Mutex
	lost chan struct{} // closed when the connection is lost, then made anew
}

// OpenBatches gives how many atomic batches are on their way to the stream, of
// all writers of this log; at most 16.
func (l *Log) OpenBatches() int { return len(l.batches) }

// mostApart is up to how many events go faster one by one on a log that has one
// replica: there the server makes a store of its own for each batch, which takes as
// long as six events that are flushed to disk one after the other.
const mostApart = 6

// Apart gives up to how many events are in the log sooner when each is appended by
// itself, at least 1. It is only a matter of time: with more, or with fewer, all
// holds as well.
func (l *Log) Apart() int {
	if l.alone {
		return mostApart
	}
	return 1
}

// State is how full and how far the log is.
type State struct {
	Created           time.Time
	FirstSeq, LastSeq uint64
	Messages          uint64
	Bytes, MaxBytes   int64
	Replicas          int
	// Leader is the server that leads the stream; empty without a cluster.
	Leader string
}

// Open binds to the stream, creating it and setting what an update may set when
// cfg says so. Settings that differ from what the log needs give a
// [*SettingsError]; no stream and none to be created gives [ErrNoStream]. The
// connection should have been made with [ConnOptions].
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		nc: js.Conn(), js: js, cfg: cfg, api: apiPrefix(js.Options()),
		batches: make(chan struct{}, maxOpenBatches), lost: make(chan struct{}),
	}
	info, err := l.arrange(ctx)
	if err != nil {
		return nil, err
	}
	l.created, l.alone = info.Created, info.Config.Replicas == 1
	if l.read, err = js.Stream(ctx, cfg.Stream); err != nil {
		return nil, fmt.Errorf("binding to stream %s: %w", cfg.Stream, err)
	}
	if l.read.CachedInfo().Config.AllowDirect && !cfg.ReadOnly {
		return nil, fmt.Errorf("binding to stream %s: direct get was turned on meanwhile: %w", cfg.Stream, ErrSettings)
	}
	if l.requests, err = newRequester(l.nc); err != nil {
		return nil, err
	}
	l.status = l.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	l.done.Go(l.watch)
	return l, nil
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	default:
		return "$JS.API."
	}
}

// Close ends what the log owns. It does not close the connection.
func (l *Log) Close() {
	l.closed.Do(func() {
		l.nc.RemoveStatusListener(l.status)
		l.done.Wait()
		l.requests.close()
	})
}

// watch ends every wait for an answer when the connection is lost: the answer
// will not come.
func (l *Log) watch() {
	for range l.status {
		l.requests.fail(errLost)
		l.mu.Lock()
		close(l.lost)
		l.lost = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *Log) lostSignal() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Stream gives the stream's name.
func (l *Log) Stream() string { return l.cfg.Stream }

// Created gives the time of the stream's creation, which tells it from one that
// was made anew.
func (l *Log) Created() time.Time { return l.created }

// Skipped counts the messages that a writer met and skipped while it settled an
// outcome, because they were no events or not genuine.
func (l *Log) Skipped() uint64 { return l.skipped.Load() }

// Info reads the stream's state. A stream of the same name that is another one
// gives [ErrReplaced].
func (l *Log) Info(ctx context.Context) (State, error) {
	info, err := l.info(ctx)
	if err != nil {
		return State{}, err
	}
	if !info.Created.Equal(l.created) {
		return State{}, fmt.Errorf("stream %s was created %s, not %s: %w", l.cfg.Stream, info.Created, l.created, ErrReplaced)
	}
	return info.state(), nil
}

// Check looks at the settings again: an administrator may have changed them.
// Differences give a [*SettingsError].
func (l *Log) Check(ctx context.Context) error {
	info, err := l.info(ctx)
	if err != nil {
		return err
	}
	if !info.Created.Equal(l.created) {
		return fmt.Errorf("stream %s was created %s, not %s: %w", l.cfg.Stream, info.Created, l.created, ErrReplaced)
	}
	if diffs, _ := check(&info.Config, l.cfg, false); len(diffs) > 0 {
		return &SettingsError{Stream: l.cfg.Stream, Differences: diffs}
	}
	return nil
}

// arrange creates the stream or makes it what it must be, as far as it may.
func (l *Log) arrange(ctx context.Context) (*streamInfo, error) {
	info, err := l.info(ctx)
	if errors.Is(err, ErrNoStream) && l.cfg.Create {
		if err := l.create(ctx); err != nil {
			return nil, err
		}
		info, err = l.info(ctx)
	}
	if err != nil {
		return nil, err
	}
	diffs, fixable := check(&info.Config, l.cfg, l.cfg.Create)
	if len(diffs) == 0 || l.cfg.ReadOnly {
		return info, nil
	}
	refused := &SettingsError{Stream: l.cfg.Stream, Differences: diffs}
	if !fixable {
		return nil, refused
	}
	if _, refused.Update = l.js.UpdateStream(ctx, info.Config.StreamConfig); refused.Update != nil {
		return nil, refused
	}
	if info, err = l.info(ctx); err != nil {
		return nil, err
	}
	if refused.Differences, _ = check(&info.Config, l.cfg, false); len(refused.Differences) > 0 {
		return nil, refused
	}
	return info, nil
}

// createWithin is how long creating the stream is tried while the server can't.
const createWithin = 10 * time.Second

// create creates the stream, unless somebody else was faster. A cluster that is
// still forming finds no servers for it at first (10005); just after a stream of
// that name was deleted its files may be in the way (10049).
func (l *Log) create(ctx context.Context) error {
	until := time.Now().Add(createWithin)
	for p := (pace{}); ; {
		_, err := l.js.CreateStream(ctx, Settings(l.cfg))
		var api *jetstream.APIError
		noPeers := errors.As(err, &api) && api.ErrorCode == codeNoPeers
		switch {
		case err == nil, errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return nil
		case !noPeers && (api == nil || api.Code < 500), !noPeers && time.Now().After(until):
			return fmt.Errorf("creating stream %s: %w", l.cfg.Stream, unavailable(err))
		case time.Now().After(until):
			return fmt.Errorf("creating stream %s with %d replicas: fewer servers than that have JetStream, are up and have %d bytes of room: %w: %w",
				l.cfg.Stream, max(l.cfg.Replicas, 1), Settings(l.cfg).MaxBytes, ErrUnavailable, err)
		}
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("creating stream %s: %w", l.cfg.Stream, err)
		}
	}
}

// streamInfo is the part of the server's answer that we look at.
type streamInfo struct {
	Config  actual
	Created time.Time
	State   jetstream.StreamState
	Leader  string
}

func (i *streamInfo) state() State {
	return State{
		Created: i.Created, FirstSeq: i.State.FirstSeq, LastSeq: i.State.LastSeq, Messages: i.State.Msgs,
		Bytes: int64(i.State.Bytes), MaxBytes: i.Config.MaxBytes, Replicas: i.Config.Replicas, Leader: i.Leader,
	}
}

func (l *Log) info(ctx context.Context) (*streamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AckWait)
	defer cancel()
	m, err := l.nc.RequestWithContext(ctx, l.api+"STREAM.INFO."+l.cfg.Stream, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of stream %s: %w", l.cfg.Stream, unavailable(err))
	}
	var answer struct {
		Config  json.RawMessage       `json:"config"`
		Created time.Time             `json:"created"`
		State   jetstream.StreamState `json:"state"`
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, fmt.Errorf("reading the settings of stream %s: %w", l.cfg.Stream, err)
	}
	if e := answer.Error; e != nil {
		if e.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return nil, fmt.Errorf("stream %s: %w; create it (see leasesvc nats-setup --print)", l.cfg.Stream, ErrNoStream)
		}
		if e.Code >= 500 {
			return nil, fmt.Errorf("reading the settings of stream %s: %w: %w", l.cfg.Stream, ErrUnavailable, e)
		}
		return nil, fmt.Errorf("reading the settings of stream %s: %w", l.cfg.Stream, e)
	}
	info := &streamInfo{Created: answer.Created, State: answer.State, Leader: answer.Cluster.Leader}
	// What the client library does not know yet is read beside it.
	var more struct {
		AllowBatched bool `json:"allow_batched"`
	}
	if err := errors.Join(json.Unmarshal(answer.Config, &info.Config.StreamConfig), json.Unmarshal(answer.Config, &more)); err != nil {
		return nil, fmt.Errorf("reading the settings of stream %s: %w", l.cfg.Stream, err)
	}
	info.Config.allowBatched = more.AllowBatched
	return info, nil
}

// unavailable adds [ErrUnavailable] to an error of a request that is one.
func unavailable(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
