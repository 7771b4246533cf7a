package epochkv

import (
	"context"
	"testing"
)

// TestE22_ListeningHearsTheFirstSilenceSooner and deposes nobody; the rule stays:
// two "no responders" in a row, a heartbeat apart, with an unmoved token.
func TestE22_ListeningHearsTheFirstSilenceSooner(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	none := false
	presence := func(context.Context, string) (bool, error) { return none, nil }
	a := start(t, js, clk, "")
	b := start(t, js, clk, "", func(c *Config) { c.Presence = presence })
	a.lead("x")
	half := func() {
		clk.advance(heartbeat / 2)
		b.renew()
		b.Listen(t.Context())
	}
	waits := func(what string) Claim {
		t.Helper()
		c := b.step("x")
		if c.Claimed() || c.Next == 0 {
			t.Fatalf("%s: %+v", what, c)
		}
		return c
	}

	waits("the first sight")
	a.renew() // after it was read, and then it ends
	none = true
	half()
	clk.advance(heartbeat / 2)
	if c := waits("half a heartbeat after the first silence"); c.Next != heartbeat/2 {
		t.Fatalf("%+v, want to step again when the second question counts", c)
	}
	clk.advance(heartbeat / 2)
	if c := b.step("x"); c.Next != 0 {
		t.Fatalf("%+v, want deposed a heartbeat after it was heard", c)
	}
	if c := b.step("x"); c.How != HowQuiet {
		t.Fatalf("%+v", c)
	}

	a = start(t, js, clk, "", func(c *Config) { c.Presence = presence })
	b.lead("y")
	waits2 := func(what string) {
		t.Helper()
		if c := a.step("y"); c.Claimed() || c.Next == 0 {
			t.Fatalf("%s: %+v", what, c)
		}
	}
	waits2("the first sight")
	for range 8 { // listening alone
		clk.advance(heartbeat / 2)
		a.renew()
		b.renew()
		a.Listen(t.Context())
	}
	if s := a.Stats(); s.Deposals != 0 {
		t.Errorf("%+v: listening deposed", s)
	}
	waits2("a token that moves")
	clk.advance(heartbeat / 2)
	a.Listen(t.Context())
	none = false
	clk.advance(heartbeat / 4)
	a.Listen(t.Context()) // an answer in between
	none = true
	clk.advance(heartbeat / 4)
	a.renew()
	waits2("an answer came in between")
	b.renew() // the token moves
	clk.advance(heartbeat)
	a.renew()
	waits2("the token moved in between")
}
