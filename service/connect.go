package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/config"
)

// embeddedReady is how long an embedded NATS server may take to accept
// connections.
const embeddedReady = 30 * time.Second

// startEmbedded starts a NATS server in this process: JetStream, every message
// on disk before it is acknowledged.
func startEmbedded(cfg *config.Embedded, log *slog.Logger) (*server.Server, error) {
	host, port, err := splitListen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "leasesvc", Host: host, Port: port, JetStream: true, StoreDir: cfg.Store, SyncAlways: true,
		NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS server: %w", err)
	}
	ns.SetLoggerV2(natsLogger{log.With("part", "nats")}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(embeddedReady) {
		ns.Shutdown()
		return nil, fmt.Errorf("the embedded NATS server on %s did not get ready within %s; is the port taken, or %s unwritable?", cfg.Listen, embeddedReady, cfg.Store)
	}
	return ns, nil
}

// splitListen takes an address apart.
func splitListen(listen string) (string, int, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("nats.embedded.listen: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, fmt.Errorf("nats.embedded.listen: port %q is no number", port)
	}
	if n == 0 {
		n = server.RANDOM_PORT
	}
	return host, n, nil
}

// natsLogger passes on what the embedded server warns of.
type natsLogger struct{ log *slog.Logger }

func (natsLogger) Noticef(string, ...any)           {}
func (natsLogger) Debugf(string, ...any)            {}
func (natsLogger) Tracef(string, ...any)            {}
func (l natsLogger) Warnf(format string, v ...any)  { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l natsLogger) Errorf(format string, v ...any) { l.log.Error(fmt.Sprintf(format, v...)) }
func (l natsLogger) Fatalf(format string, v ...any) { l.log.Error(fmt.Sprintf(format, v...)) }

// natsOptions are the options of the service's connection.
func natsOptions(cfg *config.NATS, log *slog.Logger) ([]nats.Option, error) {
	opts := append(journal.ConnOptions(),
		nats.Name("leasesvc"),
		nats.RetryOnFailedConnect(true),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: we closed it
				log.Warn("NATS is away", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("NATS is back", "server", nc.ConnectedUrlRedacted()) }),
	)
	switch {
	case cfg.CredentialsFile != "":
		opts = append(opts, nats.UserCredentials(cfg.CredentialsFile))
	case cfg.NKeySeedFile != "":
		o, err := nats.NkeyOptionFromSeed(cfg.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("reading nats.nkey_seed_file %s: %w", cfg.NKeySeedFile, err)
		}
		opts = append(opts, o)
	case cfg.TokenFile != "":
		token, err := readSecret(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading nats.token_file: %w", err)
		}
		opts = append(opts, nats.Token(token.Reveal()))
	case cfg.User != "":
		password, err := readSecret(cfg.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("reading nats.password_file: %w", err)
		}
		opts = append(opts, nats.UserInfo(cfg.User, password.Reveal()))
	}
	if cfg.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(cfg.TLS.CA))
	}
	if cfg.TLS.Cert != "" {
		opts = append(opts, nats.ClientCert(cfg.TLS.Cert, cfg.TLS.Key))
	}
	return opts, nil
}

// awaitConnected waits until NATS is there, saying once what it waits for.
func awaitConnected(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	said := false
	for !nc.IsConnected() {
		if nc.IsClosed() {
			return fmt.Errorf("connecting to NATS: %w", nc.LastError())
		}
		if !said {
			log.Warn("waiting for NATS", "error", nc.LastError())
			said = true
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for d or until ctx ends, whose error it gives then.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errEmptyFile = errors.New("the file is empty")

// readSecret reads a file that holds one secret.
func readSecret(path string) (secret.String, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return secret.String{}, err
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return secret.String{}, fmt.Errorf("%s: %w", path, errEmptyFile)
	}
	return secret.New(s), nil
}

// ClientOptions gives how a command reaches the NATS of a service file.
func ClientOptions(cfg *config.Config) (url string, opts []nats.Option, err error) {
	opts, err = natsOptions(&cfg.NATS, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", nil, err
	}
	url = cfg.NATS.URL
	if e := cfg.NATS.Embedded; e != nil {
		url = "nats://" + e.Listen
	}
	return url, append(opts, nats.RetryOnFailedConnect(false)), nil
}
