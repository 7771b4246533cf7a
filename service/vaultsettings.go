package service

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/vault"
)

// lookup finds a variable of the environment, as [os.LookupEnv] does.
type lookup func(string) (string, bool)

// environment is what the environment said for a connection.
type environment struct {
	// used are the variables that win over the file, sorted; ignored those that
	// are set and mean nothing here.
	used, ignored []string
}

// tell logs it once: a setting that is not in the file must not surprise.
func (e environment) tell(log *slog.Logger) {
	if len(e.used) > 0 {
		log.Info("the environment wins over the service file", "variables", e.used)
	}
	if len(e.ignored) > 0 {
		log.Warn("variables of the environment have no effect here", "variables", e.ignored)
	}
}

// vaultSettings gives a connection as its client takes it: the file, and over it
// the environment where the connection asks for it.
func vaultSettings(name string, cfg config.Vault, env lookup) (vault.Config, environment, error) {
	out := vault.Config{
		Name: name, Address: cfg.Address, Namespace: cfg.Namespace, Token: cfg.Token, TokenFile: cfg.TokenFile, GuardRole: cfg.GuardRole,
		TLS: vault.TLS{
			CACert: cfg.TLS.CA, CACertPEM: cfg.TLS.CAPEM, CAPath: cfg.TLS.CAPath, ClientCert: cfg.TLS.Cert, ClientKey: cfg.TLS.Key,
			ServerName: cfg.TLS.ServerName, SkipVerify: cfg.TLS.SkipVerify,
		},
		OpTimeout: cfg.Timeout.Duration(), Retries: cfg.Retries,
		Limits: vault.Limits{
			InFlight: cfg.Limits.InFlight, PerMount: cfg.Limits.PerMount, Rate: cfg.Limits.Rate, RecoveryRate: cfg.Limits.RecoveryRate,
			ProbeFirst: cfg.Limits.ProbeFirst.Duration(), ProbeLast: cfg.Limits.ProbeLast.Duration(),
		},
	}
	var from environment
	var over vault.Overrides
	if cfg.Environment {
		var err error
		if over, err = vault.Environment(env); err != nil {
			return out, from, err
		}
		from = environment{used: used(over), ignored: over.Ignored}
	}
	if over.Token == nil { // else the file's is not looked at
		var err error
		if out.Token, err = ownToken(cfg, env); err != nil {
			return out, from, err
		}
		if out.Login, err = login(cfg.Login, env); err != nil {
			return out, from, err
		}
	}
	out = out.Override(over)
	if guard := cfg.GuardTTL.Duration(); cfg.GuardRole != "" && over.Timeout != nil && guard <= out.OpTimeout {
		return out, from, fmt.Errorf("_CLIENT_TIMEOUT: %s is not shorter than guard_ttl (%s): a guard has to outlive the read it guards", out.OpTimeout, guard)
	}
	return out, from, nil
}

func ownToken(cfg config.Vault, env lookup) (secret.String, error) {
	if cfg.TokenEnv == "" {
		return cfg.Token, nil
	}
	s, err := fromVariable("token_env", cfg.TokenEnv, env)
	return s.Value, err
}

// login gives the auth method; its variables are read here, its files at each
// login.
func login(cfg config.Login, env lookup) (out vault.Login, err error) {
	switch {
	case cfg.AppRole != nil:
		a := vault.AppRole{
			Mount: cfg.AppRole.Mount, RoleID: vault.Source{Value: cfg.AppRole.RoleID, File: cfg.AppRole.RoleIDFile},
			SecretID: vault.Source{File: cfg.AppRole.SecretIDFile}, Wrapped: cfg.AppRole.Wrapped,
		}
		if name := cfg.AppRole.SecretIDEnv; name != "" {
			a.SecretID, err = fromVariable("login.approle.secret_id_env", name, env)
		}
		out.AppRole = &a
	case cfg.Kubernetes != nil:
		out.Kubernetes = &vault.Kubernetes{Mount: cfg.Kubernetes.Mount, Role: cfg.Kubernetes.Role, TokenFile: cfg.Kubernetes.TokenFile}
	case cfg.Cert != nil:
		out.Cert = &vault.Cert{Mount: cfg.Cert.Mount, Role: cfg.Cert.Role}
	case cfg.JWT != nil:
		j := vault.JWT{Mount: cfg.JWT.Mount, Role: cfg.JWT.Role, Token: vault.Source{File: cfg.JWT.TokenFile}}
		if name := cfg.JWT.TokenEnv; name != "" {
			j.Token, err = fromVariable("login.jwt.token_env", name, env)
		}
		out.JWT = &j
	}
	return out, err
}

func fromVariable(key, name string, env lookup) (vault.Source, error) {
	text, _ := env(name)
	if text = strings.TrimSpace(text); text == "" {
		return vault.Source{}, fmt.Errorf("%s: the environment has no %s", key, name)
	}
	return vault.Source{Value: secret.New(text)}, nil
}

// used names the variables that decide something.
func used(o vault.Overrides) []string {
	set := map[string]bool{}
	for _, names := range o.Origins {
		for _, one := range strings.Split(names, " and ") {
			set[one] = true
		}
	}
	for what, is := range map[string]bool{"_TLS_SERVER_NAME": o.TLSServerName != nil, "_SKIP_VERIFY": o.SkipVerify != nil, "_CLIENT_TIMEOUT": o.Timeout != nil, "_MAX_RETRIES": o.Retries != nil} {
		if is {
			set[what] = true // of BAO or VAULT
		}
	}
	return slices.Sorted(maps.Keys(set))
}
