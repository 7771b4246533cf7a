package conformance_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/conformance"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newKeys(t *testing.T) *handover.Keys {
	t.Helper()
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := handover.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// signer makes a consumer's key.
func signer(t *testing.T) (nkeys.KeyPair, string, string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, string(seed), public
}

// TestOurOwnConsumerKeepsEveryRule.
func TestOurOwnConsumerKeepsEveryRule(t *testing.T) {
	t.Parallel()
	ns, keys := natstest.Start(t), newKeys(t)
	_, seed, public := signer(t)
	client, err := consumer.Connect(t.Context(), consumer.Options{
		Conn: ns.Conn(t), Scope: "check", Consumer: "app", Instance: "app-0", Seed: secret.New(seed), ServiceKey: keys.Public(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	h := consumer.Reconnect(func(_ context.Context, c consumer.Credential) error {
		if p, _ := c.Get("password"); p.Reveal() == "wr0ng-password" {
			return errors.New("the login with wr0ng-password is refused")
		}
		return nil
	})
	go func() { done <- client.Serve(ctx, "db", h) }()
	verdicts, err := conformance.Check(t.Context(), conformance.Options{
		Conn: ns.Conn(t), Keys: keys, Scope: "check", Name: "db", Consumer: "app", Key: public, Patience: 20 * time.Second, Silence: 300 * time.Millisecond,
		Bad: conformance.Credential{Public: "bad", Values: wire.Values(`{"username":"bad","password":"wr0ng-password"}`)}, Stop: stop,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Outcome != conformance.Kept {
			t.Errorf("%s: %s: %s %s", v.Rule, v.Says, v.Outcome, v.Why)
		}
	}
	if len(verdicts) < 30 || !conformance.Passed(verdicts) {
		t.Errorf("%d verdicts", len(verdicts))
	}
}

// TestABrokenRuleIsNamed: consumers that break one rule each.
func TestABrokenRuleIsNamed(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		faults faults
		broken string
	}{
		"answers before it is registered":  {faults{early: true}, "before its registration was answered"},
		"takes what is forged":             {faults{takesAll: true}, "sealed by another key"},
		"takes what is for others":         {faults{anybody: true}, "for another incarnation"},
		"takes a later version":            {faults{anyVersion: true}, "a later version"},
		"refuses fields that it knows not": {faults{strict: true}, "a field that it does not know"},
		"takes a lower n":                  {faults{anyN: true}, "below the last n"},
		"takes a lower epoch":              {faults{anyEpoch: true}, "of a lower epoch"},
		"says yes to all":                  {faults{yes: true}, "no to a candidate"},
		"gives values away":                {faults{tells: true}, "none of the values"},
		"answers once only":                {faults{once: true}, "the same again"},
		"does not confirm a revert":        {faults{stays: true}, "goes back and confirms"},
		"does not sign":                    {faults{unsigned: true}, "it registers, signed"},
		"never asks again":                 {faults{patient: true}, "registers again"},
		"takes a prepare under a follow":   {faults{sameN: true}, "under the n of a follow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, keys := natstest.Start(t), newKeys(t)
			pair, _, public := signer(t)
			app := &simple{faults: one.faults, t: t, nc: ns.Conn(t), pair: pair, key: public, service: keys.Public()}
			stop := app.start()
			defer stop()
			verdicts, err := conformance.Check(t.Context(), conformance.Options{
				Conn: ns.Conn(t), Keys: keys, Scope: "check", Name: "db", Consumer: "app", Key: public, Patience: time.Second, Silence: 200 * time.Millisecond, Grace: time.Second,
				Bad: conformance.Credential{Public: "bad", Values: wire.Values(`{"password":"wr0ng-password"}`)}, Stop: stop,
			})
			if err != nil {
				t.Fatal(err)
			}
			if conformance.Passed(verdicts) {
				t.Error("it passes")
			}
			for _, v := range verdicts {
				if v.Outcome == conformance.Broken && strings.Contains(v.Says, one.broken) {
					return
				}
			}
			t.Errorf("no broken rule is about %q: %+v", one.broken, verdicts)
		})
	}
}

// TestNobodyThere is said, and nothing else.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	verdicts, err := conformance.Check(t.Context(), conformance.Options{
		Conn: ns.Conn(t), Keys: newKeys(t), Scope: "check", Name: "db", Consumer: "app", Patience: 200 * time.Millisecond,
	})
	if err != nil || len(verdicts) != 1 || conformance.Passed(verdicts) {
		t.Errorf("%+v, %v", verdicts, err)
	}
}
