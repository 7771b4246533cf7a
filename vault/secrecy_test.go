package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// TestI7 lets a server say the tokens in every place where it can say
// something, and prints all that comes of it in every way.
func TestI7_NoTokenInErrorsWarningsOrLogs(t *testing.T) {
	guard := testGuard()
	const password = "pl4in-passw0rd"
	secrets := []string{plainToken, guard.Token.Reveal(), password, "hvs.S0mebodyElsesToken", "s.0ldStyleTokenOfSome"}
	words := strings.Join(secrets[:2], " ") + " hvs.S0mebodyElsesToken s.0ldStyleTokenOfSome"
	var printed bytes.Buffer
	text, jsonLog := slog.New(slog.NewTextHandler(&printed, nil)), slog.New(slog.NewJSONHandler(&printed, nil))
	show := func(values ...any) {
		for _, v := range values {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				fmt.Fprintf(&printed, verb+"\n", v)
			}
			text.Info("m", "v", v)
			jsonLog.Info("m", "v", v)
			if b, err := json.Marshal(v); err == nil {
				printed.Write(b)
			}
			if err, ok := v.(error); ok {
				for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(e) {
					fmt.Fprintf(&printed, "%v %+v\n", e, e)
				}
			}
		}
	}
	answers := []http.HandlerFunc{
		says(200, fmt.Sprintf(`{"lease_id":"l","lease_duration":"%s","renewable":true,"warnings":["%s"],"data":{"username":"u","password":"%s"},"auth":{"client_token":"hvs.S0mebodyElsesToken","accessor":"a","lease_duration":60,"renewable":true,"token_type":"service"}}`, words, words, password)),
		says(200, fmt.Sprintf(`{"data":{"%s":1,"%s":2}}`, plainToken, plainToken)),
		says(200, fmt.Sprintf(`{"lease_id":7,"data":"%s"}`, words)),
		says(200, words),
		says(400, fmt.Sprintf(`{"errors":["%s"]}`, words)),
		says(500, words),
		says(403, fmt.Sprintf(`{"errors":["token %s is bad","postgres://u:%s@h/d"]}`, words, password)),
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:1/"+plainToken+"?t="+plainToken)
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+plainToken+".example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for _, answer := range answers {
		f := newFake(t, answer)
		c := f.client(t)
		g, err := c.CreateGuard(t.Context(), GuardOptions{})
		show(g, &g, err)
		grant, err := c.Read(t.Context(), "db/creds/app", guard, ReadOptions{})
		show(grant, &grant, err)
		kv, err := c.Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true})
		show(kv, err)
		r, err := c.RenewLease(t.Context(), "l", time.Hour)
		show(r, &r, err)
		_, err = c.LookupLease(t.Context(), "l")
		show(err)
		_, err = c.LookupGuard(t.Context(), "a")
		show(err)
		_, err = c.ExtendGuard(t.Context(), "a", time.Hour)
		show(err)
		_, err = c.RevokeLease(t.Context(), "l")
		show(err)
		_, err = c.RevokeGuard(t.Context(), "a")
		show(err)
		_, err = c.Health(t.Context())
		show(err, c.renewSelf(t.Context(), c.token))
		show(c, c.cfg, c.Token(), c.token, request{token: c.ownToken()}, tokenGrant{value: c.ownToken()}, guard)
		pki, err := c.Read(t.Context(), "pki/issue/app", guard, ReadOptions{PKI: true, Method: http.MethodPost, Params: map[string]any{"secret": password}})
		show(pki, err, ReadOptions{Params: map[string]any{"secret": password}})
		_, err = c.RevokeLease(t.Context(), "l", Verified())
		show(err)
		_, err = c.CheckGuard(t.Context(), time.Hour)
		show(err, c.Circuit())
		fmt.Fprintln(&printed, f.logged())
		f.Config.Handler = answer
		wrapped := Login{AppRole: &AppRole{RoleID: Source{Value: secret.New(password)}, SecretID: Source{Value: secret.New(plainToken)}, Wrapped: true}}
		for _, login := range []Login{
			wrapped, {AppRole: &AppRole{RoleID: Source{Value: secret.New(password)}, SecretID: Source{Value: secret.New(plainToken)}}},
			{JWT: &JWT{Role: "r", Token: Source{Value: secret.New(plainToken)}}},
		} {
			with := f.stranger(t, func(cfg *Config) { cfg.Token, cfg.Login = secret.String{}, login })
			show(with.Login(t.Context()), with.Token(), with, with.cfg, login, with.unwrapped, with.gate.status())
		}
		show(f.stranger(t).Login(t.Context()))
		fmt.Fprintln(&printed, f.logged())
	}
	out := printed.String()
	for _, s := range secrets {
		if at := strings.Index(out, s); at >= 0 {
			t.Errorf("a secret was printed: ...%s", out[max(0, at-300):at])
		}
		if strings.Contains(out, fmt.Sprintf("%x", s)) {
			t.Error("a secret was printed as hex")
		}
	}
	if strings.Count(out, "[redacted]") < 50 {
		t.Error("hardly anything was redacted: the test printed nothing")
	}
}
