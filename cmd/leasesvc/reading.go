package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/service/api"
)

const (
	// lookAgain is when it is looked again whether anybody serves a scope that nobody
	// serves: it may be a takeover.
	lookAgain = time.Second
	// keyWithin bounds the question for the service's key, and a reading that a
	// pinned key of somebody else's lets come to nothing.
	keyWithin = 3 * time.Second
)

// reading reads values of a scope as an application does, but for the patience:
// where nobody serves the scope, or somebody whose key is not the pinned one, it says
// so within seconds.
func (c *connection) reading(ctx context.Context, nc *nats.Conn, client *api.Client, pinned []string, read func(context.Context, *consumer.Client) error) error {
	key, err := c.keyOf(ctx, nc, client)
	if err != nil {
		return err
	}
	other := len(pinned) > 0 && key != "" && !slices.Contains(pinned, key)
	if other {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, keyWithin)
		defer cancel()
	}
	reader, err := consumer.Connect(ctx, consumer.Options{Conn: nc, Scope: c.Scope, Consumer: "cli", ServiceKeys: pinned, Insecure: true})
	if err == nil {
		defer reader.Close()
		err = read(ctx, reader)
	}
	if err != nil && other {
		return otherKey(c.Scope, key, strings.Join(pinned, ", "))
	}
	return err
}

func otherKey(scope, key, pinned string) error {
	return fmt.Errorf("the service of scope %s has the key %s, and %s was given: that is another service's, or the seal key was changed; see: leasesvc status", scope, key, pinned)
}

// sealedTo says so where it is the key that a message was sealed to which makes an
// error.
func (c *connection) sealedTo(ctx context.Context, client *api.Client, key string, err error) error {
	if err == nil || key == "" {
		return err
	}
	if !nkeys.IsValidPublicCurveKey(key) {
		return usageError{errors.New("--service-key: not a public curve key (56 characters, X first); leasesvc status shows the service's")}
	}
	var refused *api.Problem
	if errors.As(err, &refused) {
		if st, failed := client.Status(ctx, c.Scope); failed == nil && st.ServiceKey != key {
			return otherKey(c.Scope, st.ServiceKey, key)
		}
	}
	return err
}

// errNobodyServes ends a reading from a scope that nobody serves, while others are.
var errNobodyServes = errors.New("nobody serves the scope")

// keyOf asks for the key of who serves the scope; empty: it is not known now. It is
// an error that nobody serves it while others are.
func (c *connection) keyOf(ctx context.Context, nc *nats.Conn, client *api.Client) (string, error) {
	for again := false; ; again = true {
		within, cancel := context.WithTimeout(ctx, keyWithin)
		m, err := nc.RequestWithContext(within, wire.KeySubject(c.Scope), nil)
		cancel()
		if err == nil {
			k, err := wire.Decode[wire.Key](m.Data)
			if err != nil {
				return "", nil //nolint:nilerr // the reader says what is wrong with it
			}
			return k.XKey, nil
		}
		led, _ := client.Scopes(ctx, discoverWithin)
		if !errors.Is(err, nats.ErrNoResponders) || len(led) == 0 || slices.Contains(led, c.Scope) {
			return "", nil // the reader waits
		}
		if again {
			return "", fmt.Errorf("%w %s here; those that are led are: %s", errNobodyServes, c.Scope, strings.Join(led, ", "))
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
