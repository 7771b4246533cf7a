package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Renewal is what a renewal gave. It prints and marshals without Data.
type Renewal struct {
	// LeaseID is the caller's, unless the answer has a real new one, which
	// then is a new ownership (L31, L32, C20).
	LeaseID string
	// TTL counts from SentAt. It may be less than what was asked, or 0: what
	// that means is the caller's to say (L31, L37).
	TTL       Duration
	Renewable bool
	// Data is nil when the answer has none: the data stays as it was (L31).
	Data json.RawMessage `json:"-"`
	// Keys are the names in Data, sorted.
	Keys     []string
	Warnings []string
	// SentAt is a moment before the request was sent.
	SentAt time.Time
	// Suspect is that of [Grant].
	Suspect string
}

// RenewLease asks for increment more to live, from now, rounded up to whole
// seconds. It may be repeated.
//
// Errors: [Error]; KindNotFound when the lease is gone (C14); ErrEmptyLeaseID
// without a request.
func (c *Client) RenewLease(ctx context.Context, leaseID string, increment time.Duration) (Renewal, error) {
	const op, path = "renew lease", "sys/leases/renew"
	if err := c.checkLease(op, path, leaseID); err != nil {
		return Renewal{}, err
	}
	if increment <= 0 {
		return Renewal{}, c.invalid(op, path, fmt.Errorf("increment %s is not positive", increment))
	}
	rq := request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true, mount: leaseID,
		body: map[string]any{"lease_id": leaseID, "increment": wholeSeconds(increment)}}
	a, err := c.call(ctx, rq)
	if err != nil {
		return Renewal{}, leaseGone(err)
	}
	e, err := a.parse(rq.token)
	if err != nil {
		return Renewal{}, c.unusable(rq, a, err)
	}
	r := Renewal{LeaseID: leaseID, TTL: e.duration, Renewable: e.renewable, Data: e.data, Warnings: e.warnings, SentAt: a.sentAt, Suspect: e.suspect}
	c.odd(r.Suspect, r.Warnings)
	if isLeaseID(e.leaseID) {
		r.LeaseID = e.leaseID
	}
	if e.data != nil {
		fields, err := e.object("data", e.data)
		if err != nil {
			return Renewal{}, c.unusable(rq, a, err)
		}
		if r.Keys = sortedKeys(fields); len(r.Keys) == 0 {
			r.Data, r.Keys = nil, nil
		}
	}
	return r, nil
}

// isLeaseID tells a lease id from nothing and from the API path that some
// engines answer a renewal with (L31, C20).
func isLeaseID(id string) bool {
	path := strings.TrimPrefix(strings.TrimPrefix(id, "/"), "v1/")
	return id != "" && !strings.HasPrefix(path, "sys/leases/renew") && !strings.HasPrefix(path, "sys/renew") && !strings.HasPrefix(path, "auth/")
}

// LeaseInfo is what a look-up of a lease tells.
type LeaseInfo struct {
	LeaseID string
	// TTL is what is left, as of SentAt.
	TTL       Duration
	Renewable bool
	// Issued and Expires are by the server's clock, zero where it did not say.
	Issued, Expires time.Time
	SentAt          time.Time
	// Suspect is that of [Grant].
	Suspect string
}

// LookupLease tells what is left of a lease.
//
// Errors: [Error]; KindNotFound when the lease is gone; ErrEmptyLeaseID without
// a request.
func (c *Client) LookupLease(ctx context.Context, leaseID string) (LeaseInfo, error) {
	const op, path = "look up lease", "sys/leases/lookup"
	if err := c.checkLease(op, path, leaseID); err != nil {
		return LeaseInfo{}, err
	}
	rq := request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true, look: true, mount: leaseID,
		body: map[string]any{"lease_id": leaseID}}
	a, err := c.call(ctx, rq)
	if err != nil {
		return LeaseInfo{}, leaseGone(err)
	}
	info, err := a.leaseInfo(leaseID)
	if err != nil {
		return LeaseInfo{}, c.unusable(rq, a, err)
	}
	return info, nil
}

func (a answer) leaseInfo(leaseID string) (LeaseInfo, error) {
	e, err := a.parse()
	if err != nil {
		return LeaseInfo{}, err
	}
	data, err := e.object("data", e.data)
	if err != nil {
		return LeaseInfo{}, err
	}
	info := LeaseInfo{LeaseID: leaseID, SentAt: a.sentAt}
	info.TTL, info.Suspect = readDuration("ttl", data["ttl"])
	if info.Renewable, err = readBool("renewable", data["renewable"]); err != nil {
		return LeaseInfo{}, err
	}
	if info.Issued, err = readTime("issue_time", data["issue_time"]); err != nil {
		return LeaseInfo{}, err
	}
	info.Expires, err = readTime("expire_time", data["expire_time"])
	return info, err
}

func readTime(field string, raw json.RawMessage) (time.Time, error) {
	text, err := readText(field, raw)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a time", field)
	}
	return t, nil
}

func (c *Client) checkLease(op, path, leaseID string) error {
	if leaseID == "" {
		return c.invalid(op, path, ErrEmptyLeaseID)
	}
	if err := checkID("lease id", leaseID); err != nil {
		return c.invalid(op, path, err)
	}
	return nil
}

// Format prints a renewal without its data.
func (r Renewal) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, fmt.Sprintf("lease %q, ttl %s s, keys [%s]", r.LeaseID, r.TTL, strings.Join(r.Keys, " ")))
}

// LogValue logs a renewal without its data.
func (r Renewal) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lease", r.LeaseID), slog.String("ttl_s", r.TTL.String()), slog.Any("keys", r.Keys))
}
