package itest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/secret"
)

// replica is one of several instances of an application that makes its sessions
// anew in one go. What it does is in its own log.
type replica struct {
	client *consumer.Client
	log    *slog.Logger

	mu  sync.Mutex
	out bytes.Buffer
	at  uint64
	no  error
}

func (p *replica) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

const reconnecting, connected = "reconnecting", "connected"

func (p *replica) move(ctx context.Context, c consumer.Credential) error {
	p.mu.Lock()
	at := p.at
	p.mu.Unlock()
	if at == c.Lease {
		return nil
	}
	p.log.Info(reconnecting, "lease", c.Lease)
	select { // as long as an application takes to make its sessions anew
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	p.at = c.Lease
	p.mu.Unlock()
	p.log.Info(connected, "lease", c.Lease)
	return nil
}

func (p *replica) Prepare(ctx context.Context, c consumer.Credential) error {
	p.mu.Lock()
	no := p.no
	p.mu.Unlock()
	if no != nil {
		p.log.Info("refusing", "lease", c.Lease)
		return no
	}
	return p.move(ctx, c)
}
func (p *replica) Commit(ctx context.Context, c consumer.Credential) error { return p.move(ctx, c) }
func (p *replica) Revert(ctx context.Context, c consumer.Credential) error { return p.move(ctx, c) }

func (p *replica) lease() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *replica) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.no = err
}

// spell is a time in which an instance was reconnecting.
type spell struct {
	instance   int
	lease      uint64
	begin, end time.Time
}

// spells reads an instance's own log.
func (p *replica) spells(t *testing.T, instance int) (out []spell, refused int) {
	t.Helper()
	p.mu.Lock()
	text := p.out.String()
	p.mu.Unlock()
	var open *spell
	for lines := bufio.NewScanner(bytes.NewBufferString(text)); lines.Scan(); {
		var line struct {
			Time  time.Time
			Msg   string
			Lease uint64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		switch line.Msg {
		case reconnecting:
			open = &spell{instance: instance, lease: line.Lease, begin: line.Time}
		case connected:
			open.end = line.Time
			out = append(out, *open)
		case "refusing":
			refused++
		}
	}
	return out, refused
}

// TestRollingWidthOne: of three instances never more than one reconnects, as
// their own logs have it; when the second says no, all three end on the old
// credential.
func TestRollingWidthOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	app := r.identity("app")
	r.write("definitions.yaml", fmt.Sprintf(`revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    verifier: {kind: postgresql, dsn: "postgres://{{username}}:{{password}}@%s/postgres?sslmode=disable"}
    consumers: [{name: app, key: %s}]
    width: 1
    good_for: 100ms
`, r.pg.Addr(), app.public))
	service := r.start("a")
	r.leads(0)

	replicas := make([]*replica, 3)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for i := range replicas {
		p := &replica{}
		p.log = slog.New(slog.NewJSONHandler(p, nil))
		var err error
		p.client, err = consumer.Connect(ctx, consumer.Options{
			URL: r.nats.URL(), Scope: scope, Consumer: "app", Instance: fmt.Sprintf("app-%d", i),
			Seed: secret.New(app.seed), ServiceKey: r.keys.Public(),
		})
		if err != nil {
			t.Fatal(err)
		}
		replicas[i] = p
		serving.Go(func() {
			if err := p.client.Serve(ctx, "orders", p); err != nil {
				t.Errorf("instance %d ended with: %v", i, err)
			}
		})
		// One after the other: it is the order in which they are asked.
		await(t, 60*time.Second, "the instance to be registered", func() bool {
			log, _ := r.read()
			return count(log, events.TypeRegistered, 0) > i
		})
	}
	t.Cleanup(func() { cancel(); serving.Wait() })
	all := func(lease uint64) {
		t.Helper()
		await(t, 60*time.Second, fmt.Sprintf("all three to be on lease %d", lease), func() bool {
			return !slices.ContainsFunc(replicas, func(p *replica) bool { return p.lease() != lease })
		})
	}
	installed := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	all(installed.Lease)
	first := installed.Lease

	for range 3 {
		before := installed
		r.rotate()
		installed = r.awaitEvent(events.TypeInstalled, before.Seq, 60*time.Second)
		all(installed.Lease)
	}
	replicas[1].refuse(errors.New("not in the middle of a job"))
	r.rotate()
	back := r.awaitEvent(events.TypeRolledBack, installed.Seq, 60*time.Second)
	all(installed.Lease)
	replicas[1].refuse(nil)
	r.rotate()
	last := r.awaitEvent(events.TypeInstalled, back.Seq, 60*time.Second)
	all(last.Lease)

	cancel()
	serving.Wait()
	for _, p := range replicas {
		p.client.Close()
	}
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}

	var spells []spell
	for i, p := range replicas {
		own, refused := p.spells(t, i)
		if want := map[bool]int{true: 1}[i == 1]; refused != want {
			t.Errorf("instance %d refused %d times", i, refused)
		}
		for _, s := range own {
			if s.lease != first { // to which each moved when it registered
				spells = append(spells, s)
			}
			if s.lease == back.Lease && i == 2 {
				t.Error("the third was asked though the second had said no")
			}
		}
	}
	slices.SortFunc(spells, func(a, b spell) int { return a.begin.Compare(b.begin) })
	for i := range spells[1:] {
		if a, b := spells[i], spells[i+1]; b.begin.Before(a.end) {
			t.Errorf("instances %d (to lease %d) and %d (to lease %d) reconnected at a time", a.instance, a.lease, b.instance, b.lease)
		}
	}
	// Three rotations and the last, of three instances each; the first one there
	// and back again.
	if len(spells) != 4*3+2 {
		t.Errorf("%d times an instance reconnected: %+v", len(spells), spells)
	}
	r.noSecretAnywhere()
}
