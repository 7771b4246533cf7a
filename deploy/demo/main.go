package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/secret"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run works until ctx ends.
func run(ctx context.Context) error {
	s, err := fromEnvironment()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	client, err := consumer.Connect(ctx, consumer.Options{
		URL: s.nats, NATS: []nats.Option{nats.UserInfo(s.user, s.password.Reveal()), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1)},
		Scope: s.scope, Consumer: s.consumer, Instance: s.instance, Seed: s.seed, ServiceKey: s.serviceKey, Logger: logger,
	})
	if err != nil {
		return err
	}
	defer client.Close()

	// Each waits for its first credential, and none for the others; what ends one for
	// good ends all.
	works := []*work{
		{"postgresql", func(ctx context.Context) (server, error) { return newOrders(ctx, client, s.postgres) }},
		{"rabbitmq", func(ctx context.Context) (server, error) { return newQueue(ctx, client, s.rabbitmq) }},
		{"redis", func(ctx context.Context) (server, error) { return newCache(ctx, client, s.redis) }},
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range works {
		group.Go(func() error { return w.run(ctx) })
	}
	return group.Wait()
}

// settings are what the environment says.
type settings struct {
	nats, user                string
	password, seed            secret.String
	scope, consumer, instance string
	serviceKey                string
	postgres, rabbitmq, redis string
}

func fromEnvironment() (settings, error) {
	var errs []error
	need := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
		return v
	}
	file := func(name string) string {
		path := need(name)
		if path == "" {
			return ""
		}
		b, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return strings.TrimSpace(string(b))
	}
	s := settings{
		nats: need("NATS_URL"), user: need("NATS_USER"), password: secret.New(file("NATS_PASSWORD_FILE")),
		scope: need("SCOPE"), consumer: need("CONSUMER"), instance: need("INSTANCE"),
		seed: secret.New(file("SEED_FILE")), serviceKey: file("SERVICE_KEY_FILE"),
		postgres: need("POSTGRES"), rabbitmq: need("RABBITMQ"), redis: need("REDIS"),
	}
	return s, errors.Join(errs...)
}

// server is one that the demo works with.
type server interface {
	// do works once and tells as whom, by the server's own word, and what came out.
	do(ctx context.Context) (who, what string, err error)
	// done is closed when rotations are not followed any more; why says the reason.
	done() <-chan struct{}
	why() error
	close()
}

// work is what is done on one server, for as long as the demo runs.
type work struct {
	name  string
	start func(context.Context) (server, error)
}

const (
	pace        = time.Second
	doWithin    = 10 * time.Second
	reportEvery = 10
)

// run ends when ctx does, with nil, or with what kept the work from beginning.
func (w *work) run(ctx context.Context) error {
	s, err := w.start(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s: %w", w.name, err)
	}
	defer s.close()
	var last string
	var done, failed int
	beat := time.NewTicker(pace)
	defer beat.Stop()
	for {
		who, what, err := once(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			failed++
			say("%-10s FAILED: %v", w.name, err)
		default:
			done++
		}
		switch {
		case err == nil && who != last:
			say("%-10s I am %s: %s", w.name, who, what)
			last = who
		case (done+failed)%reportEvery == 0:
			say("%-10s still %s: %d done, %d failed", w.name, last, done, failed)
		}
		select {
		case <-beat.C:
		case <-s.done():
			return fmt.Errorf("%s: rotations are not followed any more: %w", w.name, s.why())
		case <-ctx.Done():
			return nil
		}
	}
}

func once(ctx context.Context, s server) (who, what string, err error) {
	ctx, cancel := context.WithTimeout(ctx, doWithin)
	defer cancel()
	return s.do(ctx)
}

// say prints one whole line, so that several goroutines' lines don't mix.
func say(format string, args ...any) {
	fmt.Fprint(os.Stdout, time.Now().Format("15:04:05 "), fmt.Sprintf(format, args...), "\n")
}
