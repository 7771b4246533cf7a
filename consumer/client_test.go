package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

func mustKey(t *testing.T) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestGet(t *testing.T) {
	s := newStage(t)
	c := s.client()
	if _, err := c.Get(within(5*time.Second), "db"); !errors.Is(err, consumer.ErrNone) {
		t.Errorf("nothing committed: %v", err)
	}
	if _, err := c.Get(within(5*time.Second), "nope"); !errors.Is(err, consumer.ErrUnknownName) {
		t.Errorf("unknown name: %v", err)
	}
	s.holder.Install("db", s.holder.Candidate("v-1", `{"username":"v-1","password":"pw-1","port":5432,"big":9007199254740993,"off":false,"nil":null,"zero":0,"tree":{"a.b":[1]}}`))
	cred, err := c.Get(within(5*time.Second), "db")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"password": "pw-1", "port": "5432", "big": "9007199254740993", "off": "false", "nil": "null", "zero": "0", "tree": `{"a.b":[1]}`} {
		if v, ok := cred.Get(key); !ok || v.Reveal() != want { // L54: presence decides
			t.Errorf("%s is %q, %v", key, v.Reveal(), ok)
		}
	}
	if _, ok := cred.Get("absent"); ok || cred.Lease != 1 || cred.Public != "v-1" || time.Until(cred.GoodUntil) > 30*time.Second {
		t.Errorf("%+v", cred)
	}
	some, err := c.Get(within(5*time.Second), "db", "password")
	if err != nil || len(some.Keys()) != 1 {
		t.Errorf("%v, %v", some.Keys(), err)
	}
	if _, err := c.Get(within(5*time.Second), "db", "absent"); !errors.Is(err, consumer.ErrUnknownKey) {
		t.Errorf("unknown key: %v", err)
	}
	if _, err := c.Get(within(5*time.Second), "not.a.name"); !errors.Is(err, wire.ErrToken) {
		t.Errorf("bad name: %v", err)
	}
	printed := fmt.Sprintf("%v %+v %#v %s", cred, &cred, cred, cred)
	asJSON, _ := json.Marshal(cred)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", cred)
	if strings.Contains(printed+string(asJSON)+log.String(), "pw-1") {
		t.Errorf("printed: %s %s %s", printed, asJSON, log.String())
	}
}

func TestGetIgnoresForgedAnswersAndWaitsForTheHolder(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	forger := consumertest.Start(t, s.connect(), "prod") // answers too, under its own key
	forger.Define("db")
	forger.Install("db", forger.Candidate("evil", `{"password":"pw-evil"}`))
	c := s.client()
	for range 20 {
		cred, err := c.Get(within(10*time.Second), "db")
		if err != nil || cred.Public != "v-1" {
			t.Fatalf("%v, %v", cred, err)
		}
	}
	forger.Mute(true)
	s.holder.Mute(true)
	got := make(chan error, 1)
	go func() { _, err := c.Get(within(20*time.Second), "db"); got <- err }()
	s.holder.Mute(false)
	if err := <-got; err != nil {
		t.Error(err)
	}
	s.holder.Mute(true)
	if _, err := c.Get(within(200*time.Millisecond), "db"); !errors.Is(err, consumer.ErrUnavailable) {
		t.Error(err)
	}
}

func TestC58_ARefusedCredentialIsReported(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	c := s.client()
	cred, err := c.Get(within(5*time.Second), "db")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ReportRefused(within(5*time.Second), cred, errors.New("28P01 for v-1 with pw-1")); err != nil {
		t.Fatal(err)
	}
	r := s.holder.Reports()
	if len(r) != 1 || r[0].Lease != 1 || r[0].Proven != s.key || r[0].Reason != "28P01 for v-1 with [redacted]" {
		t.Errorf("%+v", r)
	}
}

func TestInsecureTrustsWhoAnswersFirst(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	c := s.client(func(o *consumer.Options) { o.ServiceKey, o.Seed, o.Insecure = "", secret.String{}, true })
	if cred, err := c.Get(within(5*time.Second), "db"); err != nil || cred.Lease != 1 {
		t.Errorf("%v, %v", cred, err)
	}
	if !strings.Contains(s.log.String(), s.holder.ServiceKey()) {
		t.Error("not said whom it trusts")
	}
}

func TestInsecureConsumerIsServed(t *testing.T) {
	s := newStage(t)
	insecure := consumertest.Start(t, s.nc, "dev")
	insecure.Define("db")
	insecure.Install("db", insecure.Candidate("v-1", `{"password":"pw-1"}`))
	a := newActor(t)
	s.serve(s.client(func(o *consumer.Options) {
		o.Scope, o.ServiceKey, o.Seed, o.Insecure = "dev", "", secret.String{}, true
	}), a)
	insecure.AwaitRegistered("db", 1)
	if _, err := insecure.Rotate(within(5*time.Second), "db", insecure.Candidate("v-2", `{"password":"pw-2"}`), 5*time.Second); err != nil {
		t.Error(err)
	}
	a.await("commit 1, prepare 2, commit 2")
}

func TestWatch(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := s.client().Watch(ctx, "db")
	if err != nil {
		t.Fatal(err)
	}
	next := func() uint64 {
		t.Helper()
		select {
		case c, ok := <-w:
			if !ok {
				t.Fatal("closed")
			}
			return c.Lease
		case <-time.After(10 * time.Second):
			t.Fatal("nothing in 10 s")
		}
		return 0
	}
	for lease := uint64(1); lease <= 3; lease++ {
		if got := next(); got != lease {
			t.Fatalf("lease %d, want %d", got, lease)
		}
		s.holder.Install("db", s.candidate(int(lease)+1))
	}
	cancel()
	for limit := time.After(10 * time.Second); ; {
		select {
		case _, ok := <-w:
			if !ok {
				return
			}
		case <-limit:
			t.Fatal("not closed in 10 s")
		}
	}
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	s := newStage(t)
	curve, _ := nkeys.CreateCurveKeys()
	curveSeed, _ := curve.Seed()
	good := consumer.Options{Conn: s.nc, Scope: "prod", Consumer: "api", Seed: s.seed, ServiceKey: s.holder.ServiceKey()}
	for name, change := range map[string]func(*consumer.Options){
		"no seed":        func(o *consumer.Options) { o.Seed = secret.String{} },
		"a curve seed":   func(o *consumer.Options) { o.Seed = secret.New(string(curveSeed)) },
		"garbage seed":   func(o *consumer.Options) { o.Seed = secret.New("SUgarbage") },
		"no service key": func(o *consumer.Options) { o.ServiceKey = "" },
		"a user key":     func(o *consumer.Options) { o.ServiceKey = s.key },
		"scope":          func(o *consumer.Options) { o.Scope = "a.b" },
		"consumer":       func(o *consumer.Options) { o.Consumer = "" },
		"instance":       func(o *consumer.Options) { o.Instance = "host.domain" },
	} {
		o := good
		change(&o)
		if _, err := consumer.Connect(context.Background(), o); err == nil || strings.Contains(err.Error(), "garbage") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := consumer.Connect(context.Background(), good)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := c.Get(within(time.Second), "db"); !errors.Is(err, consumer.ErrClosed) {
		t.Error(err)
	}
	if err := c.Serve(within(time.Second), "db", nil); !errors.Is(err, consumer.ErrClosed) {
		t.Error(err)
	}
}

// TestSeveralServiceKeysCanBePinned, and are told to the service.
func TestSeveralServiceKeysCanBePinned(t *testing.T) {
	s := newStage(t)
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	other, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, pin := range map[string]func(*consumer.Options){
		"the service's among others": func(o *consumer.Options) {
			o.ServiceKey, o.ServiceKeys = other, []string{s.holder.ServiceKey(), other}
		},
		"in the list alone": func(o *consumer.Options) {
			o.ServiceKey, o.ServiceKeys = "", []string{other, s.holder.ServiceKey()}
		},
	} {
		c := s.client(pin)
		if _, err := c.Get(t.Context(), "db"); err != nil && !errors.Is(err, consumer.ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := consumer.Options{Conn: s.nc, Scope: "prod", Consumer: "api", Seed: s.seed, ServiceKey: s.holder.ServiceKey(), ServiceKeys: []string{s.key}}
	if _, err := consumer.Connect(t.Context(), bad); err == nil {
		t.Error("a user key was pinned")
	}
}
