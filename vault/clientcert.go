package vault

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// clientCert is our certificate and key, read again when their files change. A
// pair that can't be read (one file of two was replaced so far) leaves the one
// before in force.
type clientCert struct {
	certFile, keyFile string
	conn              string
	log               *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  string // of the files as they were read
	failed string // stamp of the last pair that could not be read
	used   string // stamp of the pair that the last login succeeded with
}

func newClientCert(certFile, keyFile string) (*clientCert, error) {
	c := &clientCert{certFile: certFile, keyFile: keyFile, log: slog.New(slog.DiscardHandler)}
	c.stamp = c.look()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	c.pair = &pair
	return c, nil
}

// current gives the pair that the files hold now.
func (c *clientCert) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.pair
}

func (c *clientCert) refresh() {
	stamp := c.look()
	if stamp == c.stamp || stamp == c.failed {
		return
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.failed = stamp
		c.log.Warn("the client certificate's files changed and can't be read together; the one before stays in use", "vault", c.conn, "error", err)
		return
	}
	c.pair, c.stamp, c.failed = &pair, stamp, ""
	c.log.Info("the client certificate was read again", "vault", c.conn, "file", c.certFile)
}

// state tells one pair from another: that of now.
func (c *clientCert) state() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.stamp
}

// use notes that a login succeeded with the pair of that state.
func (c *clientCert) use(state string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = state
}

// changed tells whether the pair is another than the last login succeeded with.
func (c *clientCert) changed() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.used != "" && c.used != c.stamp
}

// look tells one state of the files from another.
func (c *clientCert) look() string {
	stamp := ""
	for _, f := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(f)
		if err != nil {
			stamp += "absent;"
			continue
		}
		stamp += fmt.Sprintf("%s %d;", info.ModTime().Format(time.RFC3339Nano), info.Size())
	}
	return stamp
}
