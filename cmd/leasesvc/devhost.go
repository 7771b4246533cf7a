package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/secret"
)

// hostOf gives HOST:PORT/DATABASE of a DSN, with its TLS mode: what an
// application or a verifier may know of it.
func hostOf(dsn secret.String) (string, error) {
	cfg, err := pgx.ParseConfig(dsn.Reveal())
	if err != nil {
		return "", fmt.Errorf("reading the PostgreSQL DSN: it is not one that pgx understands")
	}
	host := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))) + "/" + url.PathEscape(cfg.Database)
	if cfg.TLSConfig == nil {
		host += "?sslmode=disable"
	}
	return host, nil
}

// natsRetry lets the demo's application start before NATS listens.
func natsRetry() []nats.Option {
	return []nats.Option{nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond)}
}
