package vault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// GuardCheck is what a probe guard showed.
type GuardCheck struct {
	// Asked and Granted are the first TTL, ExtendAsked and Extended what it was
	// extended by.
	Asked, Granted        time.Duration
	ExtendAsked, Extended time.Duration
	Info                  TokenInfo
	// Faults say what keeps the role from guarding well, empty when nothing does.
	Faults []string
}

// CheckGuard makes a guard, looks it up, extends it by extend and takes it away
// again, and compares what was granted with what was asked: for the start and
// for a doctor. Nothing is read under it.
//
// Errors: those of [Client.CreateGuard], or an [Error] of the further steps. A
// guard that can be made but does not hold is no error, see Faults.
func (c *Client) CheckGuard(ctx context.Context, extend time.Duration) (check GuardCheck, err error) {
	check = GuardCheck{Asked: DefaultGuardTTL, ExtendAsked: extend}
	g, err := c.CreateGuard(ctx, GuardOptions{TTL: check.Asked, Meta: map[string]string{"leasesvc": "check"}})
	if err != nil {
		return check, err
	}
	defer func() {
		_, gone := c.RevokeGuard(ctx, g.Accessor)
		err = errors.Join(err, gone)
	}()
	check.Granted = g.TTL.Std()
	if check.Info, err = c.LookupGuard(ctx, g.Accessor); err != nil {
		return check, err
	}
	extension, err := c.ExtendGuard(ctx, g.Accessor, extend)
	if check.Extended = extension.TTL; err != nil {
		return check, err
	}
	fault := func(is bool, format string, args ...any) {
		if is {
			check.Faults = append(check.Faults, fmt.Sprintf(format, args...))
		}
	}
	fault(check.Granted != check.Asked, "asked for %s, it was granted %s: the role has a period, a max TTL or an explicit max TTL", check.Asked, check.Granted)
	fault(check.Extended < extend, "extended by %s, it was granted %s: set token_period=0 and token_explicit_max_ttl=0 on the role, and a max lease TTL of auth/token that is long enough", extend, check.Extended)
	fault(check.Info.Period.Std() > 0, "it has a period; set token_period=0")
	fault(check.Info.ExplicitMaxTTL.Std() > 0, "it has an explicit max TTL; set token_explicit_max_ttl=0")
	fault(!check.Info.Orphan, "it is no orphan; set orphan=true")
	return check, nil
}
