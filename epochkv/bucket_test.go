package epochkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestOpenCreatesBindsAndRefuses(t *testing.T) {
	js := connect(t, runServer(t).ClientURL())
	state, err := OpenStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	cfg := Config{Bucket: "b", State: state}
	if _, err := Open(t.Context(), js, cfg); !errors.Is(err, ErrNoBucket) {
		t.Fatalf("%v, want ErrNoBucket", err)
	}
	cfg.Create = true
	c, err := Open(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	info := st.CachedInfo()
	if got := info.Config; got.AllowDirect || got.MaxMsgsPerSubject != 1 || got.Storage != jetstream.FileStorage {
		t.Errorf("created with %+v", got)
	}
	if !c.BucketCreated().Equal(info.Created) {
		t.Errorf("created %s, want %s", c.BucketCreated(), info.Created)
	}
	if _, err := Open(t.Context(), js, cfg); err != nil {
		t.Errorf("binding: %v", err)
	}

	for setting, edit := range map[string]func(*jetstream.StreamConfig){
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = 1e12 },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"allow_msg_ttl":        func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
	} {
		name := strings.ReplaceAll(setting, "_", "-")
		sc := StreamConfig(name, 1)
		edit(&sc)
		if _, err := js.CreateStream(t.Context(), sc); err != nil {
			t.Fatal(err)
		}
		cfg := cfg
		cfg.Bucket = name
		_, err := Open(t.Context(), js, cfg)
		var wrong *WrongSettings
		if !errors.As(err, &wrong) || len(wrong.Diff) != 1 || !strings.HasPrefix(wrong.Diff[0], setting) {
			t.Errorf("%s: %v, want that difference named", setting, err)
		}
		st, err := js.Stream(t.Context(), "KV_"+name)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.CachedInfo().Config; fmt.Sprint(settingsDiff(got, cfg)) != fmt.Sprint(wrong.Diff) {
			t.Errorf("%s: the stream was changed", setting)
		}
	}
}

func TestE15_AForeignProjectIsRefused(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	put := func(value string) {
		t.Helper()
		e, err := a.faults.real.get(t.Context(), claimKey)
		if err != nil && !errors.Is(err, errNotFound) {
			t.Fatal(err)
		}
		if _, err := a.faults.real.put(t.Context(), claimKey, e.revision, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.VerifyClaim(t.Context(), "mine"); err != nil {
		t.Errorf("no claim: %v, want fine", err)
	}
	a.reset()
	if err := a.VerifyClaim(t.Context(), ""); err != nil || len(a.gets) != 0 {
		t.Errorf("no project: %v, read %v", err, a.gets)
	}
	if err := a.ClaimProject(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
	if err := a.VerifyClaim(t.Context(), "mine"); err != nil {
		t.Errorf("own claim: %v", err)
	}
	var refused *Refused
	for what, err := range map[string]error{
		"verify": a.VerifyClaim(t.Context(), "other"), "claim": a.ClaimProject(t.Context(), "other"),
	} {
		if !errors.As(err, &refused) || refused.Owner != "mine" {
			t.Errorf("%s: %v, want refused", what, err)
		}
	}
	for _, bad := range []string{`{}`, `{"project":""}`, `not json`, `{"project":7}`} {
		put(bad)
		if err := a.VerifyClaim(t.Context(), "mine"); err == nil || errors.As(err, new(*Refused)) {
			t.Errorf("claim %s: %v, want an error that is not Refused", bad, err)
		}
	}
	a.beforeGet = func(string) error { return errDown }
	if err := a.VerifyClaim(t.Context(), "mine"); !errors.Is(err, errDown) {
		t.Errorf("unreadable: %v, want an error", err)
	}
}

func TestE16_NeighboursAreToldAndErrorsSwallowed(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.lead("x")
	if got := a.Neighbours(t.Context(), "x"); len(got) != 0 {
		t.Errorf("alone: %v", got)
	}
	kv, err := js.KeyValue(t.Context(), DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"leader", "scope.y"} {
		if _, err := kv.Put(t.Context(), key, []byte("host-17")); err != nil {
			t.Fatal(err)
		}
	}
	a.reset()
	got := a.Neighbours(t.Context(), "x", "y")
	if len(got) != 2 || !strings.Contains(got[0], "leader") || !strings.Contains(got[1], "scope.y") {
		t.Errorf("%v, want both named", got)
	}
	if slices.ContainsFunc(a.gets, func(k string) bool { return strings.ContainsAny(k, "*>") }) || len(a.puts) != 0 {
		t.Errorf("read %v, wrote %v: want exact keys and no write", a.gets, a.puts)
	}
	if _, err := a.ClaimStep(t.Context(), "y", 0); !errors.Is(err, ErrForeignCell) {
		t.Errorf("claiming over another product: %v", err)
	}
	a.beforeGet = func(string) error { return errDown }
	if got := a.Neighbours(t.Context()); len(got) != 0 {
		t.Errorf("unreadable: %v, want nothing", got)
	}
}

func TestE20_AStoreThatIgnoresCompareAndSetIsRefused(t *testing.T) {
	js := connect(t, runServer(t).ClientURL())
	if _, err := js.CreateStream(t.Context(), StreamConfig("b", 1)); err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	honest := &bucketStore{js: js, bucket: "b", stream: st, timeout: heartbeat * 10}
	if err := probe(t.Context(), honest, heartbeat/100); err != nil {
		t.Fatalf("an honest store: %v", err)
	}
	if err := probe(t.Context(), &faults{real: honest, ignoreCAS: func(string) bool { return true }}, heartbeat/100); !errors.Is(err, ErrIgnoresCAS) {
		t.Errorf("ignores every expectation: %v", err)
	}
	n := 0
	stale := &faults{real: honest, ignoreCAS: func(string) bool { n++; return n == 4 }} // two writes, the create, the stale update
	if err := probe(t.Context(), stale, heartbeat/100); !errors.Is(err, ErrIgnoresCAS) {
		t.Errorf("ignores a stale update: %v", err)
	}
	old := &faults{real: honest, answerGet: staleAfter(1)}
	if err := probe(t.Context(), old, heartbeat/100); !errors.Is(err, ErrStaleReads) {
		t.Errorf("reads from a stale replica: %v", err)
	}
	busy := 0
	racing := &faults{real: honest, beforePut: func(string) error {
		if busy++; busy <= 3 {
			return fmt.Errorf("test: %w", []error{errRefused, ErrInFlight, errCut}[busy-1])
		}
		return nil
	}}
	if err := probe(t.Context(), racing, heartbeat/100); err != nil || busy < 4 {
		t.Errorf("another instance probing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := probe(ctx, &faults{real: honest, beforePut: func(string) error { return errDown }}, heartbeat); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// staleAfter answers the first n reads as they are and then from long before.
func staleAfter(n int) func(entry) entry {
	return func(e entry) entry {
		if n--; n < 0 {
			e.revision -= 2
		}
		return e
	}
}

func TestE20_ReadsThatDecideGoToTheLeader(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a := start(t, js, clk, "")
	a.lead("x")
	sub, err := js.Conn().SubscribeSync("$JS.API.DIRECT.>")
	if err != nil {
		t.Fatal(err)
	}
	leader, err := js.Conn().SubscribeSync("$JS.API.STREAM.MSG.GET.KV_" + DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	// Somebody turns direct get on while we run.
	sc := StreamConfig(DefaultBucket, 1)
	sc.AllowDirect = true
	if _, err := js.UpdateStream(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	if _, err := a.real.lastRevision(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.step("x")
	if _, err := a.Look(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := sub.Pending(); n != 0 {
		t.Errorf("%d direct gets", n)
	}
	if n, _, _ := leader.Pending(); n < 3 {
		t.Errorf("%d reads of the leader, want 3", n)
	}
}
