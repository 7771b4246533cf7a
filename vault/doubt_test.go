package vault

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestC52_500OnEveryPathPutsTheServerOut(t *testing.T) {
	f := newFake(t, says(500, `{"errors":["context deadline exceeded"]}`))
	c := f.client(t)
	for i := range 100 {
		_, err := c.Read(t.Context(), fmt.Sprintf("db-%d/creds/app", i%3), testGuard(), ReadOptions{})
		wantKind(t, err, KindTransient)
	}
	if n := len(f.requests("creds")); n != doubtsOut {
		t.Errorf("%d reads arrived, %d were to", n, doubtsOut)
	}
	// With one engine alone it shows by the tokens.
	f = newFake(t, says(500, `{"errors":["context deadline exceeded"]}`))
	c = f.client(t)
	for i := range 50 {
		_, err := c.CreateGuard(t.Context(), GuardOptions{})
		wantKind(t, err, KindTransient)
		_, err = c.RenewLease(t.Context(), fmt.Sprintf("db/creds/app/%d", i), time.Hour)
		wantKind(t, err, KindTransient)
	}
	if n := len(f.requests("")) - 1; n != doubtsOut {
		t.Errorf("%d requests arrived, %d were to", n, doubtsOut)
	}
}

// TestC39_AnEngineWhoseDatabaseIsDownDoesNotPutTheServerOut, whatever number of
// its roles and leases fail one after the other.
func TestC39_AnEngineWhoseDatabaseIsDownDoesNotPutTheServerOut(t *testing.T) {
	f := newFake(t, says(500, `{"errors":["failed to revoke: connection refused"]}`))
	c := f.client(t)
	for i := range 100 {
		role := fmt.Sprintf("db/creds/role-%d", i%10)
		for _, err := range []error{
			func() error { _, err := c.RevokeLease(t.Context(), fmt.Sprint(role, "/", i)); return err }(),
			func() error { _, err := c.RenewLease(t.Context(), fmt.Sprint(role, "/", i), time.Hour); return err }(),
			func() error { _, err := c.Read(t.Context(), role, testGuard(), ReadOptions{}); return err }(),
		} {
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindTransient || e.NotSent {
				t.Fatalf("number %d: %v", i, err)
			}
		}
	}
	if c.Circuit().Out {
		t.Error("the server is out")
	}
}

// TestC52_APortalsPageOnEveryPathPutsTheServerOut: whoever answers 200 with a page
// is not the server.
func TestC52_APortalsPageOnEveryPathPutsTheServerOut(t *testing.T) {
	f := newFake(t, says(200, `<html>please sign in</html>`))
	c := f.client(t)
	for i := range 100 {
		_, err := c.Read(t.Context(), fmt.Sprintf("db-%d/creds/app", i%3), testGuard(), ReadOptions{})
		wantKind(t, err, KindMalformed)
	}
	if n := len(f.requests("creds")); n != doubtsOut {
		t.Errorf("%d reads arrived, %d were to", n, doubtsOut)
	}
	if s := c.Stats(); s.Calls[Call{"read", KindMalformed}] != doubtsOut || s.Held != 100-doubtsOut || s.Outages != 1 || s.Calls[Call{"read", KindNone}] != 0 {
		t.Errorf("counted %+v", s)
	}
}
