package service

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/vault"
)

// TestC18_ARotationByHandIsNoticedWithinAMinute: a static role's clock says
// nothing of it, so it is read that often at least, or each poll that is longer.
func TestC18_ARotationByHandIsNoticedWithinAMinute(t *testing.T) {
	for _, c := range []struct {
		clock time.Duration
		poll  string
		want  time.Duration
	}{
		{24 * time.Hour, "5", time.Minute},
		{24 * time.Hour, "600", 10 * time.Minute},
		{30 * time.Second, "5", 30 * time.Second},
		{30 * time.Second, "600", 30 * time.Second},
		{0, "5", time.Millisecond}, // about to turn: it has a clock all the same
	} {
		g := vault.Grant{Data: json.RawMessage(`{}`), LastRotation: time.Now(), RotatesIn: vault.DurationOf(c.clock)}
		got := rereadIn(&events.Definition{Poll: events.MustSeconds(c.poll)}, g)
		if got.Duration() != c.want {
			t.Errorf("clock %s, poll %s s: read again in %s", c.clock, c.poll, got)
		}
	}
	if got := rereadIn(nil, vault.Grant{RotatesIn: vault.DurationOf(time.Hour)}); got.Sign() != 0 {
		t.Errorf("a secret without a clock is read again in %s", got)
	}
}
