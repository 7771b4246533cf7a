package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/agent"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type agentCmd struct {
	Config string        `required:"" placeholder:"FILE" help:"The agent's file (see docs/agent.md)."`
	Once   bool          `help:"Write every file once with what is in force, tell nobody, and end: for an init container."`
	Check  bool          `help:"Only say what is wrong with the file."`
	Wait   time.Duration `default:"60s" help:"How long --once waits for what is not there yet."`
}

func (c agentCmd) Run(ctx context.Context) error {
	cfg, err := config.LoadAgent(c.Config)
	if err != nil {
		return err
	}
	if c.Check {
		if _, err := agent.New(agent.Options{Config: cfg}); err != nil {
			return err
		}
		fmt.Printf("%s is right\n", c.Config)
		return nil
	}
	exporter, err := traced{called: "leasesvc-agent", follows: true, log: newLogger(cfg.Log, os.Stderr), refuse: cfg.Refuse}.start(ctx, cfg.Tracing)
	if err != nil {
		return err
	}
	defer flush(ctx, mostFlush, exporter)()
	client, err := agentClient(ctx, cfg, exporter.TracerProvider())
	if err != nil {
		return err
	}
	defer client.Close()
	a, err := agent.New(agent.Options{
		Config: cfg, Client: client, Logger: newLogger(cfg.Log, os.Stderr), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return err
	}
	if !c.Once {
		return a.Run(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	return a.Once(ctx)
}

// agentClient makes the consumer that an agent's file describes.
func agentClient(ctx context.Context, cfg *config.Agent, spans trace.TracerProvider) (*consumer.Client, error) {
	url, opts, err := service.ClientOptions(&config.Config{NATS: cfg.NATS})
	if err != nil {
		return nil, cfg.Refuse("nats", "%v", err)
	}
	o := consumer.Options{
		URL: url, NATS: opts, Scope: cfg.Scope, Consumer: cfg.Consumer, Instance: cfg.Instance,
		ServiceKey: cfg.ServiceKey, ServiceKeys: cfg.ServiceKeys, Insecure: cfg.Insecure, Logger: newLogger(cfg.Log, os.Stderr), TracerProvider: spans,
	}
	if o.Instance == "" {
		o.Instance = instanceName()
	}
	if cfg.SeedFile != "" {
		seed, err := os.ReadFile(cfg.SeedFile)
		if err != nil {
			return nil, cfg.Refuse("seed_file", "it can't be read: %v", err)
		}
		o.Seed = secret.New(trimmed(seed))
	}
	client, err := consumer.Connect(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	return client, nil
}

// trimmed gives a file's one line.
func trimmed(file []byte) string { return strings.TrimSpace(string(file)) }

// instanceName makes an instance's name of the host's.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	return strings.TrimLeft(name[:min(len(name), 64)], "-")
}
