package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/garbage"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type serveCmd struct {
	Config      string `required:"" placeholder:"FILE" help:"The service file (see: leasesvc config example)."`
	ExitOnFence bool   `env:"LEASESVC_EXIT_ON_FENCE" help:"End the process when another instance takes a scope over, instead of standing by."`
}

func (c serveCmd) Run(ctx context.Context) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	cfg.ExitOnFence = cfg.ExitOnFence || c.ExitOnFence
	logger := newLogger(cfg.Log, os.Stderr)
	exporter, err := traced{called: "leasesvc", log: logger, refuse: cfg.Refuse}.start(ctx, cfg.Tracing)
	if err != nil {
		return err
	}
	defer flush(ctx, cfg.ShutdownTimeout.Duration(), exporter)()
	garbage.Floor()
	svc, err := service.New(cfg, service.Options{
		Version: programVersion(), Logger: logger, TracerProvider: exporter.TracerProvider(),
		OnHTTP: func(url string) { logger.Info("the page is served", "url", url) },
	})
	if err != nil {
		return err
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-reload:
				svc.Reload()
			case <-ended:
				return
			}
		}
	}()
	return svc.Run(ctx)
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // config has checked it
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

type sealKeyCmd struct {
	New  sealKeyNewCmd  `cmd:"" help:"Print a fresh seal key. Keep it like the credentials it seals; all instances of a scope share it."`
	Show sealKeyShowCmd `cmd:"" help:"Print the id and the public half of seal keys, as status and the log name them; nothing secret."`
}

type sealKeyShowCmd struct {
	output
	Files []string `arg:"" name:"file" help:"The files of seal keys."`
}

func (c sealKeyShowCmd) Run() error {
	type shown struct {
		ID     string `json:"key_id"`
		Public string `json:"service_key"`
		File   string `json:"file"`
	}
	all := make([]shown, 0, len(c.Files))
	for _, file := range c.Files {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the seal key: %w", err)
		}
		keys, err := handover.NewKeys(secret.New(trimmed(b)))
		if err != nil {
			return fmt.Errorf("reading the seal key %s: %w", file, err)
		}
		all = append(all, shown{keys.ID(), keys.Public(), file})
	}
	return c.print(all, func(p *page) {
		p.row(bold, "ID", "PUBLIC HALF", "FILE")
		for _, k := range all {
			p.row(plain, k.ID, k.Public, k.File)
		}
	})
}

type sealKeyNewCmd struct {
	output
	File   string `help:"Write it to a file that only its owner can read, instead of printing it." placeholder:"PATH"`
	Reveal bool   `help:"Show it on a terminal, too."`
}

func (c sealKeyNewCmd) Run() error {
	if c.File == "" && !c.Reveal && isTerminal(os.Stdout) {
		return errors.New("not shown on a terminal; use --file, or --reveal, or a pipe")
	}
	seed, err := handover.NewSeed()
	if err != nil {
		return err
	}
	keys, err := handover.NewKeys(seed)
	if err != nil {
		return err
	}
	out := struct {
		File   string `json:"file,omitempty"`
		Key    string `json:"seal_key,omitempty"`
		Public string `json:"service_key"`
	}{c.File, "", keys.Public()}
	if c.File == "" {
		out.Key = seed.Reveal()
		return c.print(out, func(p *page) { p.line(plain, "%s", out.Key) })
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the seal key: %w", err)
	}
	if _, err := fmt.Fprintln(f, seed.Reveal()); err != nil {
		return fmt.Errorf("writing the seal key: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing the seal key: %w", err)
	}
	return c.print(out, func(p *page) { p.line(plain, "wrote %s; consumers pin its public half: %s", c.File, out.Public) })
}
