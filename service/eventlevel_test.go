package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/service/metrics"
	"github.com/leasesvc/leasesvc/vault"
)

// levels are those of each event type as the golden files have them.
var levels = map[events.Type]string{
	events.TypeOrphaned: "ERROR", events.TypePaused: "WARN", events.TypeAcquireFailed: "WARN", events.TypeVerifyFailed: "WARN",
	events.TypeRenewFailed: "WARN", events.TypeRevokeFailed: "WARN", events.TypeRollbackStarted: "WARN", events.TypeExpired: "WARN",
	events.TypeRejected: "WARN", events.TypeRetired: "WARN", // the golden one cuts somebody off
}

// TestEveryEventIsOneLineOfTheLog: in JSON and as text, at its level, with what
// finds it again; and with nothing of an event that is no one's business.
func TestEveryEventIsOneLineOfTheLog(t *testing.T) {
	for _, typ := range events.Types() {
		payload, err := os.ReadFile(filepath.Join("..", "events", "testdata", "golden", string(typ)+".v1.json"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(bytes.TrimSpace(payload), 42)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		if a, ok := e.Data.(*events.Acquired); ok {
			a.Guard, a.Fingerprint = "guard-accessor", "a-fingerprint"
		}
		for _, format := range []string{"json", "text"} {
			var out bytes.Buffer
			var h slog.Handler = slog.NewTextHandler(&out, nil)
			if format == "json" {
				h = slog.NewJSONHandler(&out, nil)
			}
			s := &Service{}
			s.metrics = metrics.New(figures{s}, metrics.Options{})
			sc := &scope{svc: s, name: "prod", log: slog.New(h).With("scope", "prod")}
			sc.tellEvent(&e)
			var line string
			for l := range strings.Lines(out.String()) {
				if strings.Contains(l, `"msg":"event"`) || strings.Contains(l, "msg=event") {
					if line != "" {
						t.Errorf("%s has two lines", typ)
					}
					line = l
				}
			}
			for _, fragment := range []string{"guard-accessor", "fingerprint"} {
				if strings.Contains(line, fragment) {
					t.Errorf("%s: %q is in its line: %s", typ, fragment, line)
				}
			}
			if format == "text" {
				if !strings.Contains(line, "type="+string(typ)) || !strings.Contains(line, "seq=42") || !strings.Contains(line, "says=") {
					t.Errorf("%s as text: %s", typ, line)
				}
				continue
			}
			var is struct {
				Level, Msg, Scope, Type, Says string
				Seq, Epoch                    uint64
				Time                          time.Time
			}
			if err := json.Unmarshal([]byte(line), &is); err != nil {
				t.Fatalf("%s: %v: %s", typ, err, line)
			}
			want := levels[typ]
			if want == "" {
				want = "INFO"
			}
			if is.Level != want || is.Scope != "prod" || is.Type != string(typ) || is.Seq != 42 || is.Epoch != e.Epoch || is.Says == "" || is.Time.IsZero() {
				t.Errorf("%s at %s: %+v", typ, want, is)
			}
		}
	}
}

// TestLevelsDependOnHowItEnded, where a type says it both ways.
func TestLevelsDependOnHowItEnded(t *testing.T) {
	for _, c := range []struct {
		data events.Data
		want slog.Level
	}{
		{&events.RolledBack{Safe: true}, slog.LevelInfo},
		{&events.RolledBack{}, slog.LevelWarn},
		{&events.Retired{Reason: events.RetiredReplaced}, slog.LevelInfo},
		{&events.Retired{Reason: events.RetiredOverdue, CutOff: []string{"x"}}, slog.LevelWarn},
		{&events.Left{Reason: events.LeftByItself}, slog.LevelInfo},
		{&events.Left{Reason: events.LeftSilent}, slog.LevelWarn},
	} {
		if got := levelOf(&events.Event{Data: c.data}); got != c.want {
			t.Errorf("%+v: %s, not %s", c.data, got, c.want)
		}
	}
}

// TestI7_WhatHoldsSecretsIsLoggedWithoutThem: by type, however it is logged.
func TestI7_WhatHoldsSecretsIsLoggedWithoutThem(t *testing.T) {
	const canary = "canary-9f2c"
	raw := json.RawMessage(`{"password":"` + canary + `"}`)
	for name, v := range map[string]any{
		"a secret":              secret.New(canary),
		"values":                wire.Values(raw),
		"an answer to a get":    wire.Got{Values: wire.Values(raw)},
		"a registration's":      wire.Answer{Values: wire.Values(raw)},
		"a message":             wire.Message{Values: wire.Values(raw)},
		"a document":            wire.Document{Content: wire.Values(raw)},
		"a grant":               vault.Grant{Data: raw},
		"an adoption":           api.Adoption{Values: raw},
		"definitions":           api.Definitions{Content: raw},
		"a document's update":   api.DocumentUpdate{Content: raw},
		"what a caller gets":    Got{Values: wire.Values(raw)},
		"a connection's config": config.Vault{Token: secret.New(canary)},
	} {
		for what, h := range map[string]func(*bytes.Buffer) slog.Handler{
			"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
			"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		} {
			var out bytes.Buffer
			slog.New(h(&out)).LogAttrs(context.Background(), slog.LevelInfo, "x", slog.Any("v", v))
			if out.Len() == 0 || strings.Contains(out.String(), canary) {
				t.Errorf("%s as %s: %s", name, what, out.String())
			}
		}
		switch v.(type) {
		case api.Adoption, api.Definitions, api.DocumentUpdate:
			continue // their bytes would have to be read off numbers; only slog is used on them
		}
		for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, canary) {
				t.Errorf("%s by %s: %s", name, verb, out)
			}
		}
	}
}
