package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

const manyLeases = 200

// manyDefinitions are leases of which every second one, by its number, lives for
// half as long as the others.
func (r *rig) manyDefinitions() string {
	r.do("database/roles/brief", map[string]any{"db_name": "main", "default_ttl": "30m", "max_ttl": "2h"})
	var defs strings.Builder
	for i := range manyLeases {
		path, renewAt := "database/creds/app", "0.002"
		if i%2 == 1 {
			path, renewAt = "database/creds/brief", "0.004"
		}
		fmt.Fprintf(&defs, "  app-%d: {path: %s, kind: postgresql, good_for: 0s, renew_at: %s}\n", i, path, renewAt)
	}
	return defs.String()
}

// TestC13_AnOutageCostsProbesNotARequestPerLease, and what is due after it goes
// in the order in which it ends, at the rate of a recovery.
func TestC13_AnOutageCostsProbesNotARequestPerLease(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.moreVault = "guard_role: leasesvc, limits: {recovery_rate: 40, probe_first: 200ms, probe_last: 400ms}"
	r.definitions(1, r.manyDefinitions())
	r.run("state-a")
	r.within(60*time.Second, "all leases", func() bool { return r.count(events.TypeInstalled) == manyLeases })
	settled := r.count(events.TypeRenewFailed)
	if settled != 0 {
		t.Fatalf("%d renewals failed before the outage", settled)
	}

	before, began := len(r.vault.Requests()), time.Now()
	r.vault.Seal()
	// Each lease is due within 8 s, and again at its back-off.
	r.within(60*time.Second, "every lease to have been due", func() bool { return len(failedNames(r)) == manyLeases })
	lasted, during := time.Since(began), len(r.vault.Requests())-before
	// A probe each 320 ms at least, of a question for the health and no more; and
	// what was in flight as it began.
	if most := 64 + int(lasted/(160*time.Millisecond)); during > most || during >= r.count(events.TypeRenewFailed) {
		t.Errorf("an outage of %s with %d leases cost %d requests; %d failures were recorded, at most %d requests were to be", lasted, manyLeases, during, r.count(events.TypeRenewFailed), most)
	}
	t.Logf("an outage of %s: %d leases, %d failed renewals recorded, %d requests", lasted.Round(time.Millisecond), manyLeases, r.count(events.TypeRenewFailed), during)
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil || len(st.Vaults) != 1 {
		t.Fatal(err)
	}
	if v := st.Vaults[0]; v.OutSince.IsZero() || v.Outages != 1 || v.Held == 0 || v.Probes == 0 {
		t.Errorf("status says %+v", v)
	}

	seen := r.watch("sys/leases/renew", nil)
	r.vault.Unseal()
	r.within(60*time.Second, "all to be renewed", func() bool { return seen.count() >= manyLeases })
	if n := r.count(events.TypeRequested); n != manyLeases {
		t.Errorf("%d acquisitions: nothing had come to its end", n)
	}
	first := seen.list()[:manyLeases]
	brief := 0
	for _, a := range first[:manyLeases/2] {
		if strings.Contains(a.lease, "/brief/") {
			brief++
		}
	}
	// The first few were let go before the others had come to wait.
	if brief < manyLeases/2*8/10 {
		t.Errorf("of the first %d renewals %d were of the leases that end first", manyLeases/2, brief)
	}
	// 40 a second, doubled after 5 s; each renewal is followed by its guard's.
	if took := first[manyLeases/2].at.Sub(first[0].at); took < time.Second {
		t.Errorf("%d renewals came within %s", manyLeases/2, took)
	}
	t.Logf("%d of the first %d renewals were of the leases that end first, in %s", brief, manyLeases/2, first[manyLeases/2].at.Sub(first[0].at).Round(time.Millisecond))
}

func failedNames(r *rig) map[string]bool {
	names := map[string]bool{}
	for _, e := range r.events(events.TypeRenewFailed) {
		names[e.Name] = true
	}
	return names
}

// TestC52_TheLastGoodIsKept while no node serves, and the instance does not end.
func TestC52_TheLastGoodIsKept(t *testing.T) {
	for name, fault := range map[string]devvault.Fault{
		"node not active":  {Status: 500, Body: `{"errors":["node not active but active cluster node not found"]}`},
		"connection lost":  {DropBefore: true},
		"a gateway's page": {Status: 502, Body: "<html>bad gateway</html>"},
		"a portal's page":  {Status: 200, Body: "<html>please sign in</html>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.moreVault = "guard_role: leasesvc, limits: {probe_first: 100ms, probe_last: 200ms}"
			r.definitions(1, definition("app", ""))
			r.run("state-a")
			r.await("a lease", func() bool { return r.active("app") == 1 })
			end := r.uses("app")
			injected := r.vault.Inject(fault)
			r.done(r.api().Rotate(aBit(t), "prod", "app"))
			r.await("two attempts that failed", func() bool { return r.count(events.TypeAcquireFailed) >= 2 })
			if r.active("app") != 1 || injected.Hits() == 0 {
				t.Errorf("lease %d is active, %d requests were hit", r.active("app"), injected.Hits())
			}
			injected.Remove()
			r.within(60*time.Second, "the rotation", func() bool { return r.active("app") > 1 })
			if end() == 0 {
				t.Error("nobody read it")
			}
			r.noSecretSaid()
		})
	}
}

// TestC53_WhatEachAnswerDoes to an acquisition: its kind, whether it waits, and
// that the service goes on once the answer is gone.
func TestC53_WhatEachAnswerDoes(t *testing.T) {
	const leak = "hvs.CAESIthisWouldBeAToken12345"
	for name, try := range map[string]struct {
		fault devvault.Fault
		kind  string
		wait  time.Duration // the next attempt is not before
	}{
		"400":                         {fault: devvault.Fault{Status: 400, Body: `{"errors":["token ` + leak + ` is bad"]}`}, kind: "refused"},
		"404":                         {fault: devvault.Fault{Status: 404, Body: `{"errors":[]}`}, kind: "not-found"},
		"404 of a proxy":              {fault: devvault.Fault{Status: 404, Body: `<p>` + leak}, kind: "malformed"},
		"409":                         {fault: devvault.Fault{Status: 409, Body: `{"errors":["` + leak + `"]}`}, kind: "conflict"},
		"412":                         {fault: devvault.Fault{Status: 412, Body: `{"errors":["required index state not present"]}`}, kind: "conflict"},
		"429 with Retry-After":        {fault: devvault.Fault{Status: 429, Body: `{"errors":["quota"]}`, Header: http.Header{"Retry-After": {"3"}}}, kind: "quota", wait: 3 * time.Second},
		"307 to itself":               {fault: devvault.Fault{Status: 307, Header: http.Header{"Location": {"/v1/database/creds/app"}}}, kind: ""},
		"307 to another host":         {fault: devvault.Fault{Status: 307, Header: http.Header{"Location": {"http://127.0.0.2:1/v1/database/creds/app"}}}, kind: "redirect"},
		"302":                         {fault: devvault.Fault{Status: 302, Header: http.Header{"Location": {"/login"}}}, kind: "redirect"},
		"472":                         {fault: devvault.Fault{Status: 472, Body: `{"errors":[]}`}, kind: "standby"},
		"473":                         {fault: devvault.Fault{Status: 473, Body: `{"errors":[]}`}, kind: "standby"},
		"474":                         {fault: devvault.Fault{Status: 474, Body: `{"errors":[]}`}, kind: "standby"},
		"500":                         {fault: devvault.Fault{Status: 500, Body: `{"errors":["password '` + leak + `'"]}`}, kind: "transient"},
		"501":                         {fault: devvault.Fault{Status: 501, Body: `{"errors":["not initialized"]}`}, kind: "uninitialised"},
		"502":                         {fault: devvault.Fault{Status: 502, Body: "<html>" + leak}, kind: "transient"},
		"503":                         {fault: devvault.Fault{Status: 503, Body: `{"errors":["Vault is sealed"]}`}, kind: "sealed"},
		"200 and no JSON":             {fault: devvault.Fault{Status: 200, Body: "<html>" + leak}, kind: "malformed"},
		"200 and nothing":             {fault: devvault.Fault{Status: 200}, kind: "malformed"},
		"204":                         {fault: devvault.Fault{Status: 204}, kind: "malformed"},
		"half an answer":              {fault: devvault.Fault{CutBody: true}, kind: "unreachable"},
		"an answer that does not end": {fault: devvault.Fault{SlowBody: time.Minute}, kind: "timeout"},
		"no answer":                   {fault: devvault.Fault{Delay: time.Minute}, kind: "timeout"},
		"an answer without end":       {fault: devvault.Fault{Status: 200, Body: `{"data":{"password":"` + strings.Repeat("x", 9<<20) + `"}}`}, kind: "malformed"},
		"data is a list":              {fault: devvault.Fault{Set: map[string]any{"data": []string{leak}}}, kind: "malformed"},
		"the lease id is a number":    {fault: devvault.Fault{Set: map[string]any{"lease_id": 7}}, kind: "malformed"},
		"warnings are a text":         {fault: devvault.Fault{Set: map[string]any{"warnings": leak}}, kind: "malformed"},
		"no password":                 {fault: devvault.Fault{Set: map[string]any{"data": map[string]any{"username": "u"}}}, kind: "missing-keys"},
		"garbage":                     {fault: devvault.Fault{Garbage: true}, kind: "malformed"},
		"lost before the effect":      {fault: devvault.Fault{DropBefore: true}, kind: "unreachable"},
		"lost after the effect":       {fault: devvault.Fault{DropAfter: true}, kind: "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.moreVault = "guard_role: leasesvc, guard_ttl: 6s, timeout: 2s, limits: {probe_first: 100ms, probe_last: 200ms}"
			r.definitions(1, definition("app", ""))
			try.fault.Path, try.fault.Times = "database/creds/app", 1
			fault := r.vault.Inject(try.fault)
			r.run("state-a")
			r.within(60*time.Second, "a lease", func() bool { return r.active("app") != 0 })
			if fault.Hits() != 1 {
				t.Fatalf("%d requests were hit", fault.Hits())
			}
			// Of what was sent: while it is out attempts are not. And on a slow machine
			// something else may have timed out after it.
			var failed []events.Event
			for _, e := range r.events(events.TypeAcquireFailed) {
				f := data[*events.AcquireFailed](t, e)
				if !f.NotSent && (len(failed) == 0 || f.Kind != "timeout") {
					failed = append(failed, e)
				}
			}
			if try.kind == "" {
				if len(failed) != 0 {
					t.Errorf("%d failures", len(failed))
				}
			} else {
				if len(failed) != 1 {
					t.Fatalf("%d failures, with one request that was hit", len(failed))
				}
				f := data[*events.AcquireFailed](t, failed[0])
				if f.Kind != try.kind {
					t.Errorf("failed as %s: %s", f.Kind, f.Message)
				}
				if wait := f.Retry.At.Sub(failed[0].Time); wait < try.wait {
					t.Errorf("tried again in %s, asked for was %s", wait, try.wait)
				}
				if len(f.Message) > 4096 {
					t.Errorf("the message has %d bytes", len(f.Message))
				}
			}
			r.noSecretSaid(leak)
			// Whatever the lost answer left behind ends with its guard.
			r.await("what the log says lives", func() bool { return len(r.vault.Leases()) == 1 })
		})
	}
}
