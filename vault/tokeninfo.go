package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// TokenInfo is what a look-up of a token tells.
type TokenInfo struct {
	Accessor string
	// TTL is what is left, as of SentAt; 0 for a token that never expires.
	TTL Duration
	// Suspect says what was odd about TTL, empty when nothing was.
	Suspect     string
	CreationTTL Duration
	// Period and ExplicitMaxTTL are those of the token itself, 0 where it has
	// none. Those of its role are not shown by servers: that a guard does not
	// extend is seen by what [Client.ExtendGuard] was granted.
	Period         Duration
	ExplicitMaxTTL Duration
	Renewable      bool
	Orphan         bool
	Type           string // "service" or "batch"
	UsesLeft       int64  // 0: no limit
	Policies       []string
	SentAt         time.Time
}

// tokenInfo reads the answer of a token look-up.
func (a answer) tokenInfo(known ...secret.String) (TokenInfo, error) {
	info := TokenInfo{SentAt: a.sentAt}
	e, err := a.parse(known...)
	if err != nil {
		return info, err
	}
	data, err := e.object("data", e.data)
	if err != nil {
		return info, err
	}
	if present(data["ttl"]) == nil {
		return info, errors.New("the token's ttl is missing")
	}
	info.TTL, info.Suspect = readDuration("ttl", data["ttl"])
	info.CreationTTL, _ = readDuration("creation_ttl", data["creation_ttl"])
	info.Period, _ = readDuration("period", data["period"])
	info.ExplicitMaxTTL, _ = readDuration("explicit_max_ttl", data["explicit_max_ttl"])
	if info.UsesLeft, err = readCount("num_uses", data["num_uses"]); err != nil {
		return info, err
	}
	texts := []struct {
		field string
		to    *string
	}{{"accessor", &info.Accessor}, {"type", &info.Type}}
	for _, t := range texts {
		if *t.to, err = readText(t.field, data[t.field]); err != nil {
			return info, err
		}
	}
	if info.Renewable, err = readBool("renewable", data["renewable"]); err != nil {
		return info, err
	}
	if info.Orphan, err = readBool("orphan", data["orphan"]); err != nil {
		return info, err
	}
	if raw := present(data["policies"]); raw != nil {
		if err := json.Unmarshal(raw, &info.Policies); err != nil {
			return info, errors.New("policies is not a list of texts")
		}
	}
	return info, nil
}

// tokenGrant is the auth part of an answer that makes or renews a token.
type tokenGrant struct {
	value     secret.String
	accessor  string
	kind      string
	ttl       Duration
	suspect   string
	renewable bool
	orphan    json.RawMessage // older servers do not say
	uses      int64
	warnings  []string
}

func (a answer) tokenGrant(known ...secret.String) (tokenGrant, error) {
	var g tokenGrant
	e, err := a.parse(known...)
	if err != nil {
		return g, err
	}
	auth, err := e.object("auth", e.auth)
	if err != nil {
		return g, err
	}
	value, err := readText("client_token", auth["client_token"])
	if err != nil {
		return g, err
	}
	g.value = secret.New(value)
	if g.accessor, err = readText("accessor", auth["accessor"]); err != nil {
		return g, err
	}
	if err = checkID("accessor", g.accessor); err != nil {
		return g, err
	}
	if g.kind, err = readText("token_type", auth["token_type"]); err != nil {
		return g, err
	}
	if g.renewable, err = readBool("renewable", auth["renewable"]); err != nil {
		return g, err
	}
	if g.uses, err = readCount("num_uses", auth["num_uses"]); err != nil {
		return g, err
	}
	g.ttl, g.suspect = readDuration("lease_duration", auth["lease_duration"])
	g.orphan, g.warnings = present(auth["orphan"]), e.warnings
	return g, nil
}

func readCount(field string, raw json.RawMessage) (int64, error) {
	if present(raw) == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", field)
	}
	return n, nil
}

// wholeSeconds gives d as Vault takes it, rounded up: what is below a second
// would else become 0, which Vault reads as "the default".
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((max(d, 0)+time.Second-1)/time.Second), 10) + "s"
}
