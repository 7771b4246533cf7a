package ledger_test

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/ledger"
	"github.com/leasesvc/leasesvc/sim"
)

// aLog gives n events of simulated lives, one behind the other: names, leases and
// times are shifted so that they are one log. TTLs get digits that no binary
// fraction has.
func aLog(t *testing.T, n int) []events.Event {
	t.Helper()
	var log []events.Event
	var shift time.Duration
	for seed := uint64(1); len(log) < n; seed++ {
		r := sim.Run(sim.Options{Seed: seed, Log: true})
		if r.Err != nil {
			t.Fatalf("seed %d: %v", seed, r.Err)
		}
		var first, last time.Time
		for i, payload := range r.Log {
			e, err := events.Decode(payload, uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			if first.IsZero() {
				first = e.Time
			}
			if e.Time.After(last) {
				last = e.Time
			}
			moved(&e, seed, shift)
			e.Seq = uint64(len(log) + 1)
			log = append(log, e)
		}
		shift += last.Sub(first)
	}
	return log[:n]
}

func moved(e *events.Event, seed uint64, shift time.Duration) {
	if !strings.HasPrefix(e.Name, "_") {
		e.Name = fmt.Sprintf("%s-%d", e.Name, seed%40)
	}
	if e.Lease > 0 {
		e.Lease += seed * 10_000
	}
	e.Time = e.Time.Add(shift)
	odd := events.MustSeconds(fmt.Sprintf("0.%09d7", seed*7919))
	switch d := e.Data.(type) {
	case *events.Acquired:
		d.SentAt = d.SentAt.Add(shift)
		if d.TTL.Sign() > 0 {
			d.TTL = d.TTL.Add(odd)
		}
	case *events.Adopted:
		d.SentAt, d.TTL = d.SentAt.Add(shift), d.TTL.Add(odd)
	case *events.Renewed:
		d.SentAt, d.TTL = d.SentAt.Add(shift), d.TTL.Add(odd)
	case *events.Registered:
		d.Incarnation, d.Replaces = d.Incarnation+fmt.Sprint("-", seed), ""
	case *events.Left:
		d.Incarnation += fmt.Sprint("-", seed)
	case *events.Prepared:
		d.Incarnation += fmt.Sprint("-", seed)
	case *events.HandoverStarted:
		for i := range d.Asked {
			d.Asked[i] += fmt.Sprint("-", seed)
		}
	case *events.RolledBack:
		for i := range d.Unconfirmed {
			d.Unconfirmed[i] += fmt.Sprint("-", seed)
		}
	}
}

// print gives all rows of a ledger as the naive program prints its own.
func print(l *ledger.Ledger, until time.Time) []string {
	var out []string
	for _, by := range []ledger.By{ledger.ByName, ledger.ByPath, ledger.ByConsumer} {
		for _, r := range l.Rows(by, until) {
			out = append(out, fmt.Sprintf("%s/%s granted=%s staged=%s in-use=%s overlapped=%s exposed=%s lived=%s longest=%s acquired=%d failed=%d rotations=%d rollbacks=%d handovers=%d open=%d",
				by, r.Of, r.Granted, r.Staged, r.InUse, r.Overlapped, r.Exposed, r.LivedSeconds, r.Longest,
				r.Acquired, r.FailedAcquisitions, r.Rotations, r.RollBacks, r.FailedHandovers, r.Open))
		}
	}
	sort.Strings(out)
	return out
}

// TestTheTotalsAreThoseOfANaiveProgramFromEverySnapshot: bit for bit, over
// 100,000 events (fewer under the race detector).
func TestTheTotalsAreThoseOfANaiveProgramFromEverySnapshot(t *testing.T) {
	log := aLog(t, logSize)
	until := log[len(log)-1].Time.Add(90*time.Minute + 7*time.Nanosecond)
	for name, since := range map[string]time.Time{"from the beginning": {}, "since the middle": log[len(log)/2].Time.Add(time.Nanosecond)} {
		t.Run(name, func(t *testing.T) {
			var from int64
			if !since.IsZero() {
				from = since.UnixNano()
			}
			naive := newNaive(from)
			for i := range log {
				payload, err := events.Encode(&log[i])
				if err != nil {
					t.Fatal(err)
				}
				naive.see(t, payload)
			}
			want := naive.rows(until.UnixNano())
			straight := ledger.New(since)
			for i := range log {
				straight.See(&log[i])
			}
			compare(t, "straight through", print(straight, until), want)
			compare(t, "asked twice", print(straight, until), want)
			fromEverySnapshot(t, log, since, func(l *ledger.Ledger) { compare(t, "from the last snapshot", print(l, until), want) })
			t.Logf("%d rows, such as %s", len(want), want[len(want)/2])
		})
	}
}

// fromEverySnapshot takes the ledger up from each of 1,000 snapshots (of 100,000 events): the one
// after it must come out the same, byte for byte. So each of them leads to the
// end, and a few are followed all the way.
func fromEverySnapshot(t *testing.T, log []events.Event, since time.Time, end func(*ledger.Ledger)) {
	t.Helper()
	const every = 100
	all := max(every, len(log)/5)
	straight := ledger.New(since)
	last, err := straight.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	snapshots := 0
	for at := 0; at < len(log); at += every {
		taken, err := ledger.Restore(last)
		if err != nil {
			t.Fatal(err)
		}
		for i := at; i < at+every; i++ {
			straight.See(&log[i])
			taken.See(&log[i])
		}
		want, err := straight.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		got, err := taken.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("taken up at event %d it is another after %d:\n%s\n%s", at, at+every, got, want)
		}
		last = want
		snapshots++
		if (at+every)%all != 0 {
			continue
		}
		rest, err := ledger.Restore(want)
		if err != nil {
			t.Fatal(err)
		}
		for i := at + every; i < len(log); i++ {
			rest.See(&log[i])
		}
		end(rest)
	}
	if snapshots != len(log)/every {
		t.Errorf("%d snapshots", snapshots)
	}
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	differ := 0
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			if differ++; differ < 5 {
				t.Errorf("%s:\n got %s\nwant %s", what, got[i], want[i])
			}
		}
	}
	if differ > 0 {
		t.Errorf("%s: %d of %d rows differ", what, differ, len(want))
	}
}

// TestALifeIsAddedUp is an example to read: one name, two leases, one consumer.
func TestALifeIsAddedUp(t *testing.T) {
	l := ledger.New(time.Time{})
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	s := func(seconds float64) time.Time { return at.Add(time.Duration(seconds * float64(time.Second))) }
	for i, e := range []struct {
		at    float64
		lease uint64
		data  events.Data
	}{
		{0, 0, &events.Registered{Consumer: "api", Instance: "i", Incarnation: "A"}},
		{0, 1, &events.Requested{Vault: "main", Path: "db"}},
		{1, 1, &events.Acquired{SentAt: s(0.5), TTL: events.WholeSeconds(60)}},
		{2, 1, &events.HandoverStarted{Asked: []string{"A"}}},
		{3, 1, &events.Installed{}},
		{30, 1, &events.Renewed{SentAt: s(30), TTL: events.WholeSeconds(60)}},
		{40, 2, &events.Requested{Vault: "main", Path: "db"}},
		{41, 2, &events.Acquired{SentAt: s(40), TTL: events.WholeSeconds(60)}},
		{42, 2, &events.HandoverStarted{Asked: []string{"A"}, Previous: 1}},
		{43, 2, &events.Installed{Previous: 1}},
		{53, 1, &events.Retired{Reason: events.RetiredReplaced}},
		{53, 1, &events.Revoking{}},
		{55.25, 1, &events.Revoked{}},
	} {
		ev := events.Event{Seq: uint64(i + 1), Name: "orders", Lease: e.lease, Time: s(e.at), Data: e.data}
		l.See(&ev)
	}
	got := print(l, s(60))
	for i, want := range []string{
		// Granted: 60 s, then 29.5 s more, and 60 s. Lease 1 lived from 1 to 55.25.
		"consumer/api granted=0 staged=2 in-use=57 overlapped=10 exposed=0 lived=69 longest=51 acquired=0 failed=0 rotations=1 rollbacks=0 handovers=0 open=1",
		"name/orders granted=149.5 staged=4 in-use=57 overlapped=10 exposed=2.25 lived=73.25 longest=54.25 acquired=2 failed=0 rotations=1 rollbacks=0 handovers=0 open=1",
	} {
		if got[i] != want {
			t.Errorf("got  %s\nwant %s", got[i], want)
		}
	}
}

func TestASnapshotOfAnotherVersionIsRefused(t *testing.T) {
	for _, bad := range []string{"", "{}", `{"version":2}`, `{"version":1,"more":1}`} {
		if _, err := ledger.Restore([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
