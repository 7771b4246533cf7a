package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestSettingsAreCheckedAndNamed(t *testing.T) {
	changes := map[string]func(*jetstream.StreamConfig){
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other.>") },
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage; c.MaxBytes = 1 << 20 },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"allow_msg_schedules": func(c *jetstream.StreamConfig) {
			c.AllowMsgSchedules = true
			c.AllowRollup = true
			c.DenyPurge = false
			c.Discard = jetstream.DiscardOld
		},
		"allow_msg_ttl":     func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true; c.AllowRollup = true; c.DenyPurge = false },
		"allow_rollup_hdrs": func(c *jetstream.StreamConfig) { c.AllowRollup = true; c.DenyPurge = false },
		"allow_direct":      func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"deny_delete":       func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"deny_purge":        func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"allow_atomic":      func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"max_msg_size":      func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 },
		"max_bytes":         func(c *jetstream.StreamConfig) { c.MaxBytes = -1 },
		"republish":         func(c *jetstream.StreamConfig) { c.RePublish = nil },
		"duplicate_window":  func(c *jetstream.StreamConfig) { c.Duplicates = 2 * time.Minute },
	}
	// What an update may change.
	fixed := map[string]bool{
		"allow_rollup_hdrs": true, "allow_direct": true, "deny_delete": true, "deny_purge": true,
		"allow_atomic": true, "max_msg_size": true, "max_bytes": true, "republish": true,
		"duplicate_window": true,
	}
	for setting, change := range changes {
		t.Run(setting, func(t *testing.T) {
			p := onOne(t)
			ctx := background(t)
			cfg := Settings(Config{})
			change(&cfg)
			if err := createSoon(ctx, p.admin, cfg); err != nil {
				t.Fatal(err)
			}
			_, err := Open(ctx, p.admin, Config{})
			var refused *SettingsError
			if !errors.As(err, &refused) || !errors.Is(err, ErrSettings) {
				t.Fatalf("got %v", err)
			}
			if !names(refused, setting) || !strings.Contains(err.Error(), setting) {
				t.Fatalf("it is not named: %v", err)
			}
			l, err := Open(ctx, p.admin, Config{Create: true})
			if !fixed[setting] {
				if !errors.As(err, &refused) || !names(refused, setting) {
					t.Fatalf("with leave to create: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("it could have been set: %v", err)
			}
			defer l.Close()
			if err := l.Check(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// createSoon tries again while the server is still removing the files of the
// stream before.
func createSoon(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (err error) {
	for p := (pace{}); ; {
		var api *jetstream.APIError
		if _, err = js.CreateStream(ctx, cfg); err == nil || !errors.As(err, &api) || api.ErrorCode != 10049 || p.wait(ctx) != nil {
			return err
		}
	}
}

func names(e *SettingsError, setting string) bool {
	for _, d := range e.Differences {
		if d.Setting == setting {
			return true
		}
	}
	return false
}

func TestOpenWithoutAStream(t *testing.T) {
	p := onOne(t)
	if _, err := Open(background(t), p.admin, Config{}); !errors.Is(err, ErrNoStream) {
		t.Fatalf("got %v", err)
	}
	if _, err := Open(background(t), p.admin, Config{Stream: "a.b"}); err == nil {
		t.Fatal("a stream name with a dot was taken")
	}
}

// TestFewGoApartOnOneReplica, where a small batch takes longer than they do.
func TestFewGoApartOnOneReplica(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		if n := p.open(t, "", nil).Apart(); (n > 1) != (p.replicas == 1) || n < 1 {
			t.Errorf("with %d replicas up to %d events go one by one", p.replicas, n)
		}
	})
}

func TestCheckSeesWhatAnAdministratorDoes(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", nil)
		ctx := background(t)
		if err := l.Check(ctx); err != nil {
			t.Fatal(err)
		}
		cfg := Settings(Config{Replicas: p.replicas, MaxBytes: 512 << 20})
		cfg.MaxMsgs, cfg.AllowDirect = 1_000_000, true
		if _, err := p.admin.UpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		var refused *SettingsError
		if err := l.Check(ctx); !errors.As(err, &refused) || !names(refused, "max_msgs") || !names(refused, "allow_direct") {
			t.Fatalf("got %v", err)
		}
		state, err := l.Info(ctx)
		if err != nil || state.Replicas != p.replicas || state.MaxBytes != 512<<20 || !state.Created.Equal(l.Created()) {
			t.Fatalf("%+v, %v", state, err)
		}
	})
}

// The rotation subject gets the hint without what the event says.
func TestInstalledIsRepublishedWithoutItsData(t *testing.T) {
	p := onOne(t)
	l := p.open(t, "", nil)
	sub, err := p.admin.Conn().SubscribeSync("rotation.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.admin.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background(t), 5*time.Second)
	defer cancel()
	if _, err := p.admin.Publish(ctx, "lease.s.db.installed", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil || m.Subject != "rotation.s.db" || len(m.Data) != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if state, err := l.Info(ctx); err != nil || fmt.Sprint(state.LastSeq) != m.Header.Get("Nats-Sequence") {
		t.Fatalf("%+v, %v, %v", state, m.Header, err)
	}
}

func TestSettingsUnknownToTheClientLibrary(t *testing.T) {
	p := onOne(t)
	raw, err := json.Marshal(Settings(Config{}))
	if err != nil {
		t.Fatal(err)
	}
	raw = []byte(strings.Replace(string(raw), "{", `{"allow_batched":true,`, 1))
	m, err := p.admin.Conn().Request("$JS.API.STREAM.CREATE."+DefaultStream, raw, 5*time.Second)
	if err != nil || strings.Contains(string(m.Data), `"error"`) {
		t.Fatalf("%s, %v", m.Data, err)
	}
	var refused *SettingsError
	if _, err := Open(background(t), p.admin, Config{Create: true}); !errors.As(err, &refused) || !names(refused, "allow_batched") {
		t.Fatalf("got %v", err)
	}
}
