package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestVerifiedRevocation(t *testing.T) {
	for name, try := range map[string]struct {
		lookup http.HandlerFunc
		is     error
		kind   Kind
	}{
		"gone":                {says(400, `{"errors":["invalid lease"]}`), nil, KindNone},
		"still there":         {says(200, `{"data":{"id":"l","ttl":77,"renewable":true}}`), ErrNotRevoked, KindConflict},
		"can't be told":       {says(403, `{"errors":["permission denied"]}`), nil, KindPermission},
		"not answered":        {says(500, `{"errors":["x"]}`), nil, KindTransient},
		"answered with waste": {says(200, `{}`), nil, KindMalformed},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/lookup") {
				try.lookup(w, r)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
		c := f.client(t)
		gone, err := c.RevokeLease(t.Context(), "db/creds/app/1", Verified())
		if gone || KindOf(err) != try.kind || try.is != nil && !errors.Is(err, try.is) {
			t.Errorf("%s: gone %t, %v", name, gone, err)
		}
		if _, err := c.RevokeLease(t.Context(), "db/creds/app/1"); err != nil {
			t.Error(err)
		}
		if n := len(f.requests("leases/lookup")); n != 1 {
			t.Errorf("%s: %d look-ups, only the verified one was to have one", name, n)
		}
	}
	f := newFake(t, says(400, `{"errors":["lease not found"]}`))
	if gone, err := f.client(t).RevokeLease(t.Context(), "l", Verified()); err != nil || !gone {
		t.Errorf("gone before: %t, %v", gone, err)
	}
	if _, err := f.client(t).RevokeLease(t.Context(), "", Verified()); !errors.Is(err, ErrEmptyLeaseID) {
		t.Errorf("C41: %v", err)
	}
}

// C39: revocations of an engine whose database is down fail one by one, definite
// and retryable, and neither stop the other mounts nor put the server out.
func TestC39_DatabaseDownWhileRevoking(t *testing.T) {
	down := true
	var mu sync.Mutex
	revoked := map[string]int{}
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		if r.URL.Path == lookupSelf {
			says(200, selfAnswer(3600, 0))(w, r)
			return
		}
		f.mu.Lock()
		id := fmt.Sprint(f.seen[len(f.seen)-1].body["lease_id"])
		f.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		if down && strings.HasPrefix(id, "db/") {
			says(500, `{"errors":["failed to revoke: connection refused"]}`)(w, r)
			return
		}
		revoked[id]++
		w.WriteHeader(http.StatusNoContent)
	})
	c := f.client(t)
	for i := range 30 {
		_, err := c.RevokeLease(t.Context(), fmt.Sprintf("db/creds/app/%d", i))
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindTransient || e.NotSent || e.Kind.Refusal() {
			t.Fatalf("number %d: %v", i, err)
		}
		if _, err := c.RevokeLease(t.Context(), fmt.Sprintf("mq/creds/app/%d", i)); err != nil {
			t.Fatalf("another mount: %v", err)
		}
	}
	mu.Lock()
	down = false
	mu.Unlock()
	for i := range 30 {
		if gone, err := c.RevokeLease(t.Context(), fmt.Sprintf("db/creds/app/%d", i)); err != nil || gone {
			t.Errorf("number %d: gone %t, %v", i, gone, err)
		}
	}
	if len(revoked) != 60 {
		t.Errorf("%d leases were revoked, 60 were to be", len(revoked))
	}
}

// C37: our token is gone when revoking: a refusal that is told from "the lease
// is gone", makes Run log in again, and works then.
func TestC37_TokenGoneWhileRevoking(t *testing.T) {
	o := newOffice(time.Hour, 0)
	c, _ := visitor(t, o, appRole("r"))
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.revoke("hvs.MadeAtTheOffice1")
	for _, revoke := range []func() (bool, error){
		func() (bool, error) { return c.RevokeLease(t.Context(), "l") },
		func() (bool, error) { return c.RevokeGuard(t.Context(), "acc") },
	} {
		if gone, err := revoke(); gone || KindOf(err) != KindPermission {
			t.Errorf("gone %t, %v", gone, err)
		}
	}
	running(t, c)
	eventually(t, "the lease is revoked under a new token", func() bool {
		_, err := c.RevokeLease(t.Context(), "l")
		return err == nil
	})
}

// C32: whatever moment of an acquisition the caller goes at, what is told is
// enough to account for what may be left: nothing, or something under a guard.
func TestC32_CancelledAtEachStepOfAnAcquisition(t *testing.T) {
	for _, step := range []string{"create/guard", "creds"} {
		t.Run(step, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, step) {
					cancel() // the effect is there, the answer never is
					<-r.Context().Done()
					return
				}
				says(200, `{"auth":{"client_token":"hvs.GuardGuardGuard","accessor":"gacc","lease_duration":60,"renewable":true,"token_type":"service","orphan":true}}`)(w, r)
			})
			c := f.client(t)
			g, err := c.CreateGuard(ctx, GuardOptions{})
			if step == "creds" {
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Read(ctx, "db/creds/app", &g, ReadOptions{})
			}
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindCanceled || !e.OutcomeUnknown || e.NotSent {
				t.Errorf("got %v", err)
			}
			if n := len(f.requests(step)); n != 1 {
				t.Errorf("%d requests arrived", n)
			}
			if _, err := c.Read(ctx, "db/creds/app", &g, ReadOptions{}); err == nil {
				t.Error("a read after the end")
			} else if !errors.As(err, &e) || e.OutcomeUnknown && step == "create/guard" {
				t.Errorf("a read after the end: %v", err)
			}
		})
	}
}

// C38: a consumer that is gone for good: its lease, then its guard, each once.
func TestC38_LeaseThenGuardAreGivenBack(t *testing.T) {
	f := newFake(t, says(204, ``))
	c := f.client(t)
	if _, err := c.RevokeLease(t.Context(), "db/creds/app/1"); err != nil {
		t.Error(err)
	}
	if _, err := c.RevokeGuard(t.Context(), "gacc"); err != nil {
		t.Error(err)
	}
	if r := f.requests("revoke"); len(r) != 2 || r[0].body["lease_id"] != "db/creds/app/1" || r[1].body["accessor"] != "gacc" {
		t.Errorf("sent %+v", r)
	}
}
