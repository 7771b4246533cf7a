package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/vault"
)

// vaultConn is one Vault connection and what is known of it.
type vaultConn struct {
	name   string
	cfg    config.Vault
	client *vault.Client
	log    *slog.Logger
	doubt  chan struct{} // whether guards can be made should be checked again
	bound  tokenBound

	mu        sync.Mutex
	unguarded string   // why we work without guards; empty: we work with them
	faults    []string // what is wrong with the guards we get

	// Of watchGuards: the login whose token was refused at the last check, and whether
	// a token of ours could be looked up by itself.
	refusedLogin int64
	looksUp      bool
}

// newVaultConn makes a connection; back is called when its Vault works again
// after an outage.
func newVaultConn(name string, cfg config.Vault, log *slog.Logger, back func()) (*vaultConn, error) {
	v := &vaultConn{name: name, cfg: cfg, log: log.With("vault", name), doubt: make(chan struct{}, 1)}
	settings, from, err := vaultSettings(name, cfg, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	from.tell(v.log)
	// What is shown and counted with is what is in force.
	v.cfg.Address, v.cfg.Timeout = settings.Address, events.FromDuration(settings.OpTimeout)
	if cfg.GuardRole == "" {
		v.unguarded = "no guard_role is configured"
	}
	settings.Logger = log // its lines name the connection themselves
	settings.OnCircuit = func(c vault.Circuit) {
		if !c.Out {
			back()
		}
	}
	v.client, err = vault.New(settings)
	return v, err
}

const (
	// recheckGuards is how often guards that could not be made, or do not hold,
	// are tried again.
	recheckGuards = time.Minute
	// checkPause is the rest between two checks that came to nothing.
	checkPause = 5 * time.Second
)

// run keeps the token alive and finds out whether guards can be made, until ctx
// ends.
func (v *vaultConn) run(ctx context.Context) error {
	if why := v.withoutGuards(); why != "" {
		v.warnUnguarded(why)
		return v.client.Run(ctx)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { v.watchGuards(ctx) })
	return v.client.Run(ctx)
}

// watchGuards checks at start, on doubt, and from time to time while something
// is wrong.
func (v *vaultConn) watchGuards(ctx context.Context) {
	for {
		known := v.checkGuards(ctx)
		again := checkPause
		if known {
			if again = recheckGuards; v.withoutGuards() == "" && len(v.guardFaults()) == 0 {
				again = 0 // only on doubt
			}
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-timer:
		case <-v.doubt:
		case <-ctx.Done():
			return
		}
	}
}

// checkGuards makes a guard and looks whether it holds; known is false where
// Vault gave no answer to that.
func (v *vaultConn) checkGuards(ctx context.Context) (known bool) {
	token := v.client.Token()
	if !token.LoggedIn {
		return false
	}
	check, err := v.client.CheckGuard(ctx, guardMargin)
	switch {
	case err == nil:
		v.refusedLogin = 0
		v.looksUp = v.looksUp || v.client.VerifyToken(ctx) == nil
		v.noteGuards("", check.Faults)
		return true
	case errors.Is(err, vault.ErrGuardUnfit), errors.Is(err, vault.ErrGuardForbidden) && v.tokenCounts(ctx, token.Logins):
		v.noteGuards(err.Error(), nil)
		return true
	default:
		return false
	}
}

// tokenCounts tells whether a refusal says something of the policy: with a dead
// token everything is refused (C24). A token that was never able to look itself up is
// perhaps forbidden to: then it takes a second refusal, under the token of another
// login. login is the one whose token was refused: what a later one is told says
// nothing of it.
func (v *vaultConn) tokenCounts(ctx context.Context, login int64) bool {
	err := v.client.VerifyToken(ctx)
	switch token := v.client.Token(); {
	case token.Logins != login:
		return false
	case err == nil && token.RefusedSince.IsZero():
		v.looksUp = true
		return true
	case v.looksUp: // it was able to, and is not any more
		return false
	}
	before := v.refusedLogin
	v.refusedLogin = login
	return before != 0 && before != login
}

func (v *vaultConn) noteGuards(unguarded string, faults []string) {
	v.mu.Lock()
	changed := v.unguarded != unguarded || strings.Join(v.faults, "\n") != strings.Join(faults, "\n")
	v.unguarded, v.faults = unguarded, faults
	v.mu.Unlock()
	if !changed {
		return
	}
	switch {
	case unguarded != "":
		v.warnUnguarded(unguarded)
	case len(faults) > 0:
		v.log.Error("guards do not hold as they should", "faults", faults)
	default:
		v.log.Info("guards hold")
	}
}

func (v *vaultConn) warnUnguarded(why string) {
	v.log.Error("working WITHOUT guards: a crash can leave a credential behind until its TTL ends", "reason", why)
}

// guarded tells whether acquisitions are made under guards.
func (v *vaultConn) guarded() bool { return v.withoutGuards() == "" }

// withoutGuards tells why acquisitions are made without guards; empty: they are
// made with them.
func (v *vaultConn) withoutGuards() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unguarded
}

func (v *vaultConn) guardFaults() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.faults
}

// doubtGuards has it checked again whether guards can be made.
func (v *vaultConn) doubtGuards() {
	select {
	case v.doubt <- struct{}{}:
	default:
	}
}

// revokeOptions is how leases are revoked at the connection.
func (v *vaultConn) revokeOptions() []vault.RevokeOption {
	if v.cfg.VerifyRevocations {
		return []vault.RevokeOption{vault.Verified()}
	}
	return nil
}

// guardTTL is how long a guard of a connection lives until it is extended.
func (s *Service) guardTTL(connection string) time.Duration {
	if v := s.vaults[connection]; v != nil {
		return v.cfg.GuardTTL.Duration()
	}
	return 0
}
