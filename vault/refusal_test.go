package vault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

func TestC52_NodeNotActive(t *testing.T) {
	for _, message := range []string{"node not active but active cluster node not found", "local node not active but active cluster node not found", "Vault is in standby mode"} {
		f := newFake(t, says(500, `{"errors":["`+message+`"]}`))
		c := f.client(t)
		_, err := c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
		wantKind(t, err, KindStandby)
		_, err = c.RenewLease(t.Context(), "db/creds/app/1", time.Hour)
		wantKind(t, err, KindStandby)
		if KindOf(err).Refusal() {
			t.Error("a standby's answer would make us acquire afresh")
		}
	}
}

func TestC53_StatusesAreToldApart(t *testing.T) {
	for _, try := range []struct {
		status  int
		body    string
		kind    Kind
		unknown bool
	}{
		{400, `{"errors":["missing field"]}`, KindRefused, false},
		{401, `{"errors":[]}`, KindPermission, false},
		{403, `{"errors":["permission denied"]}`, KindPermission, false},
		{404, `{"errors":[]}`, KindNotFound, false},
		{404, `<html>not here</html>`, KindMalformed, false},
		{405, `{"errors":["unsupported operation"]}`, KindRefused, false},
		{409, `{"errors":["conflict"]}`, KindConflict, false},
		{412, `{"errors":["required index state not present"]}`, KindConflict, false},
		{429, `{"errors":["request path: rate limit quota exceeded"]}`, KindQuota, false},
		{472, `{"errors":[]}`, KindStandby, false},
		{473, `{"errors":[]}`, KindStandby, false},
		{474, `{"errors":[]}`, KindStandby, false},
		{500, `{"errors":["internal error"]}`, KindTransient, false},
		{500, `upstream fell over`, KindTransient, true},
		{501, `{"errors":[]}`, KindUninitialised, false},
		{502, `<html>bad gateway</html>`, KindTransient, true},
		{503, `{"errors":["Vault is sealed"]}`, KindSealed, false},
		{503, `{"errors":["Vault is not initialized"]}`, KindUninitialised, false},
		{503, `<html>try later</html>`, KindTransient, true},
		{504, ``, KindTransient, true},
		{302, ``, KindRedirect, false},
		{204, ``, KindMalformed, true},
	} {
		t.Run(fmt.Sprint(try.status, " ", try.body), func(t *testing.T) {
			f := newFake(t, says(try.status, try.body))
			_, err := f.client(t).Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != try.kind || e.Status != try.status || e.OutcomeUnknown != try.unknown {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestC53_RetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "-1": 0, "99999999": time.Hour, "soon": 0, "": 0} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", value)
			says(429, `{"errors":["quota"]}`)(w, r)
		})
		_, err := f.client(t).Read(t.Context(), "db/creds/app", nil, ReadOptions{})
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindQuota || e.RetryAfter != want {
			t.Errorf("Retry-After %q: %v, want %s", value, err, want)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := retryAfter("Fri, 02 Jan 2026 03:04:35 GMT", now); got != 30*time.Second {
		t.Errorf("a date 30 s ahead gave %s", got)
	}
}

func TestC53_412IsRepeatedForLookUpsOnly(t *testing.T) {
	answers := 0
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		answers++
		if answers%3 != 0 {
			says(412, `{"errors":["required index state not present"]}`)(w, r)
			return
		}
		says(200, `{"data":{"id":"l","ttl":60,"renewable":true}}`)(w, r)
	})
	c := f.client(t)
	if _, err := c.LookupLease(t.Context(), "l"); err != nil || answers != 3 {
		t.Errorf("after two 412: %v, %d requests", err, answers)
	}
	answers = 0
	_, err := c.RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindConflict)
	if answers != 1 {
		t.Errorf("a renewal was sent %d times", answers)
	}
	always := newFake(t, says(412, `{"errors":[]}`))
	_, err = always.client(t).LookupLease(t.Context(), "l")
	wantKind(t, err, KindConflict)
	if n := len(always.requests("lookup")) - 1; n != 3 {
		t.Errorf("%d look-ups arrived, 3 were to", n)
	}
}

func TestC53_RedirectIsFollowedOnceWithTheToken(t *testing.T) {
	const body = `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`
	same := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/db/creds/app" {
			http.Redirect(w, r, "/v1/other/creds/app?x=1", http.StatusTemporaryRedirect)
			return
		}
		says(200, body)(w, r)
	})
	g, err := same.client(t).Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	if err != nil || g.LeaseID != "l" {
		t.Fatalf("same host: %v", err)
	}
	to := same.requests("/v1/other/creds/app")
	if len(to) != 1 || to[0].token != testGuard().Token.Reveal() || to[0].query != "x=1" || to[0].method != http.MethodGet {
		t.Errorf("what arrived at the place named: %+v", to)
	}

	renewals := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sys/leases/renew" {
			w.Header().Set("Location", "/v1/active/renew")
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		says(200, body)(w, r)
	})
	if _, err := renewals.client(t, func(c *Config) { c.Namespace = "team" }).RenewLease(t.Context(), "l", time.Hour); err != nil {
		t.Fatal(err)
	}
	if to := renewals.requests("/v1/active/renew"); len(to) != 1 || to[0].method != http.MethodPost || to[0].body["lease_id"] != "l" || to[0].namespace != "team" {
		t.Errorf("a redirected renewal arrived as %+v", to)
	}

	twice := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	_, err = twice.client(t).Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	wantKind(t, err, KindRedirect)
	if n := len(twice.requests("creds")); n != 2 {
		t.Errorf("%d requests arrived, 2 were to", n)
	}
}

func TestC53_RedirectThatWouldGiveTheTokenAwayIsNotFollowed(t *testing.T) {
	stranger := newFake(t, says(200, `{"data":{"k":1}}`))
	for _, location := range []string{stranger.URL + "/v1/x", "http://127.0.0.2:1/v1/x", "ftp://127.0.0.1/x", "https://u:p@127.0.0.1/x", "%zz", ""} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Location"] = []string{location}
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		_, err := f.client(t).Read(t.Context(), "db/creds/app", nil, ReadOptions{})
		wantKind(t, err, KindRedirect)
	}
	if n := len(stranger.requests("")); n != 0 {
		t.Errorf("another host got %d requests", n)
	}
	// From https to http, even on the same host; to https elsewhere is allowed.
	var plain *httptest.Server
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(secure.Close)
	arrivedPlain := 0
	plain = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrivedPlain++ }))
	t.Cleanup(plain.Close)
	c, err := New(Config{Address: secure.URL, Token: secret.New(plainToken), TLS: TLS{SkipVerify: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	wantKind(t, c.Login(t.Context()), KindRedirect)
	if arrivedPlain != 0 {
		t.Error("the token went from https to http")
	}
	active := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") == plainToken {
			_, _ = io.WriteString(w, selfAnswer(60, 0))
		}
	}))
	t.Cleanup(active.Close)
	standby := newFake(t, nil)
	standby.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, active.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	if err := standby.stranger(t, func(cfg *Config) { cfg.TLS.SkipVerify = true }).Login(t.Context()); err != nil {
		t.Errorf("to https elsewhere: %v", err)
	}
}

func TestC53_Health(t *testing.T) {
	const doc = `{"initialized":true,"sealed":false,"standby":true,"version":"2.5.0","server_time_utc":1700000000}`
	for status, want := range map[int]struct {
		state  Kind
		serves bool
	}{200: {KindNone, true}, 429: {KindStandby, true}, 472: {KindStandby, false}, 473: {KindStandby, true}, 474: {KindStandby, false}, 501: {KindUninitialised, false}, 503: {KindSealed, false}} {
		f := newFake(t, says(status, doc))
		h, err := f.stranger(t, func(cfg *Config) { cfg.Namespace = "team" }).Health(t.Context())
		if err != nil || h.State != want.state || h.Serves() != want.serves || h.Status != status || h.Version != "2.5.0" || h.ServerTime.Unix() != 1700000000 {
			t.Errorf("%d: %+v, %v", status, h, err)
		}
		if r := f.requests("sys/health"); len(r) != 1 || r[0].token != "" || r[0].namespace != "" {
			t.Errorf("%d: arrived as %+v", status, r)
		}
	}
	for status, want := range map[int]Kind{200: KindMalformed, 204: KindMalformed, 404: KindNotFound, 429: KindQuota, 500: KindTransient, 503: KindTransient} {
		_, err := newFake(t, says(status, `{"errors":["x"]}`)).stranger(t).Health(t.Context())
		if KindOf(err) != want && status != 429 {
			t.Errorf("%d without a health document: %v, want %s", status, err, want)
		}
		if err == nil {
			t.Errorf("%d without a health document is taken for one", status)
		}
	}
}

func TestMessagesAreBoundedAndRedacted(t *testing.T) {
	long := strings.Repeat("x", 5000)
	f := newFake(t, says(400, fmt.Sprintf(`{"errors":["%s","a\nb","postgres://admin:pg-pass-1@db/x","password=pg-pass-2 \"token\": \"pg-pass-3\"","PASSWORD 'pg-pass-4'","6","7"]}`, long)))
	_, err := f.client(t).Read(t.Context(), "db/creds/app", nil, ReadOptions{})
	var e *Error
	if !errors.As(err, &e) || len(e.Messages) != maxMessages || len(e.Messages[0]) > maxMessageBytes+3 || e.Messages[1] != "a b" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "pg-pass") {
		t.Errorf("a secret came through: %v", err)
	}
}
