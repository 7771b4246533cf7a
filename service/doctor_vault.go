package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

// probeExtension is what a probe guard is extended by: the life of a lease that
// is usual, and the margin.
const probeExtension = time.Hour + guardMargin

const printsPolicy = "leasesvc vault-policy prints the policies and the token role that work"

// vault examines a connection, as far as each step lets the next one be taken.
func (x *exam) vault(ctx context.Context, name string) {
	about := "vault " + name
	cfg := x.cfg.Vaults[name]
	settings, from, err := vaultSettings(name, cfg, x.env)
	if err != nil {
		x.problem(about, "settings", "correct the service file or the environment", "%s", oneLine(err))
		return
	}
	client, err := vault.New(settings)
	if err != nil {
		x.problem(about, "settings", "correct the service file or the environment", "%s", oneLine(err))
		return
	}
	defer client.Close()
	x.settings(about, settings.Address, from)
	if !x.health(ctx, about, client) || !x.logIn(ctx, about, client, settings.Login) {
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		if err := client.Logout(ctx); err != nil {
			x.unchecked(about, "log out", "it ends by its TTL", "the token of this examination was not given back: %s", oneLine(err))
		}
	}()
	given := settings.Login == (vault.Login{})
	x.token(ctx, about, client, given, cfg.GuardRole != "")
	x.guards(ctx, about, client, cfg.GuardRole)
	x.leaseRights(ctx, about, client, x.accesses(name))
	x.paths(ctx, about, client, cfg.GuardRole, x.accesses(name))
}

func (x *exam) settings(about, address string, from environment) {
	said := address
	if len(from.used) > 0 {
		said += "; the environment wins over the service file with " + strings.Join(from.used, ", ")
	}
	if len(from.ignored) > 0 {
		x.add(about, "settings", VerdictOK, "unset what is not meant", "%s; set, and without effect here: %s", said, strings.Join(from.ignored, ", "))
		return
	}
	x.ok(about, "settings", "%s", said)
}

func (x *exam) health(ctx context.Context, about string, client *vault.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	h, err := client.Health(ctx)
	received := time.Now()
	if err != nil {
		x.problem(about, "health", "check the address, TLS, the network and that the server runs", "%s", oneLine(err))
		return false
	}
	if !h.Serves() {
		do := map[vault.Kind]string{
			vault.KindSealed: "unseal it", vault.KindUninitialised: "initialise it, or correct the address",
			vault.KindStandby: "wait for an active node, or correct the address",
		}[h.State]
		x.problem(about, "health", do, "the node is %s (HTTP %d)", h.State, h.Status)
		return false
	}
	x.ok(about, "health", "version %s serves, answered in %s", h.Version, received.Sub(h.SentAt).Round(time.Millisecond))
	if !h.ServerTime.IsZero() {
		x.clock(about, h.ServerTime, h.SentAt, received, time.Second)
	}
	return true
}

func (x *exam) logIn(ctx context.Context, about string, client *vault.Client, login vault.Login) bool {
	if a := login.AppRole; a != nil && a.Wrapped {
		x.unchecked(about, "login", "start the service and look at leasesvc status", "a login would use up the wrapped secret id, which the service needs")
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := client.Login(ctx); err != nil {
		do := "see the message; docs/vault.md has how each login works"
		if errors.Is(err, vault.ErrNoToken) {
			do = "set login, token_file or token_env of the connection, or VAULT_TOKEN"
		}
		x.problem(about, "login", do, "%s", oneLine(err))
		return false
	}
	x.ok(about, "login", "with the token from %s", client.Token().Source)
	return true
}

// token tells what is known of our own token.
func (x *exam) token(ctx context.Context, about string, client *vault.Client, given, guards bool) {
	var info struct {
		TTL      json.Number `json:"ttl"`
		Type     string      `json:"type"`
		Uses     json.Number `json:"num_uses"`
		Policies []string    `json:"policies"`
		Identity []string    `json:"identity_policies"`
	}
	if err := x.ask(ctx, client, nil, "auth/token/lookup-self", vault.ReadOptions{}, &info); err != nil {
		x.problem(about, "token", printsPolicy, "it can't be looked up: %s", oneLine(err))
		return
	}
	st := client.Token()
	lives, renewable := "never ends", "not renewable"
	if !st.Expires.IsZero() {
		lives = "lives " + time.Until(st.Expires).Round(time.Second).String()
	}
	if st.Renewable {
		renewable = "renewable"
	}
	uses := "no use limit"
	if n := info.Uses.String(); n != "" && n != "0" {
		uses = n + " uses left"
	}
	policies := slices.Compact(slices.Sorted(slices.Values(append(info.Policies, info.Identity...))))
	says := fmt.Sprintf("a %s token, %s, %s, %s, policies %s", info.Type, lives, renewable, uses, strings.Join(policies, ", "))
	switch {
	case info.Type == "batch" && guards:
		x.problem(about, "token", "set token_type=service where it is made", "%s: a batch token can't make guards", says)
	case given && !st.Renewable && !st.Expires.IsZero():
		x.problem(about, "token", "give a renewable or periodic token, or configure a login", "%s: when it ends, nothing renews it", says)
	case slices.Contains(policies, "root"):
		x.add(about, "token", VerdictOK, "far less is enough: "+printsPolicy, "%s", says)
	default:
		x.ok(about, "token", "%s", says)
	}
}

// guards makes a probe guard, extends it, and compares.
func (x *exam) guards(ctx context.Context, about string, client *vault.Client, role string) {
	const check = "guard"
	if role == "" {
		x.add(about, check, VerdictOK, "set guard_role; "+printsPolicy, "none are configured: a crash can leave a credential behind until its TTL ends")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*answerWithin)
	defer cancel()
	got, err := client.CheckGuard(ctx, probeExtension)
	if err != nil {
		do := printsPolicy
		if !errors.Is(err, vault.ErrGuardForbidden) && !errors.Is(err, vault.ErrGuardUnfit) && vault.KindOf(err) != vault.KindPermission {
			do = "see the message"
		}
		x.problem(about, check, do, "%s", oneLine(err))
		return
	}
	for _, fault := range got.Faults {
		x.problem(about, check, "write the role anew; "+printsPolicy, "role %s: %s", role, fault)
	}
	if len(got.Faults) == 0 {
		x.ok(about, check, "role %s: granted %s of %s, extended to %s of %s", role, got.Granted, got.Asked, got.Extended, got.ExtendAsked)
	}
}

// accesses gives what the definitions read at a connection, by path and method.
func (x *exam) accesses(connection string) []access {
	return accessesOf(connection, x.defs)
}

// paths asks what the token that reads may do at each path. Nothing is read.
func (x *exam) paths(ctx context.Context, about string, client *vault.Client, role string, all []access) {
	if len(all) == 0 {
		x.ok(about, "paths", "no definition reads from it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*answerWithin)
	defer cancel()
	who := "the guards' policy"
	var guard *vault.Guard
	if role != "" {
		g, err := client.CreateGuard(ctx, vault.GuardOptions{Meta: map[string]string{"leasesvc": "doctor"}})
		if err != nil {
			x.unchecked(about, "paths", "see the guard", "without a guard it can't be told what one may read")
			return
		}
		guard = &g
		defer func() {
			_, _ = client.RevokeGuard(ctx, g.Accessor) // else it ends by its TTL
		}()
	} else {
		who = "our token's policy"
	}
	may, err := x.capabilities(ctx, client, guard, all)
	if err != nil {
		x.unchecked(about, "paths", "allow update on sys/capabilities-self in "+who+"; "+printsPolicy, "what may be read can't be asked: %s", oneLine(err))
		return
	}
	for _, a := range all {
		check := "path " + a.Path
		needs := []string{"read"}
		if a.Method != "" {
			needs = []string{"update", "create"}
		}
		has := may[a.Path]
		if slices.Contains(has, "root") || slices.ContainsFunc(needs, func(n string) bool { return slices.Contains(has, n) }) {
			x.ok(about, check, "may be read, for %s", strings.Join(a.names, ", "))
			continue
		}
		x.problem(about, check, printsPolicy, "%s does not allow %s there (it has: %s), which %s needs", who, needs[0], strings.Join(has, ", "), strings.Join(a.names, ", "))
	}
}

// leaseRights asks whether leases may be renewed and revoked.
func (x *exam) leaseRights(ctx context.Context, about string, client *vault.Client, all []access) {
	const check = "lease rights"
	if !slices.ContainsFunc(all, func(a access) bool { return a.Leased }) {
		return
	}
	rights := []access{}
	for _, op := range []string{"lookup", "renew", "revoke"} {
		rights = append(rights, access{Access: vault.Access{Path: "sys/leases/" + op}})
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	may, err := x.capabilities(ctx, client, nil, rights)
	if err != nil {
		x.unchecked(about, check, "allow update on sys/capabilities-self", "whether leases may be renewed and revoked can't be asked: %s", oneLine(err))
		return
	}
	var missing []string
	for _, r := range rights {
		if has := may[r.Path]; !slices.Contains(has, "update") && !slices.Contains(has, "root") {
			missing = append(missing, r.Path)
		}
	}
	if len(missing) > 0 {
		x.problem(about, check, printsPolicy, "our token's policy does not allow update on %s", strings.Join(missing, ", "))
		return
	}
	x.ok(about, check, "leases may be looked up, renewed and revoked")
}

// capabilities asks what a guard may do, or our own token where guard is nil:
// the token itself, and where it may not ask, by its accessor.
func (x *exam) capabilities(ctx context.Context, client *vault.Client, guard *vault.Guard, all []access) (map[string][]string, error) {
	var paths []string
	for _, a := range all {
		paths = append(paths, a.Path)
	}
	out := map[string]json.RawMessage{}
	post := vault.ReadOptions{Method: http.MethodPost, Params: map[string]any{"paths": paths}}
	err := x.ask(ctx, client, guard, "sys/capabilities-self", post, &out)
	if guard != nil && vault.KindOf(err) == vault.KindPermission {
		post.Params["accessor"] = guard.Accessor
		if byAccessor := x.ask(ctx, client, nil, "sys/capabilities-accessor", post, &out); byAccessor == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	may := map[string][]string{}
	for _, p := range paths {
		var has []string
		if raw, there := out[p]; !there || json.Unmarshal(raw, &has) != nil {
			return nil, fmt.Errorf("the answer does not tell about %s", p)
		}
		may[p] = has
	}
	return may, nil
}

// ask reads what is no credential.
func (x *exam) ask(ctx context.Context, client *vault.Client, guard *vault.Guard, path string, opts vault.ReadOptions, into any) error {
	got, err := client.Read(ctx, path, guard, opts)
	if err != nil {
		return err
	}
	if json.Unmarshal(got.Data, into) != nil {
		return fmt.Errorf("%s: the answer is not what was expected", path) // not repeated: it may hold a token
	}
	return nil
}
