package leasecore_test

import (
	"strings"
	"testing"
	memory "unsafe"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TestWhatIsAlikeIsHeldOnce: two names that are defined alike, each with an
// incarnation of the same consumer, by a log and by a snapshot. The event that
// brought a definition stays as it is: others have it as well.
func TestWhatIsAlikeIsHeldOnce(t *testing.T) {
	fresh := strings.Clone // as decoding makes them
	define := func() events.Definition {
		d := events.DefaultDefinition()
		d.Vault, d.Path, d.Kind = fresh("main"), fresh("database/creds/orders"), events.Kind(fresh("postgresql"))
		d.Consumers = []events.Consumer{{Name: fresh("shop"), Key: fresh("U-shop")}}
		d.Params = map[string]string{"ttl": "1h"}
		d.Verifier = &events.Verifier{Kind: "postgresql", DSN: fresh("postgres://{{username}}@db/orders"), Timeout: events.WholeSeconds(5)}
		return d
	}
	w := newWorld(t)
	w.open(1, "a")
	w.defineAll(map[string]events.Definition{"one": define(), "two": define()})
	var brought []*events.Definition
	for _, e := range w.log {
		if d, ok := e.Data.(*events.Applied); ok && d.Definition != nil {
			brought = append(brought, d.Definition)
		}
	}
	for _, name := range []string{"one", "two"} {
		w.do(leasecore.Register{Name: name, Registration: events.Registered{
			Consumer: fresh("shop"), Instance: "shop-1", Incarnation: "inc-" + name, Key: fresh("U-shop"),
		}})
	}
	held := func(how string, s *leasecore.State) {
		t.Helper()
		one, two := s.Name("one").Definition, s.Name("two").Definition
		for what, same := range map[string]bool{
			"the connection": data(one.Vault) == data(two.Vault), "the path": data(one.Path) == data(two.Path), "the kind": data(one.Kind) == data(two.Kind),
			"the consumers": &one.Consumers[0] == &two.Consumers[0], "the verifier": one.Verifier == two.Verifier,
			"an incarnation's consumer": data(s.Name("two").Consumers[0].Consumer) == data(one.Consumers[0].Name),
			"an incarnation's key":      data(s.Name("two").Consumers[0].Key) == data(one.Consumers[0].Key),
		} {
			if !same {
				t.Errorf("%s: %s is held twice", how, what)
			}
		}
		if !one.Equal(brought[0]) || !two.Equal(brought[1]) {
			t.Errorf("%s: a definition has changed", how)
		}
	}
	held("log", w.state)
	if len(brought) != 2 || &brought[0].Consumers[0] == &brought[1].Consumers[0] {
		t.Error("the events were changed")
	}
	frozen := w.state.Freeze()
	for _, n := range frozen.Names { // as a snapshot gives them
		d := define()
		n.Definition = &d
		n.Consumers[0].Consumer, n.Consumers[0].Key = fresh("shop"), fresh("U-shop")
	}
	restored, err := leasecore.Restore(frozen)
	if err != nil {
		t.Fatal(err)
	}
	held("snapshot", restored)
}

// data gives where a string's bytes are.
func data[S ~string](s S) *byte { return memory.StringData(string(s)) }
