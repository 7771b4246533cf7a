package vault

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestC18_StaticRoleHasItsOwnClock(t *testing.T) {
	answer := `{"lease_id":"","lease_duration":0,"renewable":false,"data":{"username":"app","password":"p1","ttl":120,"rotation_period":3600,"last_vault_rotation":"2026-01-02T03:04:05.123456789Z"}}`
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { says(200, answer)(w, r) })
	c := f.client(t)
	read := func() Grant {
		t.Helper()
		g, err := c.Read(t.Context(), "db/static-creds/app", nil, ReadOptions{StaticRole: true})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := read()
	if first.RotatesIn.Std() != 2*time.Minute || !first.TTL.IsZero() || first.LeaseID != "" || !first.LastRotation.Equal(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)) {
		t.Errorf("%s, rotates in %s s, last %s", first, first.RotatesIn, first.LastRotation)
	}
	answer = strings.Replace(answer, `"ttl":120`, `"ttl":60`, 1)
	same := read()
	if string(same.Lasting()) != string(first.Lasting()) || string(same.Data) == string(first.Data) {
		t.Errorf("a read later the same credential looks changed: %s and %s", first.Lasting(), same.Lasting())
	}
	// A manual rotation in between: the clock goes up, the rotation is another.
	answer = strings.NewReplacer(`"ttl":60`, `"ttl":3600`, "p1", "p2", "03:04:05", "04:00:00").Replace(answer)
	rotated := read()
	if rotated.LastRotation.Equal(first.LastRotation) || string(rotated.Lasting()) == string(first.Lasting()) {
		t.Error("a rotation in between is not noticed")
	}
	for body, want := range map[string]struct {
		in      string
		suspect string
	}{
		`{"data":{"password":"p","ttl":-3,"last_vault_rotation":"2026-01-02T03:04:05Z"}}`:   {"0", "negative"},
		`{"data":{"password":"p","ttl":"90","last_vault_rotation":"2026-01-02T03:04:05Z"}}`: {"90", "text"},
		`{"data":{"password":"p","last_vault_rotation":"2026-01-02T03:04:05Z"}}`:            {"0", "absent"},
		`{"data":{"password":"p","ttl":9,"last_vault_rotation":null}}`:                      {"9", ""},
	} {
		g, err := newFake(t, says(200, body)).client(t).Read(t.Context(), "x", nil, ReadOptions{StaticRole: true})
		if err != nil || g.RotatesIn.String() != want.in || want.suspect != "" && !strings.Contains(g.Suspect, want.suspect) {
			t.Errorf("%s: rotates in %s, %q, %v", body, g.RotatesIn, g.Suspect, err)
		}
	}
	for _, body := range []string{`{"data":{"password":"p"}}`, `{"data":{"password":"p","ttl":9,"last_vault_rotation":"yesterday"}}`} {
		_, err := newFake(t, says(200, body)).client(t).Read(t.Context(), "x", nil, ReadOptions{StaticRole: true})
		wantKind(t, err, KindMalformed)
	}
}

func TestPKICertificateHasItsOwnExpiry(t *testing.T) {
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, try := range map[string]struct {
		body      string
		ahead     time.Duration // of the server's clock
		low, high time.Duration
		suspect   string
	}{
		"no lease":              {fmt.Sprintf(`{"lease_id":"","lease_duration":0,"data":{"expiration":%d}}`, in(time.Hour)), 0, 59*time.Minute + 57*time.Second, time.Hour, ""},
		"as a text":             {fmt.Sprintf(`{"data":{"expiration":"%d"}}`, in(time.Hour)), 0, 59*time.Minute + 57*time.Second, time.Hour, ""},
		"a lease ends before":   {fmt.Sprintf(`{"lease_id":"pki/issue/app/1","lease_duration":600,"data":{"expiration":%d}}`, in(time.Hour)), 0, 10 * time.Minute, 10 * time.Minute, ""},
		"it ends before":        {fmt.Sprintf(`{"lease_id":"pki/issue/app/1","lease_duration":7200,"data":{"expiration":%d}}`, in(time.Hour)), 0, 59*time.Minute + 57*time.Second, time.Hour, ""},
		"the server is ahead":   {fmt.Sprintf(`{"data":{"expiration":%d}}`, in(time.Hour)), 20 * time.Minute, 39*time.Minute + 55*time.Second, 40 * time.Minute, ""},
		"the server is behind":  {fmt.Sprintf(`{"data":{"expiration":%d}}`, in(time.Hour)), -20 * time.Minute, 59*time.Minute + 57*time.Second, time.Hour, ""},
		"it has expired":        {fmt.Sprintf(`{"data":{"expiration":%d}}`, in(-time.Hour)), 0, 0, 0, "expired"},
		"it ends in a thousand": {`{"data":{"expiration":33317740800}}`, 0, MaxDuration, MaxDuration, "ten years"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(try.ahead).UTC().Format(http.TimeFormat))
				says(200, try.body)(w, r)
			})
			g, err := f.client(t).Read(t.Context(), "pki/issue/app", testGuard(), ReadOptions{PKI: true, Method: http.MethodPost, Params: map[string]any{"common_name": "app.internal"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := g.TTL.Std(); got < try.low || got > try.high {
				t.Errorf("TTL %s, want %s to %s", got, try.low, try.high)
			}
			if g.Expires.IsZero() || try.suspect != "" && !strings.Contains(g.Suspect, try.suspect) || try.suspect == "" && g.LeaseID == "" && g.Suspect != "" {
				t.Errorf("expires %s, suspect %q", g.Expires, g.Suspect)
			}
			if r := f.requests("pki"); len(r) != 1 || r[0].method != http.MethodPost || r[0].body["common_name"] != "app.internal" {
				t.Errorf("sent %+v", r)
			}
		})
	}
	for _, body := range []string{`{"data":{"certificate":"x"}}`, `{"data":{"expiration":"soon"}}`, `{"data":{"expiration":-1}}`, `{"data":{"expiration":1e30}}`, `{"data":{"expiration":{}}}`} {
		_, err := newFake(t, says(200, body)).client(t).Read(t.Context(), "pki/issue/app", nil, ReadOptions{PKI: true})
		wantKind(t, err, KindMalformed)
	}
}

func TestKVVersions(t *testing.T) {
	meta := func(version int, deleted string, destroyed bool) string {
		return fmt.Sprintf(`{"data":{"data":null,"metadata":{"version":%d,"deletion_time":%q,"destroyed":%t}}}`, version, deleted, destroyed)
	}
	for name, try := range map[string]struct {
		body string
		want error
	}{
		"deleted":           {meta(3, "2026-01-02T03:04:05Z", false), ErrDeleted},
		"destroyed":         {meta(3, "", true), ErrDestroyed},
		"deleted, then all": {meta(3, "2026-01-02T03:04:05Z", true), ErrDestroyed},
	} {
		_, err := newFake(t, says(404, try.body)).client(t).Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true})
		if !errors.Is(err, try.want) || KindOf(err) != KindNotFound || !strings.Contains(err.Error(), "version 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := newFake(t, says(404, `{"errors":[]}`)).client(t).Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true})
	if KindOf(err) != KindNotFound || errors.Is(err, ErrDeleted) || errors.Is(err, ErrDestroyed) {
		t.Errorf("never there: %v", err)
	}
	f := newFake(t, says(200, `{"data":{"data":{"k":1},"metadata":{"version":2}}}`))
	if g, err := f.client(t).Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true, Version: 2}); err != nil || g.Version != 2 {
		t.Error(err)
	}
	if r := f.requests("secret"); r[0].query != "version=2" || r[0].method != http.MethodGet {
		t.Errorf("sent %+v", r)
	}
}

func TestReadWithMethodAndParams(t *testing.T) {
	f := newFake(t, says(200, `{"lease_id":"l","lease_duration":60,"data":{"k":{"nested":{"deep":[1,null]}}}}`))
	c := f.client(t)
	for _, method := range []string{"", http.MethodGet, http.MethodPost, http.MethodPut} {
		g, err := c.Read(t.Context(), "any/path", nil, ReadOptions{Method: method, Params: map[string]any{"ttl": "1h", "n": 3}})
		if err != nil || string(g.Data) != `{"k":{"nested":{"deep":[1,null]}}}` {
			t.Fatalf("%s: %s, %v", method, g.Data, err)
		}
		sent := f.requests("any")
		r := sent[len(sent)-1]
		if r.method == http.MethodGet && r.query != "n=3&ttl=1h" || r.method != http.MethodGet && (r.body["ttl"] != "1h" || r.query != "") || r.method != or(method, http.MethodGet) {
			t.Errorf("sent %+v", r)
		}
	}
	before := len(f.requests(""))
	for name, opts := range map[string]ReadOptions{
		"DELETE":            {Method: http.MethodDelete},
		"get":               {Method: "get"},
		"two engines":       {PKI: true, KVv2: true},
		"version, no KV":    {Version: 1},
		"version, negative": {KVv2: true, Version: -1},
		"version by POST":   {KVv2: true, Version: 1, Method: http.MethodPost},
		"nested query":      {Params: map[string]any{"a": map[string]any{}}},
	} {
		_, err := c.Read(t.Context(), "any/path", nil, opts)
		if KindOf(err) != KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(f.requests("")) - before; n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	if s := fmt.Sprintf("%v %+v", ReadOptions{Params: map[string]any{"password": "hunter2"}}, ReadOptions{Params: map[string]any{"password": "hunter2"}}); strings.Contains(s, "hunter2") {
		t.Error("parameters are printed")
	}
}

func TestC30_APostIsSentOnceToo(t *testing.T) {
	d := newDropper(t, map[string]string{lookupSelf: selfAnswer(3600, 0)}, "")
	c := d.client(t)
	_, err := c.Read(t.Context(), "pki/issue/app", testGuard(), ReadOptions{PKI: true, Method: http.MethodPost})
	var e *Error
	if !errors.As(err, &e) || !e.OutcomeUnknown {
		t.Errorf("got %v", err)
	}
	if n := d.count("/v1/pki/issue/app"); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestC17_CredentialWithoutLeaseSaysSo(t *testing.T) {
	f := newFake(t, says(200, `{"lease_id":"","lease_duration":0,"renewable":false,"data":{"k":1},"warnings":["TTL of 0 is treated as system default"]}`))
	g, err := f.client(t).Read(t.Context(), "any/creds/app", testGuard(), ReadOptions{})
	if err != nil || g.LeaseID != "" || !g.TTL.IsZero() || g.Suspect != "" || len(g.Warnings) != 1 {
		t.Errorf("%s, suspect %q, warnings %q, %v", g, g.Suspect, g.Warnings, err)
	}
	if !g.TokenExpires.IsZero() {
		t.Error("a secret without lease ends with a token")
	}
}
