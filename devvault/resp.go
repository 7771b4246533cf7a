package devvault

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

const (
	maxReply      = 1 << 20 // bytes of one text
	maxReplyItems = 100_000
	maxReplyDepth = 8
)

// redisError is an error that the server answered.
type redisError string

func (e redisError) Error() string { return string(e) }

// redisConn is a connection that speaks RESP 2, one command at a time.
type redisConn struct {
	net.Conn
	r *bufio.Reader
}

// dialRedis connects; t is nil for a connection without TLS.
func dialRedis(ctx context.Context, addr string, t *tls.Config) (*redisConn, error) {
	var d net.Dialer
	d.Timeout = connectTimeout
	var conn net.Conn
	var err error
	if t == nil {
		conn, err = d.DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{NetDialer: &d, Config: t}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return &redisConn{Conn: conn, r: bufio.NewReader(conn)}, nil
}

// do sends a command and returns the answer: a string, an int64, a []any, or
// nil. Its errors do not repeat the command.
func (c *redisConn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.Conn, b.String()); err != nil {
		return nil, fmt.Errorf("sending a command to Redis: %w", err)
	}
	return c.reply(0)
}

func (c *redisConn) reply(depth int) (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("reading Redis's answer: %w", err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("reading Redis's answer: an empty line")
	}
	kind, rest := line[0], line[1:]
	if kind == '+' {
		return rest, nil
	}
	if kind == '-' {
		return nil, redisError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, errors.New("reading Redis's answer: it is not RESP")
	}
	switch {
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$' && n >= 0 && n <= maxReply:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, text); err != nil {
			return nil, fmt.Errorf("reading Redis's answer: %w", err)
		}
		return string(text[:n]), nil
	case kind == '*' && n >= 0 && n <= maxReplyItems && depth < maxReplyDepth:
		var items []any
		for range n {
			item, err := c.reply(depth + 1)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return nil, errors.New("reading Redis's answer: it is not RESP, or too large")
}
