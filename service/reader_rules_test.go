package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
)

// What readers get: L53 to L55.

// TestL53_L55_ExpiredIsNeverHandedOut: while Vault gives nothing new, readers get
// what lives and then an error that says so; it is not counted either.
func TestL53_L55_ExpiredIsNeverHandedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, "3s", "3s")
	r.definitions(1, otherDefinition)
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	r.vault.Inject(devvault.Fault{Path: "database/creds/app", Status: 503, Body: `{"errors":["away"]}`})
	r.vault.Inject(devvault.Fault{Path: "sys/leases/renew*", Status: 503, Body: `{"errors":["away"]}`})
	ends := r.vault.Leases()[0].Expires
	reader, got := r.reader(), 0
	var err error
	r.await("the end", func() bool {
		asked := time.Now()
		var c consumer.Credential
		c, err = reader.Get(aBit(t), "other")
		if err != nil {
			return true
		}
		if got++; !asked.Before(ends) || c.ExpiresAt.After(ends) || c.GoodUntil.After(c.ExpiresAt) {
			t.Fatalf("asked at %v for what Vault ended at %v: ends %v, good until %v", asked, ends, c.ExpiresAt, c.GoodUntil)
		}
		return false
	})
	if got == 0 || !errors.Is(err, consumer.ErrExpired) && !errors.Is(err, consumer.ErrNone) {
		t.Errorf("%d answers, then %v", got, err)
	}
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil || st.Names != 1 || st.Usable != 0 {
		t.Errorf("%d of %d are usable, %v", st.Usable, st.Names, err)
	}
}

// TestL53_ABusyHolderKnowsTheEnd: a credential ends for readers though the holder
// has not got round to recording it.
func TestL53_ABusyHolderKnowsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "3s", "3s")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	reader, busy, held, until := r.reader(), make(chan struct{}), make(chan error, 1), make(chan struct{})
	free := sync.OnceFunc(func() { close(until) })
	defer free()
	go func() {
		held <- service.Decide(context.Background(), svc, "prod", leasecore.Tick{}, func(*leasecore.State) {
			close(busy)
			<-until
		})
	}()
	<-busy
	var err error
	r.await("the end", func() bool {
		_, err = reader.Get(aBit(t), "other")
		return err != nil
	})
	free()
	if !errors.Is(err, consumer.ErrExpired) {
		t.Errorf("%v", err)
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// TestL54_PresenceDecides, not truth; and what is not there is told apart (L53).
func TestL54_PresenceDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	values := map[string]any{"false": false, "zero": 0, "null": nil, "empty": "", "list": []any{}}
	r.do("kv2/data/token", map[string]any{"data": values})
	r.definitions(1, tokenDefinition+appDefinition)
	r.run("state-a")
	r.await("the secret", func() bool { return r.active("token") == 1 })
	reader := r.reader()
	for key, want := range map[string]string{"false": "false", "zero": "0", "null": "null", "empty": "", "list": "[]"} {
		c, err := reader.Get(aBit(t), "token", key)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if v, ok := c.Get(key); !ok || v.Reveal() != want || len(c.Keys()) != 1 {
			t.Errorf("%s: %q, %t, of %v", key, v.Reveal(), ok, c.Keys())
		}
	}
	all, err := reader.Get(aBit(t), "token")
	if err != nil || len(all.Keys()) != len(values) {
		t.Errorf("%v, %v", all.Keys(), err)
	}
	for what, c := range map[string]struct {
		name, key string
		err       error
	}{
		"unknown name":      {"nobody", "key", consumer.ErrUnknownName},
		"unknown key":       {"token", "absent", consumer.ErrUnknownKey},
		"none is there yet": {"app", "username", consumer.ErrNone},
	} {
		if _, err := reader.Get(aBit(t), c.name, c.key); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestC58_AReportedCredentialIsReplaced: once, however often it is said.
func TestC58_AReportedCredentialIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	reader := r.reader()
	c, err := reader.Get(aBit(t), "other")
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("28P01: role does not exist")
	if err := reader.ReportRefused(aBit(t), c, refused); err != nil {
		t.Fatal(err)
	}
	r.await("a successor", func() bool { return r.active("other") == 2 })
	if err := reader.ReportRefused(aBit(t), c, refused); err != nil { // it has been replaced
		t.Error(err)
	}
	if c, err = reader.Get(aBit(t), "other"); err != nil || c.Lease != 2 {
		t.Fatalf("%v, %v", c, err)
	}
	err = reader.ReportRefused(aBit(t), c, refused)
	var told wire.Refusal
	if !errors.As(err, &told) || told.Code != wire.CodeWaiting {
		t.Errorf("%v", err)
	}
	asked := r.events(events.TypeRequested)
	if len(asked) != 2 || asked[1].Data.(*events.Requested).Reason != events.ReasonReported ||
		!strings.HasPrefix(asked[1].Actor.Name, "consumer/") {
		t.Errorf("%+v", asked)
	}
}
