package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Health is what a node says of itself.
type Health struct {
	// State is KindNone for an active node that serves; else KindStandby,
	// KindSealed or KindUninitialised.
	State Kind
	// Status tells more exactly: 200 active, 429 standby, 472 secondary for
	// disaster recovery, 473 performance standby, 474 standby without contact
	// to the active node, 501 not initialised, 503 sealed (C53).
	Status  int
	Version string
	// ServerTime is the server's clock, to the second; zero where it did not say.
	ServerTime time.Time
	// SentAt is a moment before the request was sent.
	SentAt time.Time
}

// Serves tells whether requests may be sent: the node is active, or a standby
// that forwards them.
func (h Health) Serves() bool {
	return h.State == KindNone || h.Status == http.StatusTooManyRequests || h.Status == 473
}

// Health asks the node for its state; no token is sent. A sealed or standing-by
// node is an answer, not an error.
//
// Errors: [Error], when there was no answer or one that no node gives.
func (c *Client) Health(ctx context.Context) (Health, error) {
	rq := request{op: "health", method: http.MethodGet, path: "sys/health", open: true, node: true}
	a, err := c.call(ctx, rq)
	h := Health{Status: a.status, SentAt: a.sentAt}
	switch h.Status {
	case http.StatusOK:
	case http.StatusTooManyRequests, 472, 473, 474:
		h.State = KindStandby
	case http.StatusNotImplemented:
		h.State = KindUninitialised
	case http.StatusServiceUnavailable:
		h.State = KindSealed
	default:
		if err == nil {
			err = c.unusable(rq, a, fmt.Errorf("HTTP %d is no health", h.Status))
		}
		return Health{}, err
	}
	var doc struct {
		Initialized *bool  `json:"initialized"`
		Version     string `json:"version"`
		Time        int64  `json:"server_time_utc"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Initialized == nil {
		if err != nil {
			return Health{}, err // a proxy's 503, a quota's 429
		}
		return Health{}, c.unusable(rq, a, errors.New("the answer is not a health document"))
	}
	h.Version = doc.Version
	if doc.Time > 0 {
		h.ServerTime = time.Unix(doc.Time, 0)
	}
	return h, nil
}
