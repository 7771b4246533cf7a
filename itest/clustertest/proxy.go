package clustertest

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

// Verdict is what a [Proxy] does with a message.
type Verdict int

// The verdicts.
const (
	Pass Verdict = iota
	Drop
	Cut // drop it and the connection
)

// Frame is one message of the NATS protocol on its way.
type Frame struct {
	// Conn numbers the connections through the proxy, from 1.
	Conn int
	// ToClient tells the direction.
	ToClient       bool
	Subject, Reply string
	Header, Data   []byte
}

// Proxy stands between clients and one server.
type Proxy struct {
	listener net.Listener
	decide   func(Frame) Verdict
	gone     func(conn int)

	mu     sync.Mutex
	server string
	n      int
	conns  map[net.Conn]bool
	counts map[Verdict]int
	done   sync.WaitGroup
}

// NewProxy starts a proxy to the server at url until t's end. decide is called
// with each message, from several goroutines; gone, if set, when a connection
// has ended, after the last message of it.
func NewProxy(t testing.TB, url string, decide func(Frame) Verdict, gone func(conn int)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	p := &Proxy{listener: l, decide: decide, gone: gone, server: "127.0.0.1:" + port(t, url), conns: map[net.Conn]bool{}, counts: map[Verdict]int{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.CutAll()
		p.done.Wait()
	})
	return p
}

// URL is where clients reach the server through the proxy.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Count tells how many messages met a verdict.
func (p *Proxy) Count(v Verdict) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[v]
}

// CutAll cuts all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.n++
		n := p.n
		p.mu.Unlock()
		server, err := net.Dial("tcp4", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() { p.pump(client, server, n, false) })
		both.Go(func() { p.pump(server, client, n, true) })
		p.done.Go(func() {
			both.Wait()
			p.mu.Lock()
			delete(p.conns, client)
			delete(p.conns, server)
			p.mu.Unlock()
			if p.gone != nil {
				p.gone(n)
			}
		})
	}
}

// pump copies protocol lines with their payloads.
func (p *Proxy) pump(from, to net.Conn, conn int, toClient bool) {
	defer from.Close()
	defer to.Close()
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		f, size, ok := parse(line)
		raw, v := line, Pass
		if ok {
			payload := make([]byte, size+2)
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			headers := len(f.Header) // parse leaves room for them
			f.Header, f.Data = payload[:headers], payload[headers:size]
			f.Conn, f.ToClient = conn, toClient
			raw = append(bytes.Clone(line), payload...)
			v = p.decide(f)
			p.mu.Lock()
			p.counts[v]++
			p.mu.Unlock()
		}
		switch v {
		case Cut:
			return
		case Pass:
			if _, err := to.Write(raw); err != nil {
				return
			}
		}
	}
}

// parse reads the line that begins a message: its subjects, the size of what
// follows, and a header of the right length; not ok: another line.
func parse(line []byte) (f Frame, size int, ok bool) {
	fields := strings.Fields(string(line))
	if len(fields) < 3 {
		return f, 0, false
	}
	sizes, subjects := 1, fields[1:]
	switch strings.ToUpper(fields[0]) {
	case "PUB":
	case "HPUB":
		sizes = 2
	case "MSG":
		subjects = append([]string{fields[1]}, fields[3:]...) // without the subscription's id
	case "HMSG":
		sizes, subjects = 2, append([]string{fields[1]}, fields[3:]...)
	default:
		return f, 0, false
	}
	if len(subjects) < 1+sizes {
		return f, 0, false
	}
	f.Subject = subjects[0]
	if len(subjects) == 2+sizes {
		f.Reply = subjects[1]
	}
	size, err := strconv.Atoi(subjects[len(subjects)-1])
	if err != nil {
		return f, 0, false
	}
	if sizes == 2 {
		n, err := strconv.Atoi(subjects[len(subjects)-2])
		if err != nil || n > size {
			return f, 0, false
		}
		f.Header = make([]byte, n)
	}
	return f, size, true
}
