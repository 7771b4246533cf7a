package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/agent/child"
	"github.com/leasesvc/leasesvc/consumer/conformance"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

type consumerCheckCmd struct {
	Server      string        `env:"LEASESVC_SERVER,NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS to play on."`
	Creds       string        `env:"LEASESVC_CREDS" placeholder:"FILE" help:"NATS credentials file, of an account that may do what the service may."`
	Scope       string        `default:"check" help:"The scope that the consumer is set to; no service may lead it."`
	Name        string        `default:"check" help:"The name that it serves."`
	Consumer    string        `default:"check" help:"Who it says to be."`
	Key         string        `help:"Its public nkey (U...). Without it, unsigned answers count."`
	SealKey     string        `placeholder:"FILE" help:"A seal key of the check's own (see: leasesvc seal-key new); the consumer pins its public half. Left out, one is made."`
	Credentials string        `placeholder:"FILE" help:"JSON with two or more that it can log in with and one that it can't: {\"good\": [{...}, {...}], \"bad\": {...}}."`
	Patience    time.Duration `default:"10s" help:"How long an answer is waited for."`
	output
	Command []string `arg:"" optional:"" help:"The consumer, after --; it finds LEASESVC_SERVER, _SERVICE_KEY, _SCOPE, _NAME and _CONSUMER in its environment, and is ended with SIGTERM. Left out, start it yourself."`
}

func (c consumerCheckCmd) Run(ctx context.Context) error {
	keys, err := c.keys()
	if err != nil {
		return err
	}
	o := conformance.Options{
		Keys: keys, Scope: c.Scope, Name: c.Name, Consumer: c.Consumer, Key: c.Key, Patience: c.Patience,
	}
	if err := errors.Join(wire.CheckToken("scope", c.Scope), wire.CheckToken("name", c.Name), wire.CheckToken("consumer", c.Consumer)); err != nil {
		return usageError{err}
	}
	if c.Key != "" && !nkeys.IsValidPublicUserKey(c.Key) {
		return usageError{errors.New("--key: not a public user nkey (56 characters, U first)")}
	}
	if o.Good, o.Bad, err = c.credentials(); err != nil {
		return err
	}
	at := connection{Server: c.Server, Creds: c.Creds}
	if o.Conn, err = at.connect(ctx); err != nil {
		return err
	}
	defer o.Conn.Close()
	if _, err := o.Conn.Request(wire.KeySubject(c.Scope), nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("somebody leads the scope %s already: choose another one with --scope, and set the consumer to it", c.Scope)
	}
	if len(c.Command) > 0 {
		stop, err := c.start(keys)
		if err != nil {
			return err
		}
		defer stop()
		o.Stop = stop
	} else {
		fmt.Fprintf(os.Stderr, "waiting %s for the consumer %s of %s/%s; it pins the service key %s\n", c.Patience, c.Consumer, c.Scope, c.Name, keys.Public())
	}
	if c.Output == "table" {
		t := tabwriter.NewWriter(os.Stdout, 15, 0, 2, ' ', 0)
		o.Said = func(v conformance.Verdict) {
			why := ""
			if v.Why != "" {
				why = ": " + v.Why
			}
			fmt.Fprintf(t, "%s\t%s\t%s%s\n", v.Outcome, v.Rule, v.Says, why)
			_ = t.Flush() // as it goes
		}
	}
	verdicts, err := conformance.Check(ctx, o)
	if err != nil {
		return err
	}
	if c.Output != "table" {
		if err := c.print(verdicts, nil); err != nil {
			return err
		}
	}
	if !conformance.Passed(verdicts) {
		return &violatedError{"the consumer breaks rules"}
	}
	return nil
}

func (c consumerCheckCmd) keys() (*handover.Keys, error) {
	if c.SealKey == "" {
		seed, err := handover.NewSeed()
		if err != nil {
			return nil, err
		}
		return handover.NewKeys(seed)
	}
	text, err := os.ReadFile(c.SealKey)
	if err != nil {
		return nil, fmt.Errorf("reading the seal key: %w", err)
	}
	return handover.NewKeys(secret.New(trimmed(text)))
}

// credentials reads what the consumer is asked to use.
func (c consumerCheckCmd) credentials() (good []conformance.Credential, bad conformance.Credential, err error) {
	if c.Credentials == "" {
		return nil, bad, nil
	}
	text, err := os.ReadFile(c.Credentials)
	if err != nil {
		return nil, bad, fmt.Errorf("reading the credentials: %w", err)
	}
	var file struct {
		Good []json.RawMessage `json:"good"`
		Bad  json.RawMessage   `json:"bad"`
	}
	if json.Unmarshal(text, &file) != nil {
		return nil, bad, fmt.Errorf(`%s is not {"good": [{...}, {...}], "bad": {...}}`, c.Credentials)
	}
	for _, values := range file.Good {
		good = append(good, credentialOf(values))
	}
	if len(file.Bad) > 0 {
		bad = credentialOf(file.Bad)
	}
	return good, bad, nil
}

func credentialOf(values json.RawMessage) conformance.Credential {
	var public struct {
		Username string `json:"username"`
	}
	_ = json.Unmarshal(values, &public) // one without a user name has no public part
	return conformance.Credential{Public: public.Username, Values: wire.Values(values)}
}

// start runs the consumer.
func (c consumerCheckCmd) start(keys *handover.Keys) (stop func(), err error) {
	p, err := child.Start(child.Spec{
		Command: c.Command, StopSignal: syscall.SIGTERM, StopTimeout: 15 * time.Second, Stdout: os.Stderr, Stderr: os.Stderr,
	}, []string{
		"LEASESVC_SERVER=" + c.Server, "LEASESVC_SERVICE_KEY=" + keys.Public(), "LEASESVC_SCOPE=" + c.Scope,
		"LEASESVC_NAME=" + c.Name, "LEASESVC_CONSUMER=" + c.Consumer,
	})
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(p.Stop), nil
}
