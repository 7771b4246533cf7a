package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// unwrapKV takes the inner data out of an answer of a KV version 2 mount.
func (g *Grant) unwrapKV(e envelope, fields map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	inner := present(fields["data"])
	if present(fields["metadata"]) == nil {
		return nil, errors.New("the answer is not that of a KV version 2 mount: it has no metadata")
	}
	meta, err := e.object("metadata", fields["metadata"])
	if err != nil {
		return nil, err
	}
	if g.Version, err = readCount("version", meta["version"]); err != nil {
		return nil, err
	}
	if fields, err = e.object("data.data", inner); err != nil {
		return nil, err
	}
	g.Data = inner
	return fields, nil
}

// versionGone tells a deleted or destroyed KV version, a 404 with the version's
// metadata, from a secret that never was.
func (a answer) versionGone(err error, opts ReadOptions) error {
	var e *Error
	if !opts.KVv2 || !errors.As(err, &e) || e.Kind != KindNotFound {
		return err
	}
	var doc struct {
		Data struct {
			Metadata struct {
				Deleted   string `json:"deletion_time"`
				Destroyed bool   `json:"destroyed"`
				Version   int64  `json:"version"`
			} `json:"metadata"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		return err
	}
	gone := *e
	switch m := doc.Data.Metadata; {
	case m.Destroyed:
		gone.Err = fmt.Errorf("%w: version %d can't be had back; write a new one", ErrDestroyed, m.Version)
	case m.Deleted != "":
		gone.Err = fmt.Errorf("%w: version %d; undelete it or write a new one", ErrDeleted, m.Version)
	default:
		return err
	}
	return &gone
}

// readCertificate notes a certificate's own end, by whichever clock says that
// it is nearer: ours is the one that consumers verify with, the server's the
// one that signed.
func (g *Grant) readCertificate(a answer, fields map[string]json.RawMessage) error {
	raw := present(fields["expiration"])
	if raw == nil {
		return errors.New("the answer is not that of a PKI mount: it has no expiration")
	}
	text := string(raw)
	if raw[0] == '"' {
		var err error
		if text, err = readText("expiration", raw); err != nil {
			return err
		}
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at <= 0 || at > 1<<40 {
		return errors.New("expiration is no time in seconds since 1970")
	}
	g.Expires = time.Unix(at, 0)
	left := g.Expires.Sub(a.sentAt.Round(0))
	if !a.serverTime.IsZero() {
		// The server's clock is told without its fraction of a second.
		left = min(left, g.Expires.Sub(a.serverTime)-time.Second)
	}
	if g.LeaseID == "" || left < g.TTL.Std() {
		g.TTL, g.Suspect = DurationOf(left), ""
		switch {
		case left <= 0:
			g.Suspect = "the certificate has expired, 0 counts"
		case left > MaxDuration:
			g.Suspect = "the certificate lives longer than ten years, " + g.TTL.String() + " counts"
		}
	}
	return nil
}

// readStaticRole notes a static role's clock.
func (g *Grant) readStaticRole(fields map[string]json.RawMessage) error {
	if present(fields["last_vault_rotation"]) == nil && present(fields["ttl"]) == nil {
		return errors.New("the answer is not that of a static role: it has neither ttl nor last_vault_rotation")
	}
	var suspect string
	g.RotatesIn, suspect = readDuration("ttl", fields["ttl"])
	if suspect != "" {
		g.Suspect = suspect
	}
	g.fleeting = []string{"ttl"}
	var err error
	g.LastRotation, err = readTime("last_vault_rotation", fields["last_vault_rotation"])
	return err
}
