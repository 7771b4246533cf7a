package epochkv

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deafProxy forwards TCP and, when deaf, drops every byte the server says.
// What the client says arrives.
type deafProxy struct {
	l       net.Listener
	to      string
	deaf    atomic.Bool
	dropped atomic.Int64 // bytes
	wg      sync.WaitGroup
	mu      sync.Mutex
	conns   []net.Conn
}

func runDeafProxy(t *testing.T, to string) *deafProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &deafProxy{l: l, to: to}
	p.wg.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.wg.Wait() })
	return p
}

func (p *deafProxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, srv)
		p.mu.Unlock()
		p.wg.Go(func() { _, _ = io.Copy(srv, client); _ = srv.Close() })
		p.wg.Go(func() { p.answers(client, srv); _ = client.Close() })
	}
}

func (p *deafProxy) answers(client, srv net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := srv.Read(buf)
		if err != nil {
			return
		}
		if p.deaf.Load() {
			p.dropped.Add(int64(n))
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection, so that the client starts over.
func (p *deafProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func TestE11_AnswersLostOnTheWire(t *testing.T) {
	srv := runServer(t)
	proxy := runDeafProxy(t, srv.Addr().String())
	direct := connect(t, srv.ClientURL())
	through := connect(t, "nats://"+proxy.l.Addr().String())
	clk := newClock()
	a := start(t, through, clk, "", func(c *Config) { c.RequestTimeout = 300 * time.Millisecond })
	b := start(t, direct, clk, "")
	a.lead("kept")
	heal := func() {
		proxy.deaf.Store(false)
		before := through.Conn().Stats().Reconnects
		proxy.cut()
		eventually(t, "the client reconnects", func() bool {
			return through.Conn().Stats().Reconnects > before && through.Conn().IsConnected()
		})
	}
	token := func() uint64 {
		_, rev, err := b.readHolder(t.Context(), a.HolderID())
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}

	for i := range 3 {
		before := token()
		proxy.deaf.Store(true)
		if err := a.Renew(t.Context(), nil); !errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("renewal %d: %v, want an unknown outcome", i, err)
		}
		lost := token()
		if lost <= before || proxy.dropped.Load() == 0 {
			t.Fatalf("the fault did not happen: token %d then %d, %d bytes dropped", before, lost, proxy.dropped.Load())
		}
		heal()
		a.renew()
		if now := token(); now <= lost {
			t.Errorf("token %d adopted, not moved: %d", lost, now)
		}
	}
	if a.Stats().Adopted != 3 || a.Held("kept") == 0 {
		t.Errorf("stats %+v, held %d", a.Stats(), a.Held("kept"))
	}
	// The read that would tell is lost as well: fenced.
	proxy.deaf.Store(true)
	if err := a.Renew(t.Context(), nil); !errors.Is(err, ErrUnknownOutcome) {
		t.Fatal(err)
	}
	heal()
	a.beforeGet = func(string) error { proxy.deaf.Store(true); return nil }
	if err := a.Renew(t.Context(), nil); !errors.As(err, new(*Fenced)) || a.Held("kept") != 0 {
		t.Errorf("renewal: %v, held %d; want fenced, nothing held", err, a.Held("kept"))
	}
	a.reset()
	heal()
}
