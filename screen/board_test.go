package screen_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/screen"
	"github.com/leasesvc/leasesvc/service/api"
)

var update = flag.Bool("update", false, "write the golden frames anew")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func seen(at time.Time, seq uint64) screen.Seen {
	lease := func(name, state string, no uint64, left time.Duration) api.Lease {
		l := api.Lease{Name: name, State: state, Active: no, Path: "main/database/creds/" + name, Public: "v-" + name, Acquired: at.Add(-10 * time.Minute), Next: at.Add(5 * time.Minute)}
		if left != 0 {
			l.Expires = at.Add(left)
		}
		return l
	}
	none := lease("broken", "waiting: the last attempt failed (permission)", 0, 0)
	none.Acquired, none.Failure = time.Time{}, &events.Failure{Kind: "permission", Message: "Vault said no"}
	failing := lease("failing", "active", 7, 20*time.Minute)
	failing.Failure = &events.Failure{Kind: "timeout", Message: "no answer"}
	moving := lease("moving", "asking 1 consumer to follow to lease 9", 8, 40*time.Minute)
	moving.Others = []string{"9 handing-over"}
	moving.Consumers = []api.Consumer{{Consumer: "api", Instance: "i-0", Incarnation: "A", Follows: true}, {Consumer: "api", Instance: "i-1", Incarnation: "B"}}
	soon := lease("soon", "active", 3, 30*time.Second)
	soon.Consumers = []api.Consumer{{Consumer: "api", Instance: "i-0", Incarnation: "A", Follows: true}}
	return screen.Seen{Time: at, Scopes: []screen.Scope{
		{
			Name:   "prod",
			Status: api.Status{Scope: "prod", Holder: "host-a", Epoch: 12, Since: at.Add(-time.Hour), LastSeq: seq, Names: 5, Usable: 4, Vaults: []api.Vault{{Name: "main", LoggedIn: true}, {Name: "other", Problem: "permission denied"}}, Notes: []string{"insecure_consumers is set"}},
			Leases: api.Leases{Scope: "prod", Time: at, Names: []api.Lease{none, failing, lease("mail", "active", 1, 0), moving, soon}},
		},
		{Name: "test", Problem: "no instance leads the scope"},
	}}
}

// golden compares a frame with the one that is kept.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

func press(b *screen.Board, keys ...string) {
	for _, k := range keys {
		b.Key(k)
	}
}

func board() *screen.Board {
	b := &screen.Board{}
	b.Take(seen(now.Add(-2*time.Second), 100))
	b.Take(seen(now, 105))
	return b
}

func TestFrames(t *testing.T) {
	golden(t, "nothing-seen", (&screen.Board{}).Render(60, 5, false))
	golden(t, "urgency", board().Render(110, 16, false))
	golden(t, "colours", board().Render(110, 16, true))
	golden(t, "narrow", board().Render(40, 9, false))
	b := board()
	press(b, "s", "s")
	golden(t, "by-time-left", b.Render(110, 16, false))
	b = board()
	press(b, "/", "m", "a", "x", "backspace", "i")
	golden(t, "typing", b.Render(110, 12, false))
	press(b, "enter")
	golden(t, "filtered", b.Render(110, 12, false))
	b = board()
	press(b, "down", "down", "enter")
	b.Tell("prod", "moving", []string{"12:00:00 lease 9 is granted", "12:00:01 the hand-over to lease 9 begins"})
	golden(t, "looked-into", b.Render(110, 20, false))
}

func TestKeysMoveWithinWhatThereIs(t *testing.T) {
	b := board()
	press(b, "up", "up")
	for range 20 {
		press(b, "down")
	}
	press(b, "enter")
	if r := b.Looked(); r == nil || r.Lease.Name != "mail" {
		t.Errorf("the last row is %+v", r)
	}
	if b.Key("q") {
		t.Error("q leaves the board where it should leave the lease")
	}
	if !b.Key("q") || !b.Key("ctrl+c") {
		t.Error("q and ctrl+c do not leave")
	}
	press(b, "/", "n", "o", "s", "u", "c", "h", "enter", "enter")
	if b.Looked() != nil {
		t.Error("there is nothing to look into")
	}
	press(b, "/", "esc")
	if got := b.Render(110, 16, false); !strings.Contains(got, "mail") {
		t.Errorf("the filter is there still:\n%s", got)
	}
}

// TestAFrameFits in the terminal, whatever is in it, and moves no cursor.
func TestAFrameFits(t *testing.T) {
	s := seen(now, 1)
	s.Scopes[0].Leases.Names[0].State = "\x1b[2J" + strings.Repeat("long ", 100)
	for i := range 200 {
		s.Scopes[0].Leases.Names = append(s.Scopes[0].Leases.Names, api.Lease{Name: fmt.Sprint("n", i), Active: 1, State: "active"})
	}
	b := &screen.Board{}
	b.Take(s)
	for _, size := range [][2]int{{20, 5}, {80, 24}, {200, 60}} {
		for range 3 {
			frame := b.Render(size[0], size[1], false)
			lines := strings.Split(frame, "\n")
			if len(lines) != size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if len([]rune(l)) > size[0] {
					t.Errorf("%v: %q has %d columns", size, l, len([]rune(l)))
				}
			}
			if strings.Contains(frame, "\x1b") {
				t.Error("an escape came through")
			}
			press(b, "down", "s")
		}
	}
}
