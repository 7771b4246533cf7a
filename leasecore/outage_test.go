package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TestC52_DueTheMomentVaultIsBack: what failed because Vault was out waits its
// back-off while Vault is out, and is due at once when it is back; what failed
// for another reason waits on, and so does what another Vault was asked.
func TestC52_DueTheMomentVaultIsBack(t *testing.T) {
	for _, c := range []struct {
		kind, back string
		due        bool
	}{
		{"unreachable", "main", true}, {"sealed", "main", true}, {"standby", "main", true}, {"uninitialised", "main", true},
		{"transient", "main", true}, {"timeout", "main", true}, {"not-logged-in", "main", true},
		{"permission", "main", false}, {"missing-keys", "main", false}, {"unreachable", "other", false},
	} {
		w := newWorld(t)
		w.open(10, "a")
		def := events.DefaultDefinition()
		def.Vault, def.Path = "main", "kv/x"
		apply := leasecore.ApplyDefinitions{Revision: 1, Digest: "1", Definitions: map[string]events.Definition{"x": def}}
		failed := leasecore.AcquireDone{Name: "x", Lease: 1, Err: &leasecore.Failed{
			Failure: events.Failure{Kind: c.kind}, RetryAfter: 30 * time.Second, NotSent: true,
		}}
		for _, command := range []leasecore.Command{apply, failed} {
			if _, err := w.decide(command); err != nil {
				t.Fatal(err)
			}
		}
		w.now = w.now.Add(29500 * time.Millisecond)
		if evs := w.settle(); len(evs) != 0 {
			t.Fatalf("%s: it does not wait", c.kind)
		}
		w.state.VaultBack(c.back, w.now)
		if due := len(w.settle()) > 0; due != c.due {
			t.Errorf("%s, %s is back: due %t", c.kind, c.back, due)
		}
	}
}

// TestC34_WhatWasNotSentCostsNothing: an acquisition that Vault was not asked for
// takes nothing from the budget.
func TestC34_WhatWasNotSentCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	def := events.DefaultDefinition()
	def.Vault, def.Path, def.AcquisitionsPerHour = "main", "kv/x", 3
	if _, err := w.decide(leasecore.ApplyDefinitions{Revision: 1, Digest: "1", Definitions: map[string]events.Definition{"x": def}}); err != nil {
		t.Fatal(err)
	}
	for no := uint64(1); no <= 20; no++ {
		if l := w.state.Name("x").Lease(no); l == nil {
			t.Fatalf("attempt %d was not made: %s", no, w.state.Story("x", w.now))
		}
		failed := leasecore.AcquireDone{Name: "x", Lease: no, Err: &leasecore.Failed{Failure: events.Failure{Kind: "unreachable"}, NotSent: true}}
		if _, err := w.decide(failed); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(leasecore.MaxBackoff)
		w.settle()
	}
}

// TestL52_AWishIsKeptWhileVaultIsOut: a rotation that was asked for by hand is
// tried again when it failed because Vault was out, or refused for now, and is
// not when there is nothing to be had.
func TestL52_AWishIsKeptWhileVaultIsOut(t *testing.T) {
	for kind, again := range map[string]bool{"sealed": true, "timeout": true, "quota": true, "malformed": true, "permission": true, "refused": false, "not-found": false} {
		w := underway(t)
		no := w.rotate()
		w.do(leasecore.AcquireDone{Name: orders, Lease: no, Err: &leasecore.Failed{Failure: events.Failure{Kind: kind, Message: "it went wrong"}}})
		w.pass(2 * time.Minute)
		if r, _ := last[*events.Requested](w); (r.Attempt == 2) != again || r.Reason != events.ReasonRotate {
			t.Errorf("after %s attempt %d was the last one, for %s", kind, r.Attempt, r.Reason)
		}
	}
}
