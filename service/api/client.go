package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Client asks the holders of scopes.
type Client struct{ nc *nats.Conn }

// NewClient makes a client on a connection, which stays the caller's.
func NewClient(nc *nats.Conn) *Client { return &Client{nc: nc} }

// ErrNobodyLeads says that no instance answers for a scope.
var ErrNobodyLeads = errors.New("no instance leads the scope")

// settled is how long after an answer no further one is waited for.
const settled = 100 * time.Millisecond

// Scopes asks who is there and gives the scopes that are led, sorted. It waits
// for the first answer for the time given, and for others a short while more.
func (c *Client) Scopes(ctx context.Context, within time.Duration) ([]string, error) {
	inbox := c.nc.NewRespInbox()
	answers := make(chan *nats.Msg, 256)
	sub, err := c.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("asking which scopes are led: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest("$SRV.PING."+ServiceName, inbox, nil); err != nil {
		return nil, fmt.Errorf("asking which scopes are led: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var scopes []string
	rest := make(<-chan time.Time)
	for {
		select {
		case m := <-answers:
			var info micro.Ping // an INFO would have the schemas of everything as well
			if m.Header.Get("Status") == "503" {
				return nil, nil
			}
			if json.Unmarshal(m.Data, &info) == nil && info.Metadata[MetadataScope] != "" {
				scopes = append(scopes, info.Metadata[MetadataScope])
				rest = time.After(settled)
			}
			continue
		case <-rest:
		case <-ctx.Done():
		}
		slices.Sort(scopes)
		return slices.Compact(scopes), nil
	}
}

// Status asks a scope's holder for its status.
func (c *Client) Status(ctx context.Context, scope string) (Status, error) {
	return ask[Status](ctx, c, Subject(OpStatus, scope))
}

// Leases asks for the table of a scope.
func (c *Client) Leases(ctx context.Context, scope string) (Leases, error) {
	return ask[Leases](ctx, c, Subject(OpLeases, scope))
}

// Rotate asks for a successor of a name's active lease.
func (c *Client) Rotate(ctx context.Context, scope, name string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpRotate, scope, name))
}

// Revoke takes a name's active lease away at once.
func (c *Client) Revoke(ctx context.Context, scope, name string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpRevoke, scope, name))
}

// Apply has the service read its definitions file again.
func (c *Client) Apply(ctx context.Context, scope string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpApply, scope))
}

// ApplyDefinitions has a definitions file put in force, sealed to the service's
// public key. A revision that is not above the one in force changes nothing.
func (c *Client) ApplyDefinitions(ctx context.Context, scope, serviceKey string, d Definitions) (Done, error) {
	m, err := sealed(Subject(OpApply, scope), serviceKey, d)
	if err != nil {
		return Done{}, fmt.Errorf("applying %s: %w", d.File, err)
	}
	if most := c.nc.MaxPayload(); int64(len(m.Data)) > most {
		return Done{}, fmt.Errorf("applying %s: it has %d bytes sealed, and this NATS takes %d in one message; put the file where the service reads it, and run leasesvc apply without it", d.File, len(m.Data), most)
	}
	return send[Done](ctx, c, m)
}

// Reissue asks for successors of all active leases of a scope.
func (c *Client) Reissue(ctx context.Context, scope string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpReissue, scope))
}

// StepDown has the holder give a scope to a standby.
func (c *Client) StepDown(ctx context.Context, scope string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpStepDown, scope))
}

// Shutdown has the holder revoke all that it owns and leave the scope.
func (c *Client) Shutdown(ctx context.Context, scope string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpShutdown, scope))
}

// Finalize has events written as the holder's release writes them, from here on.
func (c *Client) Finalize(ctx context.Context, scope string) (Done, error) {
	return ask[Done](ctx, c, Subject(OpFinalize, scope))
}

// Adopt hands a lease over that was obtained elsewhere, sealed to the service's
// public key by a key of this call's own.
func (c *Client) Adopt(ctx context.Context, scope, name, serviceKey string, a Adoption) (Done, error) {
	m, err := sealed(Subject(OpAdopt, scope, name), serviceKey, a)
	if err != nil {
		return Done{}, fmt.Errorf("adopting a lease for %s: %w", name, err)
	}
	return send[Done](ctx, c, m)
}

// ask sends a request and reads the answer: a T, or a [*Problem] as the error.
func ask[T any](ctx context.Context, c *Client, subject string) (T, error) {
	return send[T](ctx, c, nats.NewMsg(subject))
}

func send[T any](ctx context.Context, c *Client, request *nats.Msg) (T, error) {
	var out T
	m, err := c.nc.RequestMsgWithContext(ctx, request)
	op, rest, _ := strings.Cut(strings.TrimPrefix(request.Subject, "leasesvc."), ".")
	scope, _, _ := strings.Cut(rest, ".")
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return out, fmt.Errorf("asking for %s: %w %s; is leasesvc running, and is the scope's name right?", op, ErrNobodyLeads, scope)
	case err != nil:
		return out, fmt.Errorf("asking for %s of scope %s: %w", op, scope, err)
	}
	if m.Header.Get(micro.ErrorHeader) != "" {
		var p Problem
		if json.Unmarshal(m.Data, &p) != nil || p.Message == "" {
			p.Message = m.Header.Get(micro.ErrorHeader)
		}
		return out, &p
	}
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return out, fmt.Errorf("reading the answer to %s of scope %s: %w", op, scope, err)
	}
	return out, nil
}
