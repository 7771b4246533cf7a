package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/leasesvc/leasesvc/agent/child"
	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/service/api"
)

type runCmd struct {
	connection
	Document   []string      `placeholder:"NAME" help:"Put a settings document into the environment."`
	Lease      []string      `placeholder:"NAME" help:"Put a lease's values into the environment."`
	Prefix     string        `help:"Begin the names of the variables so."`
	ServiceKey []string      `env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status); several while it is being replaced. Without it the key that answers is trusted."`
	Wait       time.Duration `default:"60s" help:"How long to wait for what is not there yet."`
	Command    []string      `arg:"" help:"The command and its arguments, after --."`
}

// exitStatus is the exit code of a command that was run for somebody.
type exitStatus int

// Error implements error.
func (s exitStatus) Error() string { return fmt.Sprintf("the command ended with %d", int(s)) }

const exitNotRun = 126 // as a shell's

func (c runCmd) Run(ctx context.Context) error {
	if len(c.Document)+len(c.Lease) == 0 {
		return usageError{errors.New("name at least one --document or --lease whose values the command is to have")}
	}
	variables, err := c.variables(ctx)
	if err != nil {
		return err
	}
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	signals := make(chan os.Signal, 16) // before the start, so that none is lost
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p, err := child.Start(child.Spec{
		Command: c.Command, StopSignal: syscall.SIGTERM, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SameGroup: true,
	}, variables)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitStatus(exitNotRun)
	}
	passSignals(signals, p, terminal)
	return exitStatus(p.Code())
}

// passSignals passes on what we are sent until the command has ended. What a
// terminal sends, the command gets from it, too.
func passSignals(signals <-chan os.Signal, p *child.Process, terminal bool) {
	for {
		select {
		case s := <-signals:
			if terminal && (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH) {
				continue
			}
			_ = p.Signal(s) // one that has ended needs none
		case <-p.Exited():
			return
		}
	}
}

// runRest is the pace at which values are asked for again that are not there yet.
const runRest = 500 * time.Millisecond

// variables reads what the command is to have.
func (c runCmd) variables(ctx context.Context) ([]string, error) {
	nc, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if err := c.findScopeOf(ctx, nc); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	client, all := api.NewClient(nc), []string(nil)
	err = c.reading(ctx, nc, client, c.ServiceKey, func(ctx context.Context, reader *consumer.Client) error {
		all, err = c.read(ctx, client, reader)
		return err
	})
	return all, err
}

// read makes variables of the documents and leases.
func (c runCmd) read(ctx context.Context, client *api.Client, reader *consumer.Client) ([]string, error) {
	from, all := map[string]string{}, []string{}
	add := func(what string, content any) error {
		variables, err := render.Environment(content, c.Prefix)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, v := range variables {
			name, _, _ := strings.Cut(v, "=")
			if other, twice := from[name]; twice {
				return fmt.Errorf("%s and %s both give the variable %s", other, what, name)
			}
			from[name] = what
		}
		all = append(all, variables...)
		return nil
	}
	for _, name := range c.Document {
		content, err := patiently(ctx, func() (any, error) {
			d, err := reader.Document(ctx, name)
			if err != nil {
				return nil, err
			}
			return render.Parse([]byte(d.JSON().Reveal()))
		})
		if err == nil {
			err = add("document "+name, content)
		} else {
			err = whichDocuments(ctx, client, c.Scope, name, err)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range c.Lease {
		content, err := patiently(ctx, func() (any, error) {
			cred, err := reader.Get(ctx, name)
			if err != nil {
				return nil, err
			}
			return contentOf(cred)
		})
		switch {
		case err == nil:
			err = add("lease "+name, content)
		case errors.Is(err, consumer.ErrUnknownName):
			err = unknownName(ctx, client, c.Scope, name)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func contentOf(c consumer.Credential) (any, error) {
	out := map[string]any{}
	for _, k := range c.Keys() {
		text, _ := c.JSON(k)
		v, err := render.Parse([]byte(text.Reveal()))
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

// patiently asks again for what is not there yet.
func patiently(ctx context.Context, read func() (any, error)) (any, error) {
	for {
		v, err := read()
		if err == nil || !errors.Is(err, consumer.ErrNone) && !errors.Is(err, consumer.ErrExpired) && !errors.Is(err, consumer.ErrUnavailable) {
			return v, err
		}
		timer := time.NewTimer(runRest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}
