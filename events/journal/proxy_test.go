package journal

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// verdict is what the proxy does with one message.
type verdict int

const (
	pass verdict = iota
	drop
	hold // until release
	cut  // drop it and the connection
)

// proxy stands between a client and a server and decides about each message.
type proxy struct {
	listener net.Listener
	server   string

	mu       sync.Mutex
	toClient func(subject string) verdict
	toServer func(subject, reply string) verdict
	held     []func()
	conns    map[net.Conn]bool
	counts   map[verdict]int
	done     sync.WaitGroup
}

func newProxy(t testing.TB, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]bool{}, counts: map[verdict]int{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cutAll()
		p.done.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) set(toClient func(string) verdict, toServer func(string, string) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toClient, p.toServer = toClient, toServer
}

// count tells how many messages met a verdict.
func (p *proxy) count(v verdict) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[v]
}

// release sends on what was held.
func (p *proxy) release() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.done.Go(func() { p.pump(client, server, p.fromClient) })
		p.done.Go(func() { p.pump(server, client, p.fromServer) })
	}
}

// pump copies protocol lines with their payloads.
func (p *proxy) pump(from, to net.Conn, decide func(line string) verdict) {
	defer from.Close()
	defer to.Close()
	var writing sync.Mutex // held messages are written by others
	write := func(b []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := to.Write(b)
		return err
	}
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		frame := line
		op, _, _ := bytes.Cut(line, []byte(" "))
		v := pass
		switch string(op) {
		case "PUB", "HPUB", "MSG", "HMSG":
			fields := strings.Fields(string(line))
			n, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			payload := make([]byte, n+2)
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			frame = append(append([]byte{}, line...), payload...)
			v = decide(string(line))
		}
		p.mu.Lock()
		p.counts[v]++
		if v == hold {
			p.held = append(p.held, func() { _ = write(frame) })
		}
		p.mu.Unlock()
		switch v {
		case cut:
			return
		case pass:
			if write(frame) != nil {
				return
			}
		}
	}
}

func (p *proxy) fromServer(line string) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.toClient == nil {
		return pass
	}
	return p.toClient(strings.Fields(line)[1])
}

func (p *proxy) fromClient(line string) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	fields := strings.Fields(line)
	sizes := 1
	if fields[0] == "HPUB" {
		sizes = 2
	}
	if p.toServer == nil {
		return pass
	}
	reply := ""
	if len(fields) == 3+sizes {
		reply = fields[2]
	}
	return p.toServer(fields[1], reply)
}

// acks tells a decisive answer of the log from everything else.
func acks(subject string) bool { return strings.HasSuffix(subject, ".final") }
