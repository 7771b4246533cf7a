package vault

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// pipes is a listener that is dialled in memory. A test on a clock of its own
// (testing/synctest) needs it: that clock stands while anybody waits for a socket.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// newPipedFake is newFake for a test on a clock of its own: how loaded the machine
// is can't be seen in it.
func newPipedFake(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{pipes: &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})}}
	f.Server = &httptest.Server{Listener: f.pipes, Config: &http.Server{Handler: f.answers(handle)}}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8200} }
