package vault

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// dropper is a server on a bare socket: it reads requests in full, lets each
// take effect, and answers only those at answered paths; at others it cuts the
// connection. So a connection that it has kept alive breaks after the effect.
type dropper struct {
	listener net.Listener
	mu       sync.Mutex
	effects  map[string]int
	conns    map[net.Conn]bool
	done     sync.WaitGroup
	answered map[string]string
	partial  string // what is written before the cut
}

func newDropper(t *testing.T, answered map[string]string, partial string) *dropper {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dropper{listener: l, effects: map[string]int{}, conns: map[net.Conn]bool{}, answered: answered, partial: partial}
	d.done.Add(1)
	go d.accept()
	t.Cleanup(func() {
		_ = l.Close()
		d.mu.Lock()
		for c := range d.conns {
			_ = c.Close()
		}
		d.mu.Unlock()
		d.done.Wait()
	})
	return d
}

func (d *dropper) accept() {
	defer d.done.Done()
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.conns[conn] = true
		d.mu.Unlock()
		d.done.Add(1)
		go d.serve(conn)
	}
}

func (d *dropper) serve(conn net.Conn) {
	defer d.done.Done()
	defer func() {
		_ = conn.Close()
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
	}()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		d.mu.Lock()
		d.effects[r.URL.Path]++
		d.mu.Unlock()
		answer, ok := d.answered[r.URL.Path]
		if !ok {
			_, _ = io.WriteString(conn, d.partial)
			return
		}
		resp := http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(answer)), Body: io.NopCloser(strings.NewReader(answer))}
		if resp.Write(conn) != nil {
			return
		}
	}
}

func (d *dropper) count(path string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effects[path]
}

func (d *dropper) client(t *testing.T) *Client {
	t.Helper()
	c, err := New(Config{Name: "main", Address: "http://" + d.listener.Addr().String(), Token: secret.New(plainToken), GuardRole: "guard", OpTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	// Warm: the pooled client now holds a connection that was kept alive.
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestC30_DroppedAfterTheEffectIsSentOnce(t *testing.T) {
	const credential, guard = "/v1/db/creds/app", "/v1/auth/token/create/guard"
	for name, partial := range map[string]string{
		"before the answer":      "",
		"in the answer's head":   "HTTP/1.1 200 OK\r\nContent-Le",
		"in the answer's body":   "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"lease_id\":\"db/creds",
		"in a refusal's body":    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 400\r\n\r\n{\"errors\":[\"",
		"with nothing but noise": "\x00\x01\x02",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDropper(t, map[string]string{lookupSelf: selfAnswer(3600, 0)}, partial)
			c := d.client(t)
			_, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
			var e *Error
			if !errors.As(err, &e) || !e.OutcomeUnknown {
				t.Errorf("the read: %v, with the outcome known", err)
			}
			if n := d.count(credential); n != 1 {
				t.Errorf("%d credential reads arrived, exactly 1 was to", n)
			}
			_, err = c.CreateGuard(t.Context(), GuardOptions{})
			if !errors.As(err, &e) || !e.OutcomeUnknown {
				t.Errorf("the guard: %v, with the outcome known", err)
			}
			if n := d.count(guard); n != 1 {
				t.Errorf("%d guards were asked for, exactly 1 was to be", n)
			}
		})
	}
}

// The control: a GET over a kept-alive connection is repeated by Go itself, so
// the server above does provoke what the test before guards against.
func TestP5_ControlGoRepeatsAGetOnAKeptConnection(t *testing.T) {
	d := newDropper(t, map[string]string{lookupSelf: selfAnswer(3600, 0)}, "")
	c := d.client(t)
	rq := request{op: "read", method: http.MethodGet, path: "db/creds/app", token: c.ownToken()} // not once
	if _, err := c.call(t.Context(), rq); err == nil {
		t.Fatal("an answer came")
	}
	if n := d.count("/v1/db/creds/app"); n != 2 {
		t.Fatalf("%d requests arrived: the control expects Go's own repetition, so the test of C30 proves nothing", n)
	}
}

func TestP5_NoRetryOnAnyStatus(t *testing.T) {
	for _, status := range []int{400, 403, 404, 412, 429, 472, 473, 500, 502, 503, 504} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "0")
			says(status, `{"errors":["no"]}`)(w, r)
		})
		c := f.client(t)
		_, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
		if err == nil {
			t.Errorf("%d: no error", status)
		}
		if n := len(f.requests("creds")); n != 1 {
			t.Errorf("%d: %d reads arrived", status, n)
		}
	}
}

func TestOutcomeIsKnownWhenNothingWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c, err := New(Config{Address: "http://" + address, Token: secret.New(plainToken)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_, err = c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindUnreachable || e.OutcomeUnknown {
		t.Errorf("C52: connection refused: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	held := make(chan struct{})
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(held) })
	c := f.client(t, func(cfg *Config) { cfg.OpTimeout = 50 * time.Millisecond })
	_, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindTimeout || !e.OutcomeUnknown {
		t.Errorf("past the operation's deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = f.client(t).Read(ctx, "db/creds/app", testGuard(), ReadOptions{})
	wantKind(t, err, KindTimeout)
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		eventually(t, "the read is on its way", func() bool { return len(f.requests("cancelled")) == 1 })
		cancel()
	}()
	_, err = f.client(t).Read(ctx, "db/creds/cancelled", testGuard(), ReadOptions{})
	if !errors.As(err, &e) || e.Kind != KindCanceled || !e.OutcomeUnknown {
		t.Errorf("cancelled: %v", err)
	}
}
