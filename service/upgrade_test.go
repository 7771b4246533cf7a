package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
)

// fromTheFuture appends an event to prod's log as a later release with the scope's
// seal key would, and gives its sequence.
func (r *rig) fromTheFuture(e events.Event) uint64 {
	r.t.Helper()
	seed, err := os.ReadFile(filepath.Join(r.dir, "seal.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	keys, err := handover.NewKeys(secret.New(strings.TrimSpace(string(seed))))
	if err != nil {
		r.t.Fatal(err)
	}
	js, err := jetstream.New(r.nats.Conn(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := journal.Open(aBit(r.t), js, journal.Config{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	st, err := l.Info(aBit(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	p := projector.New("prod", keys.MACKey())
	err = l.Replay(aBit(r.t), "prod", 1, st.LastSeq, func(m journal.Message) error {
		_, err := p.Apply(m.Seq, m.Payload)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	chain := p.Chain()
	e.ID, e.Scope, e.Name, e.Epoch, e.Time = "future", "prod", events.EpochName, p.State().Epoch, time.Now().UTC()
	payload, err := chain.Seal(&e)
	if err != nil {
		r.t.Fatal(err)
	}
	ack, err := js.Publish(aBit(r.t), e.Subject(), payload)
	if err != nil {
		r.t.Fatal(err)
	}
	return ack.Sequence
}

// teleported is an event of a type that a later release has.
type teleported struct{}

func (teleported) EventType() events.Type { return "teleported" }
func (teleported) EventVersion() int      { return 1 }

// TestAnInstanceBehindTheLogStaysUpAndSaysSo: it does not claim, answers no read,
// says once why, and stops in good order; whether it meets the event while it
// stands by or at its start.
func TestAnInstanceBehindTheLogStaysUpAndSaysSo(t *testing.T) {
	for name, data := range map[string]events.Data{
		"a format": &events.Format{Versions: map[events.Type]int{events.TypeInstalled: 99}},
		"an event": teleported{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "1h", "2h")
			r.definitions(1, otherDefinition)
			svc, stop := r.start("state-a")
			r.await("a lease", func() bool { return r.active("other") != 0 })
			if _, err := r.asker().get(svc, "other"); err != nil {
				t.Fatal(err)
			}
			r.done(r.api().StepDown(aBit(t), "prod")) // it stands by for a while
			r.await("the scope to be given back", func() bool { return strings.Contains(r.out.String(), "stepped down as asked") })
			seq := r.fromTheFuture(events.Event{Data: data})
			said := func() int { return strings.Count(r.out.String(), "is behind the log") }
			r.await("it to say so", func() bool { return said() == 1 })
			if !strings.Contains(r.out.String(), fmt.Sprintf("sequence %d", seq)) || !strings.Contains(r.out.String(), "release 1.2.3") {
				t.Error("it does not say which event, or which release")
			}
			if g, err := r.asker().get(svc, "other"); err == nil {
				t.Errorf("a get was answered: %+v", g.Got)
			}
			if m, err := r.nats.Conn(t).Request("leasesvc.key.prod", nil, 2*time.Second); err == nil && strings.Contains(string(m.Data), svc.ServiceKey()) {
				t.Errorf("the key was answered for: %s", m.Data)
			}
			if err := stop(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			// That is no loss, and nothing that an operator could decide.
			var future *events.FutureError
			if found, err := r.recoverer().Examine(aBit(t)); !errors.As(err, &future) || future.Seq != seq {
				t.Errorf("recover finds %+v, %v", found, err)
			}
			r.run("state-a")
			r.await("it to say so at a start, too", func() bool { return said() == 2 })
			if n := len(r.events(events.TypeOpened)); n != 1 {
				t.Errorf("%d epochs", n)
			}
		})
	}
}

// TestNobodyWhoCannotReadItIsOverlooked: by what the holders' cells say.
func TestNobodyWhoCannotReadItIsOverlooked(t *testing.T) {
	next := events.Formats{events.TypeInstalled: 2}
	cell := func(version, echo string) epochkv.HolderCell {
		return epochkv.HolderCell{Holder: "h", Instance: "host", Version: version, State: epochkv.HolderLive, Echo: json.RawMessage(echo)}
	}
	for name, c := range map[string]struct {
		cell   epochkv.HolderCell
		behind bool
	}{
		"of a release before this protocol":      {cell("1", `{"version":"1","for":["prod"]}`), true},
		"one that reads it":                      {cell("2", `{"version":"2","for":["prod"],"reads":{"installed":2}}`), false},
		"one that reads more":                    {cell("3", `{"version":"3","for":["prod"],"reads":{"installed":3,"teleported":1},"mood":{}}`), false},
		"one that reads something else":          {cell("2", `{"version":"2","for":["prod"],"reads":{"renewed":2}}`), true},
		"one of another scope":                   {cell("1", `{"version":"1","for":["test"]}`), false},
		"one that has said nothing":              {cell("1", ``), true},
		"one that is no JSON":                    {cell("1", `{`), true},
		"whose predecessor could read it":        {cell("1", `{"version":"2","for":["prod"],"reads":{"installed":2}}`), true},
		"whose predecessor was of another scope": {cell("1", `{"version":"2","for":["test"],"reads":{"installed":2}}`), true},
	} {
		got := service.Lacking([]epochkv.HolderCell{c.cell}, "prod", next)
		if (len(got) == 1) != c.behind {
			t.Errorf("%s: %v", name, got)
		}
		if len(got) == 1 && (got[0].Lacks.String() != "installed 2" || !strings.Contains(got[0].String(), "release "+c.cell.Version)) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := service.Lacking([]epochkv.HolderCell{cell("1", `{}`)}, "prod", nil); len(got) != 0 {
		t.Errorf("nothing is there to be read, and %v can't", got)
	}
}

// TestWhoIsGoneDoesNotCount: another instance counts while it is there; when its
// process was ended without a word, not much longer.
func TestWhoIsGoneDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	others := func() int {
		all, err := service.Others(aBit(t), svc)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := others(); n != 0 {
		t.Errorf("%d others", n)
	}
	b, stopB := r.start("state-b")
	r.await("the other one to be there", func() bool { return others() == 1 })
	service.CutOff(b)
	r.await("it to be gone", func() bool { return others() == 0 })
	_ = stopB() // its connection was closed under it
	c, stopC := r.start("state-c")
	_ = c
	r.await("another one to be there", func() bool { return others() == 1 })
	if err := stopC(); err != nil {
		t.Fatal(err)
	}
	if n := others(); n != 0 {
		t.Errorf("%d others after it stopped in good order", n)
	}
	done, err := r.api().Finalize(aBit(t), "prod")
	if err != nil || !strings.Contains(done.Says, "nothing to finalize") || done.Seq != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if st, err := r.api().Status(aBit(t), "prod"); err != nil || st.Upgrade != nil {
		t.Errorf("%+v, %v", st.Upgrade, err)
	}
}
