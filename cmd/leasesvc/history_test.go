package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/secret"
)

// history writes a log as the service does, with the production core, on a clock
// of its own: what the commands that read the log are tried on. It is the same
// each time, so what they print is too.
type history struct {
	t          *testing.T
	now        time.Time
	keys       *handover.Keys
	seed       string
	chain      events.Chain
	projection *projector.Projection
	log        []journal.Message
	commands   int
	users      string // what a user name is made of
}

func newHistory(t *testing.T) *history {
	t.Helper()
	seed, err := nkeys.EncodeSeed(nkeys.PrefixByteCurve, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := handover.NewKeys(secret.New(string(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return &history{
		t: t, now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), keys: keys, seed: string(seed),
		chain: events.NewChain(keys.MACKey()), projection: projector.New("prod", keys.MACKey()), users: "v-orders-%02d",
	}
}

func (h *history) store(e events.Event) {
	h.t.Helper()
	payload, err := h.chain.Seal(&e)
	if err != nil {
		h.t.Fatal(err)
	}
	seq := uint64(len(h.log) + 1)
	h.log = append(h.log, journal.Message{Seq: seq, Subject: e.Subject(), Payload: payload})
	if got, err := h.projection.Apply(seq, payload); err != nil || got == nil {
		h.t.Fatalf("sequence %d (%s) does not count: %v", seq, e.Type(), err)
	}
}

func (h *history) open(epoch uint64, holder, how string) {
	h.store(events.Event{
		ID: "open-" + strconv.FormatUint(epoch, 10), Scope: "prod", Name: events.EpochName, Epoch: epoch, Time: h.now, Actor: events.Service(holder),
		Data: &events.Opened{Holder: holder, How: how, Attempt: "1", SealKey: h.keys.ID(), StreamCreated: time.Date(2026, 3, 1, 8, 59, 0, 0, time.UTC)},
	})
	h.settle()
}

// do has a command decided, and gives the events.
func (h *history) do(c leasecore.Command, actor ...string) []events.Event {
	h.t.Helper()
	h.commands++
	at := leasecore.At{Now: h.now, ID: "c" + strconv.Itoa(h.commands), Actor: events.Service(h.projection.State().Holder)}
	if len(actor) > 0 {
		at.Actor = events.Actor{Name: actor[0], Claimed: true}
	}
	evs, err := leasecore.Decide(leasecore.NewDraft(h.projection.State()), at, c)
	if err != nil {
		h.t.Fatalf("%T: %v", c, err)
	}
	for _, e := range evs {
		h.store(e)
	}
	return evs
}

func (h *history) settle() {
	for _, n := range h.projection.State().SortedNames() {
		for before := -1; before != len(h.log); {
			before = len(h.log)
			h.do(leasecore.Tick{Name: n})
		}
	}
}

func (h *history) pass(d time.Duration) {
	h.now = h.now.Add(d)
	h.settle()
}

func (h *history) name(name string) *leasecore.Name { return h.projection.State().Name(name) }

// grant answers the name's request.
func (h *history) grant(name string, ttl int64) {
	l := h.name(name).Lease(h.name(name).Candidate)
	g := &events.Acquired{
		LeaseID: fmt.Sprintf("%s/lease%02d", l.Path, l.No), TTL: events.WholeSeconds(ttl), Renewable: true, SentAt: h.now, Guard: fmt.Sprintf("accessor%02d", l.No),
		GuardTTL: events.WholeSeconds(60), Keys: []string{"password", "username"}, Public: map[string]string{"username": fmt.Sprintf(h.users, l.No)},
		Fingerprint: fmt.Sprintf("f%02d", l.No),
	}
	if h.name(name).Definition.Kind == events.KindKV {
		g.LeaseID, g.TTL, g.Guard, g.GuardTTL, g.Renewable, g.Public = "", events.Seconds{}, "", events.Seconds{}, false, nil
	}
	h.now = h.now.Add(20 * time.Millisecond)
	h.do(leasecore.AcquireDone{Name: name, Lease: l.No, Grant: g})
	if g.Guard != "" {
		h.now = h.now.Add(5 * time.Millisecond)
		h.do(leasecore.ExtendDone{Name: name, Lease: l.No, Granted: events.WholeSeconds(ttl), SentAt: h.now})
	}
	if h.name(name).Definition.Verifier != nil {
		h.now = h.now.Add(40 * time.Millisecond)
		h.do(leasecore.VerifyDone{Name: name, Lease: l.No, Verifier: "postgresql", Took: events.MustSeconds("0.04")})
	}
}

func (h *history) answer(name, incarnation string, yes bool, reason string) {
	h.now = h.now.Add(15 * time.Millisecond)
	h.do(leasecore.Answered{Name: name, N: h.name(name).Handover.N, Incarnation: incarnation, Yes: yes, Reason: reason})
}

func (h *history) confirm(name, incarnation string) {
	h.projection.State().Confirm(name, incarnation, h.name(name).N)
	h.pass(10 * time.Millisecond)
}

func (h *history) revoked() {
	for _, name := range h.projection.State().SortedNames() {
		for _, l := range slices.Clone(h.name(name).Leases) {
			if l.State == leasecore.Revoking {
				h.now = h.now.Add(8 * time.Millisecond)
				h.do(leasecore.RevokeDone{Name: name, Lease: l.No})
			}
		}
	}
}

func (h *history) register(name, consumer, instance, incarnation string) {
	h.do(leasecore.Register{Name: name, Insecure: true, Registration: events.Registered{
		Consumer: consumer, Instance: instance, Incarnation: incarnation, Key: "UKEY", XKey: "XKEY", Subject: "leasesvc.consumer.prod." + name + "." + incarnation,
	}})
}

// live lives through a morning: a first lease, renewals, a hand-over that is
// refused, a takeover, one that comes through, and an operator.
func (h *history) live() *history {
	orders, mail := events.DefaultDefinition(), events.DefaultDefinition()
	orders.Vault, orders.Path, orders.Kind = "main", "database/creds/orders", events.KindPostgreSQL
	orders.Verifier = &events.Verifier{Kind: "postgresql", DSN: "postgres://{{username}}:{{password}}@db/orders", Timeout: events.WholeSeconds(15)}
	orders.Consumers = []events.Consumer{{Name: "orders-api"}}
	mail.Vault, mail.Path, mail.Kind = "main", "secret/data/mail", events.KindKV

	h.open(11, "host-a", events.HowFresh)
	h.do(leasecore.ApplyDefinitions{Revision: 1, Digest: "d1", Definitions: map[string]events.Definition{"orders-db": orders, "mail": mail}})
	h.register("orders-db", "orders-api", "pod-1", "01ORDERS1")
	h.grant("mail", 0)
	h.grant("orders-db", 3600)
	h.answer("orders-db", "01ORDERS1", true, "")
	h.confirm("orders-db", "01ORDERS1")
	for range 3 {
		h.pass(27 * time.Minute)
		h.do(leasecore.RenewDone{Name: "orders-db", Lease: 2, Renewed: &events.Renewed{TTL: events.WholeSeconds(3600), SentAt: h.now, Renewable: true, GuardTTL: events.WholeSeconds(3600)}})
	}
	h.pass(27 * time.Minute)
	h.do(leasecore.RenewDone{Name: "orders-db", Lease: 2, Renewed: &events.Renewed{TTL: events.WholeSeconds(1800), SentAt: h.now, Renewable: true, GuardTTL: events.WholeSeconds(3600)}})
	h.grant("orders-db", 3600)
	h.answer("orders-db", "01ORDERS1", false, "login refused by the pooler")
	h.confirm("orders-db", "01ORDERS1")
	h.revoked()
	h.pass(3 * time.Second)
	h.open(14, "host-b", events.HowQuiet)
	h.pass(time.Minute)
	h.grant("orders-db", 3600)
	h.answer("orders-db", "01ORDERS1", true, "")
	h.confirm("orders-db", "01ORDERS1")
	h.pass(31 * time.Second)
	h.revoked()
	h.pass(10 * time.Minute)
	h.do(leasecore.Rotate{Name: "orders-db"}, "operator/rotate")
	h.grant("orders-db", 3600)
	h.answer("orders-db", "01ORDERS1", true, "")
	return h
}

// laterData is what a later release writes.
type laterData struct {
	Tenant string `json:"tenant"`
}

func (laterData) EventType() events.Type { return events.TypeInstalled }
func (laterData) EventVersion() int      { return 7 }

// later has an instance of a later release write an event that this one does not
// know.
func (h *history) later() *history {
	h.t.Helper()
	s := h.projection.State()
	e := events.Event{ID: "later", Scope: "prod", Name: "mail", Lease: 1, Epoch: s.Epoch, Time: h.now, Actor: events.Service(s.Holder), Version: 7, Data: laterData{"a"}}
	payload, err := h.chain.Seal(&e)
	if err != nil {
		h.t.Fatal(err)
	}
	h.log = append(h.log, journal.Message{Seq: uint64(len(h.log) + 1), Subject: e.Subject(), Payload: payload})
	return h
}

// wide is a short life whose texts take two columns a letter, or none, or would turn
// what is around them.
func (h *history) wide() *history {
	h.users = "用户-%d-\u202ee\u0301"
	def := events.DefaultDefinition()
	def.Vault, def.Path, def.Kind = "main", "database/creds/orders", events.KindPostgreSQL
	lone := def
	def.Consumers = []events.Consumer{{Name: "api"}}
	h.open(11, "主机-a", events.HowFresh)
	h.do(leasecore.ApplyDefinitions{Revision: 1, Digest: "d1", Definitions: map[string]events.Definition{"a": def, "long-name-of-a-lease": lone}})
	h.register("a", "api", "pod-1", "01API")
	h.grant("a", 3600)
	h.answer("a", "01API", true, "")
	h.confirm("a", "01API")
	h.grant("long-name-of-a-lease", 3600)
	h.pass(time.Minute)
	h.do(leasecore.Rotate{Name: "a"}, "操作员")
	h.grant("a", 3600)
	h.answer("a", "01API", false, "連線池拒絕\x1b[2J")
	return h
}

// write writes the export of the log, and the seal key.
func (h *history) write(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "seal.key"), []byte(h.seed), 0o600); err != nil {
		return err
	}
	return h.export(filepath.Join(dir, "log.jsonl"))
}

// export writes the log as leasesvc events --output json does.
func (h *history) export(file string) error {
	var b []byte
	for _, m := range h.log {
		b = append(b, exportLine(m)...)
	}
	return os.WriteFile(file, b, 0o644)
}
