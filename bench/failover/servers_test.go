package failover

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

const (
	appendTarget = time.Second
	// outage is how long a server is away: longer than an election.
	outage = 14 * time.Second
	// registered is the name that a consumer registers for; n0 is asked for.
	registered = "n1"
)

// servers kills and stops the NATS server that the holder is connected to, that
// which leads the log, and that which leads the cells; each role on a server of
// its own.
func servers(t *testing.T, rows *table.Table) {
	p := newPair(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	admin, load := p.d.Conn(t), p.d.Conn(t)
	working.Go(func() { p.register(ctx, load) })
	defer working.Wait()
	defer cancel()

	type fault struct {
		name   string
		strike func(server int)
		mend   func(server int)
	}
	faults := []fault{
		{"killed", p.d.Kill, p.d.Restart},
		{"stopped", p.d.Stop, p.d.Wake},
	}
	roles := []string{"the log's leader", "the cells' leader", "the holder's"}
	for _, f := range faults {
		for role, what := range roles {
			if *serverRounds == 0 && (role > 0 || f.name != "killed") {
				continue
			}
			var again, away, sinceLeader []time.Duration
			takeovers := 0
			for range max(1, *serverRounds) {
				server := p.place(role)
				o := p.outage(admin, server, f.strike, f.mend)
				t.Logf("NATS server %s, %s (n%d): the log has a leader after %v, appended again %v after it; no append for %v; no get for %v; %d takeovers",
					f.name, what, server, o.elected.Round(time.Millisecond), o.afterLeader.Round(time.Millisecond), o.quiet.Round(time.Millisecond), o.gap.Round(time.Millisecond), o.takeovers)
				takeovers += o.takeovers
				again, away = append(again, o.quiet), append(away, o.gap)
				sinceLeader = append(sinceLeader, o.afterLeader)
			}
			name := fmt.Sprintf("NATS server %s, %s: ", f.name, what)
			rows.AtMost(t, name+"takeovers caused", "takeovers", float64(takeovers), 0, fmt.Sprintf("opened events of another epoch during %v and until the cluster was whole; %d rounds", outage, len(again)))
			how := "from the election to the next event in the log; a consumer registers 20 times a second"
			if role > 0 {
				how = "the log's leader lives on: from the fault to the next event in the log; a consumer registers 20 times a second"
			}
			target := appendTarget
			if f.name == "stopped" {
				target = 0 // a black hole is noticed by pings, after 2 to 3 s
			}
			rows.Spread(t, name+"appended again after the log has a leader", sinceLeader, target, how)
			rows.Spread(t, name+"no append", again, 0, "the longest time between two events in the log, from the fault on")
			rows.Spread(t, name+"no get answered", away, 0, "the longest time without an answered raw get")
		}
	}
	cancel()
	working.Wait()
	p.r.Check(p.in...)
	rows.Write(t, *out)
}

// place puts the role on a server of its own and tells which: 0 the log's
// leader, 1 the cells', 2 the one that the holder is connected to.
func (p *pair) place(role int) int {
	p.t.Helper()
	holder, _, _ := p.roles()
	p.d.AwaitReady()
	conn := -1
	clustertest.Await(p.t, 20*time.Second, "the holder's connection", func() bool {
		conn = p.d.Subscriber("leasesvc.presence." + holder.HolderID())
		return conn >= 0
	})
	log, cells := (conn+1)%clustertest.Servers, (conn+2)%clustertest.Servers
	p.d.MoveLeader(journal.DefaultStream, log)
	p.d.MoveLeader("KV_"+epochkv.DefaultBucket, cells)
	p.d.AwaitReady()
	return []int{log, cells, conn}[role]
}

type observed struct {
	elected, afterLeader time.Duration
	quiet, gap           time.Duration // the longest time without an append, without a get
	takeovers            int
}

func (p *pair) outage(admin *nats.Conn, server int, strike, mend func(int)) (o observed) {
	p.t.Helper()
	led := p.d.StreamLeader(journal.DefaultStream) == server
	elections, sub := p.d.Elections(admin, journal.DefaultStream)
	defer func() { _ = sub.Unsubscribe() }()
	before := p.r.Last()
	begin := time.Now()
	strike(server)
	leader := begin
	if led {
		clustertest.Await(p.t, 40*time.Second, "an election", func() bool {
			select {
			case leader = <-elections: // heard of, unless our own connection was away
				return true
			default:
				leader = time.Now()
				return p.d.StreamLeader(journal.DefaultStream) >= 0
			}
		})
	}
	<-time.After(max(0, outage-time.Since(begin)))
	mend(server)
	p.d.AwaitReady()
	end := time.Now()
	o.gap = p.asker.gap(begin, end)
	o.elected = leader.Sub(begin)
	// By the time at which the servers stored them: our own follower may have
	// been away, too.
	p.r.AwaitMatch("the follower to catch up", 0, time.Minute, func(s *clustertest.Seen) bool { return s.Stored.After(end) })
	last := begin
	for _, s := range p.r.Select(func(s *clustertest.Seen) bool { return s.Seq > before && s.Stored.After(begin) && s.Stored.Before(end) }) {
		o.quiet, last = max(o.quiet, s.Stored.Sub(last)), s.Stored
		if o.afterLeader == 0 && s.Stored.After(leader) {
			o.afterLeader = s.Stored.Sub(leader)
		}
	}
	for range p.r.Takeovers(before) {
		o.takeovers++
	}
	return o
}

// register has a consumer register, and leave, twenty times a second, so that
// there is always something to append that needs nothing but the log. Whether it
// was answered does not matter: what counts is in the log.
func (p *pair) register(ctx context.Context, nc *nats.Conn) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		p.t.Error(err)
		return
	}
	xkey, err := pair.PublicKey()
	if err != nil {
		p.t.Error(err)
		return
	}
	send := func(op wire.Operation, body wire.Body) {
		b, err := wire.Encode(body)
		if err != nil {
			p.t.Error(err)
			return
		}
		_ = nc.PublishRequest(wire.Subject(op, "prod", registered), nc.NewInbox(), b)
	}
	before := ""
	for n := 0; ctx.Err() == nil; n++ {
		id, err := wire.NewIncarnation(time.Now(), before)
		if err != nil {
			p.t.Error(err)
			return
		}
		instance := fmt.Sprintf("i%d", n)
		send(wire.OpRegister, wire.Registration{
			Consumer: "bench", Instance: instance, Incarnation: id, XKey: xkey, Subject: wire.ConsumerSubject("prod", registered, id),
			Protocol: wire.Version, Time: time.Now().UTC(), Nonce: wire.NewNonce(),
		})
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		send(wire.OpLeave, wire.Leave{Consumer: "bench", Instance: instance, Incarnation: id, Time: time.Now().UTC(), Nonce: wire.NewNonce()})
		before = id
	}
}
