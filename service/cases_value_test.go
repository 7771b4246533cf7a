package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

// TestC15_LeaseDurationInEveryFormOnTheWholePath: what counts, and that it is said where it was
// odd, in the event and in the log.
func TestC15_LeaseDurationInEveryFormOnTheWholePath(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	const tenYears, fallback = "315360000", "1800"
	var defs strings.Builder
	type form struct {
		comes  any
		counts string
		odd    bool
	}
	forms := []form{
		{-1, fallback, true}, {0, fallback, true}, {int64(1) << 31, tenYears, true}, {json.RawMessage("9.3e9"), tenYears, true},
		{json.RawMessage("9223372036854775807"), tenYears, true}, {json.RawMessage("1e3"), "1000", false}, {json.RawMessage("3600.0"), "3600", false},
		{"3600", "3600", true}, {"1h", "3600", true}, {"soon", fallback, true}, {true, fallback, true}, {[]int{3600}, fallback, true},
		{json.RawMessage("1e999999999"), fallback, true}, {nil, "3600", false},
	}
	for i, f := range forms {
		role := fmt.Sprint("form-", i)
		r.do("database/roles/"+role, map[string]any{"db_name": "main", "default_ttl": "1h", "max_ttl": "2h"})
		fmt.Fprintf(&defs, "  app-%d: {path: database/creds/%s, kind: postgresql, good_for: 0s, fallback_ttl: 30m}\n", i, role)
		if f.comes != nil {
			r.vault.Inject(devvault.Fault{Path: "database/creds/" + role, TTL: f.comes})
		}
	}
	r.definitions(1, defs.String())
	r.run("state-a")
	r.await("all leases", func() bool { return r.count(events.TypeInstalled) == len(forms) })
	for i, f := range forms {
		name := fmt.Sprint("app-", i)
		got := r.of(events.TypeAcquired, name, 0)
		a := data[*events.Acquired](t, got[0])
		if len(got) != 1 || a.TTL.String() != f.counts || (a.Suspect != "") != f.odd {
			t.Errorf("%v: %s s count, suspect %q, want %s, %t", f.comes, a.TTL, a.Suspect, f.counts, f.odd)
		}
		if said := strings.Contains(r.out.String(), fmt.Sprintf("level=WARN msg=lease-duration-suspect scope=prod seq=%d name=%s ", got[0].Seq, name)); said != f.odd {
			t.Errorf("%v: said in the log %t", f.comes, said)
		}
	}
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil || st.Vaults[0].Suspect < 8 {
		t.Errorf("%d odd durations were counted, %v", st.Vaults[0].Suspect, err)
	}
}

// TestWarningsOfVaultAreSaid: those of a grant, of its guard, of the guard's
// extension and of a renewal are in the event and in the log.
func TestWarningsOfVaultAreSaid(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "3s", "2h")
	for path, warning := range map[string]string{"database/creds/app": "about the grant", "auth/token/create/leasesvc": "of the guard", "auth/token/renew-accessor": "of its extension", "sys/leases/renew": "about the renewal"} {
		r.vault.Inject(devvault.Fault{Path: path, Set: map[string]any{"warnings": []string{warning, `password="pg-pass-7"`}}})
	}
	r.definitions(1, definition("app", ""))
	r.run("state-a")
	var renewed string
	r.await("a renewal that extends the guard", func() bool {
		return slices.ContainsFunc(r.events(events.TypeRenewed), func(e events.Event) bool {
			d := data[*events.Renewed](t, e)
			renewed = strings.Join(d.Warnings, "; ")
			return d.GuardTTL.Sign() > 0
		})
	})
	acquired := strings.Join(data[*events.Acquired](t, r.events(events.TypeAcquired)[0]).Warnings, "; ")
	extended := strings.Join(data[*events.GuardExtended](t, r.events(events.TypeGuardExtended)[0]).Warnings, "; ")
	if !strings.Contains(acquired, "about the grant") || !strings.Contains(acquired, "about the guard: of the guard") || !strings.Contains(extended, "of its extension") ||
		!strings.Contains(renewed, "about the renewal") || !strings.Contains(renewed, "about the guard: of its extension") {
		t.Errorf("acquired with %q, extended with %q, renewed with %q", acquired, extended, renewed)
	}
	for _, warning := range []string{"about the grant", "of the guard", "of its extension", "about the renewal"} {
		said := false
		for line := range strings.Lines(r.out.String()) {
			said = said || strings.Contains(line, "msg=vault-warning") && strings.Contains(line, warning)
		}
		if !said {
			t.Errorf("%q is not in the log", warning)
		}
	}
	r.noSecretSaid("pg-pass-7")
}

// TestC17_NoLeaseAndNoDuration: a dynamic role that gives no lease is not read
// each poll, since each reading makes an account; and that is said.
func TestC17_NoLeaseAndNoDuration(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	fault := r.vault.Inject(devvault.Fault{Path: "database/creds/app", Set: map[string]any{"lease_id": "", "lease_duration": 0, "renewable": false}})
	r.definitions(1, definition("app", ", poll: 1s, fallback_ttl: 6s"))
	r.run("state-a")
	r.await("a second reading", func() bool { return r.count(events.TypeAcquired) == 2 })
	got := r.events(events.TypeAcquired)
	if gap := got[1].Time.Sub(got[0].Time); gap < 5300*time.Millisecond {
		t.Errorf("read again after %s; fallback_ttl is 6 s, less a tenth at most", gap)
	}
	if a := data[*events.Acquired](t, got[0]); !strings.Contains(a.Suspect, "no lease") || a.LeaseID != "" {
		t.Errorf("suspect %q", a.Suspect)
	}
	if !strings.Contains(r.out.String(), "msg=lease-duration-suspect") {
		t.Error("not said in the log")
	}
	if fault.Hits() > 3 {
		t.Errorf("%d readings", fault.Hits())
	}
}

// staticRole makes an account of a static role.
func (r *rig) staticRole(name, period string) {
	r.t.Helper()
	if err := r.accts.Create(r.t.Context(), devvault.Account{User: name, Expires: time.Now().Add(time.Hour)}); err != nil {
		r.t.Fatal(err)
	}
	r.do("database/static-roles/"+name, map[string]any{"db_name": "main", "username": name, "rotation_period": period})
}

// TestC18_AStaticRoleIsReadByItsOwnClock, and a rotation by hand is noticed at
// the next reading by when it was rotated, not by the clock in the data.
func TestC18_AStaticRoleIsReadByItsOwnClock(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.staticRole("steady", "8s")
	r.definitions(1, "  app: {path: database/static-creds/steady, kind: postgresql, good_for: 0s, poll: 1s}\n")
	r.run("state-a")
	r.await("the credential", func() bool { return r.active("app") != 0 })
	first := r.active("app")
	r.await("the next rotation's", func() bool { return r.active("app") > first })
	acquired := r.events(events.TypeAcquired)
	if a := data[*events.Acquired](t, acquired[0]); a.LeaseID != "" || a.TTL.Sign() != 0 || a.RereadIn.Sign() <= 0 || a.RereadIn.Cmp(events.WholeSeconds(8)) > 0 {
		t.Errorf("read as %s s, again in %s s", a.TTL, a.RereadIn)
	}
	if n := r.vault.Count("GET", "database/static-creds/steady"); n > 4 {
		t.Errorf("%d readings: it was polled", n)
	}
	reader := r.reader()
	r.await("the new password at a reader", func() bool {
		c, err := reader.Get(aBit(t), "app")
		return err == nil && r.tryLogin(c) == nil
	})
	before := r.active("app")
	r.do("database/rotate-role/steady", nil)
	r.await("the one by hand", func() bool {
		c, err := reader.Get(aBit(t), "app")
		return err == nil && r.tryLogin(c) == nil && r.active("app") > before
	})
	for _, e := range r.events(events.TypeHandoverStarted) {
		if e.Lease > first && data[*events.HandoverStarted](t, e).Unasked == "" {
			t.Errorf("lease %d: the one before is dead already, and consumers were asked", e.Lease)
		}
	}
}

// TestC22_TwoAlternatingStaticUsers whose rotations are seconds apart: an
// application that may use either finds one that works at every moment.
func TestC22_TwoAlternatingStaticUsers(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	const period = 20 * time.Second
	r.staticRole("blue", period.String())
	began := time.Now()
	r.passes(period/2, "time", func() bool { return true })
	r.staticRole("green", period.String())
	r.definitions(1, "  blue: {path: database/static-creds/blue, kind: postgresql, good_for: 0s}\n  green: {path: database/static-creds/green, kind: postgresql, good_for: 0s}\n")
	r.run("state-a")
	r.await("both", func() bool { return r.active("blue") != 0 && r.active("green") != 0 })
	reader := r.reader()
	works := func(name string) bool {
		c, err := reader.Get(aBit(t), name)
		return errors.Is(err, consumer.ErrUnavailable) || err == nil && r.tryLogin(c) == nil
	}
	alone := map[string]int{}
	r.passes(2*period, "one of both works", func() bool {
		blue, green := works("blue"), works("green")
		if blue != green {
			alone[map[bool]string{true: "blue", false: "green"}[blue]]++
		}
		return blue || green
	})
	if n := r.count(events.TypeInstalled); n < 5 {
		t.Errorf("%d rotations in %s: the story shows nothing", n-2, time.Since(began))
	}
	t.Logf("moments at which one alone worked: %v", alone)
}

// TestC20_RabbitMQNamesAnAPIPath as the renewal's lease id: ours stays, and is the
// one that is revoked.
func TestC20_RabbitMQNamesAnAPIPath(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", Set: map[string]any{"lease_id": "sys/leases/renew/rabbitmq/creds/app"}})
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	r.run("state-a")
	r.await("two renewals", func() bool { return r.count(events.TypeRenewed) >= 2 })
	if n := r.count(events.TypeRequested); n != 1 {
		t.Errorf("%d acquisitions: it was taken for another lease", n)
	}
	id := data[*events.Acquired](t, r.events(events.TypeAcquired)[0]).LeaseID
	seen := r.watch("sys/leases/revoke", nil)
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the revocation", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
	if got := seen.list(); len(got) != 1 || got[0].lease != id {
		t.Errorf("revoked were %v, ours is %s", got, id)
	}
}

// TestC57_ValuesComeAsTheyAre to a reader: numbers beyond 2^53, nested maps, keys
// with dots, a big one; what is no value fails and leaks nothing.
func TestC57_ValuesComeAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	big := strings.Repeat("x", 300<<10)
	values := map[string]string{
		"number": `9007199254740993`, "exponent": `1E2`, "nested": `{"a.b":[null,false,{"c":0}]}`, "dotted.key": `"d"`, "emoji": `"\ud83d\ude00"`, "big": `"` + big + `"`,
	}
	raw := map[string]json.RawMessage{}
	for k, v := range values {
		raw[k] = json.RawMessage(v)
	}
	r.vault.Inject(devvault.Fault{Path: "kv2/data/app", Set: map[string]any{"data.data": raw}})
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": 1}})
	r.do("kv2/data/broken", map[string]any{"data": map[string]any{"x": 1}})
	const leak = "pg-pass-doubled-1"
	r.vault.Inject(devvault.Fault{Path: "kv2/data/broken", Set: map[string]any{"data": json.RawMessage(`{"data":{"password":"` + leak + `","password":"` + leak + `"},"metadata":{"version":1}}`)}})
	r.definitions(1, "  app: {path: kv2/data/app, kind: kv, good_for: 0s}\n  broken: {path: kv2/data/broken, kind: kv, good_for: 0s}\n")
	r.run("state-a")
	r.await("the values", func() bool { return r.active("app") == 1 })
	c, err := r.reader().Get(aBit(t), "app")
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range values {
		got, ok := c.Get(k)
		text := strings.Trim(v, `"`)
		if k == "emoji" {
			text = "\U0001F600"
		}
		if !ok || got.Reveal() != text {
			t.Errorf("%s: there %t, %.60q for %.60q", k, ok, got.Reveal(), v)
		}
	}
	r.await("the failure", func() bool { return len(r.of(events.TypeAcquireFailed, "broken", 0)) > 0 })
	f := data[*events.AcquireFailed](t, r.of(events.TypeAcquireFailed, "broken", 0)[0])
	if f.Kind != "malformed" || !strings.Contains(f.Message, "twice") {
		t.Errorf("failed as %s: %s", f.Kind, f.Message)
	}
	r.noSecretSaid(leak, big[:64])
}

// TestC57_ValuesThatAreTooBig for the store fail with what to do about it.
func TestC57_ValuesThatAreTooBig(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": strings.Repeat("y", 2<<20)}})
	r.definitions(1, "  app: {path: kv2/data/app, kind: kv, good_for: 0s}\n")
	r.run("state-a")
	r.await("the failure", func() bool { return r.count(events.TypeAcquireFailed) > 0 })
	f := data[*events.AcquireFailed](t, r.events(events.TypeAcquireFailed)[0])
	if f.Kind != "store" || !strings.Contains(f.Message, "keep what is that big elsewhere") {
		t.Errorf("failed as %s: %s", f.Kind, f.Message)
	}
	r.noSecretSaid("yyyyyyyyyyyy")
}
