package handover

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/handover/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server's own, which outlive its shutdown for a moment.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// startNATS starts a server on 127.0.0.1 with JetStream in a directory of the
// test.
func startNATS(t testing.TB) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready after 10 s")
	}
	return srv
}

func connect(t testing.TB, srv *server.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func newKeys(t testing.TB) *Keys {
	t.Helper()
	seed, err := NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// eventually polls cond with a deadline of 10 s.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not in 10 s", what)
		}
	}
}

// person is a consumer with its keys, without any behaviour.
type person struct {
	signer nkeys.KeyPair
	key    string
	pair   nkeys.KeyPair
	xkey   string
	id     string
}

func newPerson(t testing.TB) person {
	t.Helper()
	var p person
	var err error
	if p.signer, err = nkeys.CreateUser(); err != nil {
		t.Fatal(err)
	}
	if p.key, err = p.signer.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if p.pair, err = nkeys.CreateCurveKeys(); err != nil {
		t.Fatal(err)
	}
	if p.xkey, err = p.pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if p.id, err = wire.NewIncarnation(time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p person) to() To {
	return To{Scope: "prod", Name: "db", Incarnation: p.id, Subject: wire.ConsumerSubject("prod", "db", p.id), XKey: p.xkey, Key: p.key}
}

// signed makes a request of the person's.
func (p person) signed(t testing.TB, op wire.Operation, body wire.Body) Signed {
	t.Helper()
	data, err := wire.Encode(body)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := wire.Sign(p.signer, body.Type(), "prod", "db", data)
	if err != nil {
		t.Fatal(err)
	}
	h := nats.Header{}
	h.Set(wire.SignatureHeader, sig)
	s, err := SignedFrom(wire.Subject(op, "prod", "db"), h, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p person) registration() wire.Registration {
	return wire.Registration{Consumer: "api", Instance: "api-0", Incarnation: p.id, Key: p.key, XKey: p.xkey,
		Subject: wire.ConsumerSubject("prod", "db", p.id), Protocol: 1, Time: time.Now(), Nonce: wire.NewNonce()}
}
