package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

// The rules of settings documents that are about hand-overs and lifecycles.

// TestL43_AnUpdateWaitsForAHandOver, bounded; from a consumer of that hand-over it
// is refused at once; what refers to other leases goes on.
func TestL43_AnUpdateWaitsForAHandOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.Replace(appDefinition, "prepare_timeout: 2s", "prepare_timeout: 30s", 1)+otherDefinition)
	r.documents = "wait: 200ms"
	p := startPutting(r)
	s := &shop{rig: r}
	r.serve(s)
	p.awaitLease("other")
	p.await("the shop's lease", func() bool { return s.lease() != 0 })
	before := s.lease()
	p.must(p.put("app", 0, `{"x":1,"user":"lease://app#username"}`))
	p.must(p.put("free", 0, `{"x":1,"user":"lease://other#username"}`))
	user := p.user("app")

	s.hang(true)
	p.done(p.api().Rotate(aBit(t), "prod", "app"))
	p.await("the question", func() bool { return s.wasAsked(before) })
	var busy *api.Problem
	p.await("the update to be told busy", func() bool {
		_, err := p.set("app", p.revision("app"), "x", fmt.Sprint(time.Now().UnixNano()))
		return errors.As(err, &busy) && busy.Code == api.CodeBusy
	})
	_, err := p.update("app", api.DocumentUpdate{
		Expected: p.revision("app"), Consumer: "shop", Assign: []api.DocumentAssignment{{Path: "x", Value: []byte(`2`)}},
	})
	if problem := refusal(t, err); problem.Code != api.CodeRefused || !strings.Contains(problem.Message, "hand-over") {
		t.Errorf("from a consumer of the hand-over: %v", err)
	}
	p.must(p.set("free", 1, "x", `2`))
	// Nobody but the hand-over's consumers sees the candidate (D1).
	if got, err := p.read("app"); err != nil || got["user"] != user {
		t.Errorf("%v, %v", got, err)
	}
	s.hang(false)
	p.await("the successor", func() bool { return s.lease() > before })
	p.await("the update", func() bool {
		_, err := p.set("app", p.revision("app"), "x", `"late"`)
		return err == nil
	})
	if got, err := p.read("app"); err != nil || got["user"] != p.user("app") || got["user"] == user {
		t.Errorf("%v, %v", got, err)
	}
}

// TestL43_ARolledBackHandOverLeavesTheDocument as it was (L19), and frees it.
func TestL43_ARolledBackHandOverLeavesTheDocument(t *testing.T) {
	t.Parallel()
	p := newPutting(t, appDefinition)
	s := &shop{rig: p.rig}
	p.serve(s)
	p.await("the shop's lease", func() bool { return s.lease() != 0 })
	p.must(p.put("app", 0, `{"x":1,"user":"lease://app#username"}`))
	user := p.user("app")
	s.answer(errors.New("no"))
	p.done(p.api().Rotate(aBit(t), "prod", "app"))
	p.await("the roll back", func() bool { return p.count(events.TypeRolledBack) == 1 })
	p.await("the update", func() bool {
		_, err := p.set("app", p.revision("app"), "x", `2`)
		return err == nil
	})
	if got, err := p.read("app"); err != nil || got["user"] != user || got["x"] != 2.0 {
		t.Errorf("%v, %v, want %s", got, err, user)
	}
}

// TestL12_ACandidateMustHaveTheDocumentsKeys: one that lacks a key that a document
// refers to is rolled back, and nothing in the document changes.
func TestL12_ACandidateMustHaveTheDocumentsKeys(t *testing.T) {
	t.Parallel()
	p := newPutting(t, `  token:
    path: kv/token
    consumers: [{name: shop}]
    poll: 1s
    good_for: 200ms
`)
	p.do("kv/token", map[string]any{"user": "u1", "key": "k1"})
	h := consumer.Reconnect(func(context.Context, consumer.Credential) error { return nil })
	p.serveName("token", h)
	p.awaitLease("token")
	p.must(p.put("app", 0, `{"key":"lease://token#key"}`))
	p.do("kv/token", map[string]any{"user": "u2"})
	p.await("the roll back", func() bool { return p.count(events.TypeRolledBack) > 0 })
	for _, e := range p.events(events.TypePrepared) {
		if d := e.Data.(*events.Prepared); !d.Yes && !strings.Contains(d.Reason, "key") {
			t.Errorf("%+v", d)
		}
	}
	if got, err := p.read("app"); err != nil || got["key"] != "k1" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestL43_AnUpdateFailsOnceTheLifecycleHasEnded: one that waits for a hand-over is
// refused when the instance gives the scope back, and nothing of it is in the log.
func TestL43_AnUpdateFailsOnceTheLifecycleHasEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "shutdown_timeout: 300ms\n"
	r.definitions(1, strings.Replace(appDefinition, "prepare_timeout: 2s", "prepare_timeout: 60s", 1))
	r.documents = "wait: 60s"
	svc, stop := r.start("state-a")
	p := &putting{rig: r, key: svc.ServiceKey(), reader: r.reader()}
	s := &shop{rig: r}
	r.serve(s)
	p.await("the shop's lease", func() bool { return s.lease() != 0 })
	before := s.lease()
	p.must(p.put("app", 0, `{"x":1,"user":"lease://app#username"}`))
	s.hang(true)
	defer s.hang(false)
	p.done(p.api().Rotate(aBit(t), "prod", "app"))
	p.await("the question", func() bool { return s.wasAsked(before) })
	result := make(chan error, 1)
	go func() {
		u := api.DocumentUpdate{Expected: 1, Assign: []api.DocumentAssignment{{Path: "x", Value: []byte(`2`)}}, Until: time.Now().Add(time.Minute)}
		_, err := p.api().UpdateDocument(t.Context(), "prod", "app", p.key, u)
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(300 * time.Millisecond): // that it waits is seen by nothing else
	}
	if err := stop(); err == nil {
		t.Error("nothing was in flight: the test shows nothing")
	}
	var refused *api.Problem
	if err := <-result; err == nil || errors.As(err, &refused) && refused.Code != api.CodeNotLeading {
		t.Errorf("got %v", err)
	}
	if n := p.count(events.TypeUpdated); n != 1 {
		t.Errorf("%d updates are in the log", n)
	}
}

// TestALostContentCostsItsDocumentOnly: the others are read, hand-overs go on, and it
// can be put anew.
func TestALostContentCostsItsDocumentOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	svc, stop := r.start("state-a")
	p := &putting{rig: r, key: svc.ServiceKey(), reader: r.reader()}
	s := &shop{rig: r}
	r.serve(s)
	p.await("the shop's lease", func() bool { return s.lease() != 0 })
	p.must(p.put("app", 0, `{"x":1,"user":"lease://app#username"}`))
	p.must(p.put("other", 0, `{"x":2}`))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kv, err := r.nats.JS(t).KeyValue(t.Context(), "leasesvc_sealed")
	if err != nil {
		t.Fatal(err)
	}
	blob := p.events(events.TypeUpdated)[0].Data.(*events.Updated).Blob
	if err := kv.Purge(t.Context(), "prod._doc-app."+blob); err != nil {
		t.Fatal(err)
	}
	r.start("state-a")
	p.await("the other document", func() bool { got, err := p.read("other"); return err == nil && got["x"] == 2.0 })
	if _, err := p.api().ShowDocument(aBit(t), "prod", "app"); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("got %v", err)
	}
	before := s.lease()
	p.done(p.api().Rotate(aBit(t), "prod", "app"))
	p.await("a hand-over", func() bool { return s.lease() > before })
	p.must(p.put("app", 1, `{"x":3,"user":"lease://app#username"}`))
	if got, err := p.read("app"); err != nil || got["x"] != 3.0 || got["user"] != p.user("app") {
		t.Errorf("%v, %v", got, err)
	}
}

func (r *rig) serveName(name string, h consumer.Handler) {
	r.t.Helper()
	client, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "shop", Instance: "shop-0", Insecure: true,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- client.Serve(ctx, name, h) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the consumer ended with: %v", err)
		}
		client.Close()
	})
}
