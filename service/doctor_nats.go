package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// nats examines the connection to NATS and what is kept there.
func (x *exam) nats(ctx context.Context) {
	const about = "nats"
	url, opts, err := ClientOptions(x.cfg)
	if err != nil {
		x.problem(about, "settings", "correct the service file", "%s", oneLine(err))
		return
	}
	nc, err := nats.Connect(url, append(opts, nats.Name("leasesvc doctor"), nats.Timeout(answerWithin/2), nats.MaxReconnects(2))...)
	switch {
	case err != nil && x.cfg.NATS.Embedded != nil:
		x.unchecked(about, "connect", "start the service, and ask again", "the embedded server runs in the service, and nothing listens on %s: %v", x.cfg.NATS.Embedded.Listen, err)
		return
	case err != nil:
		x.problem(about, "connect", "check nats.url, the login, TLS and that the server runs", "%v", err)
		return
	}
	defer nc.Close()
	rtt, err := nc.RTT()
	if err != nil {
		x.problem(about, "connect", "check that the server runs", "connected, but it does not answer: %v", err)
		return
	}
	x.ok(about, "connect", "server version %s, answers in %s", nc.ConnectedServerVersion(), rtt.Round(10*time.Microsecond))
	js, err := jetstream.New(nc)
	if err != nil {
		x.problem(about, "jetstream", "see the message", "%v", err)
		return
	}
	if !x.jetstream(ctx, js) {
		return
	}
	x.stream(ctx, js)
	x.formats(ctx, js)
	x.epochs(ctx, js)
	x.sealed(ctx, js)
	x.syncAlways(nc)
}

func (x *exam) jetstream(ctx context.Context, js jetstream.JetStream) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		x.problem("nats", "jetstream", "enable JetStream for the server and the account", "%v", err)
		return false
	case errors.Is(err, nats.ErrNoResponders):
		x.problem("nats", "jetstream", "enable JetStream for the server and the account; a cluster needs a majority of its servers", "nobody answers for it: %v", err)
		return false
	case err != nil:
		x.unchecked("nats", "jetstream", "allow the user $JS.API.INFO", "it can't be asked about the account: %v", err)
		return true
	}
	x.ok("nats", "jetstream", "%s, %d bytes stored in the account", events.Counted(info.Streams, "stream"), info.Store)
	return true
}

// nearlyFull is the part of the stream's limit from which on no definition is
// taken.
const nearlyFull = 0.8

func (x *exam) stream(ctx context.Context, js jetstream.JetStream) {
	const about = "log"
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	n := &x.cfg.NATS
	l, err := journal.Open(ctx, js, journalOf(n))
	var differs *journal.SettingsError
	switch {
	case errors.Is(err, journal.ErrNoStream):
		x.ok(about, "stream", "there is no stream %s yet; the service makes it", n.Stream)
		return
	case errors.As(err, &differs):
		for _, d := range differs.Differences {
			x.problem(about, "stream settings", "restart the service, which sets what can be set; else change it as the stream's administrator", "stream %s: %s", n.Stream, d)
		}
		return
	case err != nil:
		x.problem(about, "stream", "see the message", "%s", oneLine(err))
		return
	}
	defer l.Close()
	st, err := l.Info(ctx)
	if err != nil {
		x.problem(about, "stream", "see the message", "%s", oneLine(err))
		return
	}
	says := fmt.Sprintf("stream %s, %s, %d of %d bytes, replicas %d", n.Stream, events.Counted(st.Messages, "event"), st.Bytes, st.MaxBytes, st.Replicas)
	if st.MaxBytes > 0 && float64(st.Bytes) >= nearlyFull*float64(st.MaxBytes) {
		x.problem(about, "stream", "raise nats.max_bytes and restart the service", "%s: no new definitions from 80 %% on, no rotations from 90 %% on", says)
	} else {
		x.ok(about, "stream", "%s; its settings are right", says)
	}
	sent := time.Now()
	if s, err := js.Stream(ctx, n.Stream); err == nil && !s.CachedInfo().TimeStamp.IsZero() {
		x.clock("nats", s.CachedInfo().TimeStamp, sent, time.Now(), 0)
	}
}

// formats looks whether this release can read what may be written into the logs,
// and whether an upgrade waits for its end.
func (x *exam) formats(ctx context.Context, js jetstream.JetStream) {
	const check = "upgrade"
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	stream, err := js.Stream(ctx, x.cfg.NATS.Stream)
	if err != nil {
		return // said already
	}
	for _, scope := range x.cfg.ScopeNames() {
		about := "scope " + scope
		var inForce events.Formats
		m, err := stream.GetLastMsgForSubject(ctx, events.Subject(scope, events.EpochName, events.TypeFormat))
		if err == nil {
			var e events.Event
			if e, err = events.Decode(m.Data, m.Sequence); err == nil {
				if d, ok := e.Data.(*events.Format); ok {
					inForce, err = d.Raised(m.Sequence)
				}
			}
		}
		var future *events.FutureError
		pending := events.Release().Above(inForce)
		switch {
		case errors.As(err, &future):
			x.problem(about, check, "run the release that the other instances run; docs/operations.md, Upgrade", "this release is behind the log and can't lead: %v", err)
		case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
			x.unchecked(about, check, "see the message", "%s", oneLine(err))
		case len(pending) > 0:
			x.add(about, check, VerdictOK, "when no instance of an earlier release will come back, run: leasesvc upgrade --finalize", "events of this release are not written yet: %s", pending)
		default:
			x.ok(about, check, "this release reads what may be written, and nothing waits to be finalized")
		}
	}
}

// epochs opens the bucket of epochs as a service would, under a holder's name
// that nobody ever sees again; it is not made.
func (x *exam) epochs(ctx context.Context, js jetstream.JetStream) {
	const about, check = "epochs", "bucket"
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	dir, err := os.MkdirTemp("", "leasesvc-doctor-")
	if err != nil {
		x.unchecked(about, check, "make room for temporary files", "%v", err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	state, err := epochkv.OpenStateDir(dir)
	if err != nil {
		x.unchecked(about, check, "see the message", "%s", oneLine(err))
		return
	}
	defer func() { _ = state.Close() }()
	cells, err := epochkv.Open(ctx, js, epochkv.Config{Replicas: x.cfg.NATS.Replicas, State: state, Instance: "doctor", Heartbeat: x.cfg.Heartbeat.Duration()})
	var wrong *epochkv.WrongSettings
	switch {
	case errors.Is(err, epochkv.ErrNoBucket):
		x.ok(about, check, "there is no bucket yet; the service makes it")
		return
	case errors.As(err, &wrong):
		for _, d := range wrong.Diff {
			x.problem(about, check, "change it as the stream's administrator", "stream %s: %s", wrong.Stream, d)
		}
		return
	case err != nil:
		x.problem(about, check, "see the message", "%s", oneLine(err))
		return
	}
	x.ok(about, check, "its settings are right, and a stale write was refused")
	var refused *epochkv.Refused
	switch err := cells.VerifyClaim(ctx, x.cfg.Project); {
	case errors.As(err, &refused):
		x.problem(about, "project", "correct project, or remove the claim if the reuse is intended", "%s", oneLine(err))
	case err != nil:
		x.problem(about, "project", "see the message", "%s", oneLine(err))
	case x.cfg.Project != "":
		x.ok(about, "project", "the bucket is ours (%s), or nobody's", x.cfg.Project)
	}
	for _, found := range cells.Neighbours(ctx, x.cfg.ScopeNames()...) {
		x.problem(about, "neighbours", "give the other product a bucket of its own", "%s", found)
	}
}

// sealed opens each scope's probe blob with the seal key.
func (x *exam) sealed(ctx context.Context, js jetstream.JetStream) {
	const about = "seal key"
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	kv, err := js.KeyValue(ctx, handover.BlobsBucket)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		x.ok(about, "sealed values", "there is no bucket of sealed values yet; the service makes it")
		return
	case err != nil:
		x.problem(about, "sealed values", "see the message", "%v", err)
		return
	case x.keys == nil:
		x.unchecked(about, "sealed values", "correct the seal key first", "without the key it can't be told whose they are")
		return
	}
	for _, scope := range x.cfg.ScopeNames() {
		check := "probe of " + scope
		const probe = "_probe"
		entry, err := kv.Get(ctx, scope+"."+probe)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			x.ok(about, check, "nothing is sealed yet")
			continue
		case err != nil:
			x.problem(about, check, "see the message", "%v", err)
			continue
		}
		_, err = x.keys.OpenAtRest(scope, probe, 0, entry.Value())
		switch {
		case errors.Is(err, wire.ErrSeal):
			x.problem(about, check, "give this instance the scope's seal key (seal_key.previous takes further ones)", "scope %s is sealed under another key", scope)
		case err != nil:
			x.problem(about, check, "see the message", "%s", oneLine(err))
		default:
			x.ok(about, check, "this key opens what is sealed")
		}
	}
}

// syncAlways looks whether the server writes each message to the disk before it
// says so. Only the system account may ask.
func (x *exam) syncAlways(nc *nats.Conn) {
	const check = "sync_always"
	if x.cfg.NATS.Embedded != nil {
		x.ok("nats", check, "the embedded server writes each message to the disk before it is acknowledged")
		return
	}
	const do = `set sync_interval: always in the server's jetstream section`
	answer, err := nc.Request("$SYS.REQ.SERVER.PING.JSZ", nil, time.Second)
	var told struct {
		Data *struct {
			Config *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"data"`
	}
	switch {
	case err != nil, json.Unmarshal(answer.Data, &told) != nil, told.Data == nil, told.Data.Config == nil:
		x.unchecked("nats", check, "look at the server's configuration: "+do, "only the system account can see it")
	case !told.Data.Config.SyncAlways && x.cfg.NATS.Replicas == 1:
		x.problem("nats", check, do, "with one replica, a power cut loses what was acknowledged in the last minutes")
	case !told.Data.Config.SyncAlways:
		x.add("nats", check, VerdictOK, do, "off: events are safe unless all %d replicas lose power at once", x.cfg.NATS.Replicas)
	default:
		x.ok("nats", check, "on")
	}
}
