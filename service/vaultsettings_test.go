package service

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/config"
)

func variables(pairs ...string) lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func aVault() config.Vault {
	return config.Vault{
		Address: "https://file:8200", Namespace: "team", TokenFile: "token", GuardRole: "leasesvc", GuardTTL: events.WholeSeconds(60), Timeout: events.WholeSeconds(10),
		Retries: 1, TLS: config.TLS{CAPath: "ca.d"},
		Limits: config.VaultLimits{InFlight: 8, PerMount: 2, Rate: 3, RecoveryRate: 4, ProbeFirst: events.WholeSeconds(1), ProbeLast: events.WholeSeconds(5)},
	}
}

func TestVaultSettingsAreTheFiles(t *testing.T) {
	set := variables("VAULT_ADDR", "https://env:8200", "BAO_TOKEN", "hvs.S3cret", "VAULT_WRAP_TTL", "5m")
	got, from, err := vaultSettings("main", aVault(), set)
	if err != nil {
		t.Fatal(err)
	}
	if got.Address != "https://file:8200" || got.TokenFile != "token" || !got.Token.IsZero() || got.Retries != 1 || got.TLS.CAPath != "ca.d" || got.OpTimeout != 10*time.Second {
		t.Errorf("a connection that does not ask for the environment has %+v", got)
	}
	if l := got.Limits; l.InFlight != 8 || l.PerMount != 2 || l.Rate != 3 || l.RecoveryRate != 4 || l.ProbeFirst != time.Second || l.ProbeLast != 5*time.Second {
		t.Errorf("its limits are %+v", l)
	}
	if len(from.used) > 0 || len(from.ignored) > 0 {
		t.Errorf("it was told of %v", from)
	}
}

func TestTheEnvironmentWinsAndIsTold(t *testing.T) {
	cfg := aVault()
	cfg.Environment, cfg.TokenFile, cfg.TokenEnv = true, "", "NO_SUCH"
	got, from, err := vaultSettings("main", cfg, variables("VAULT_ADDR", "https://env:8200", "BAO_TOKEN", "hvs.S3cret", "VAULT_WRAP_TTL", "5m",
		"BAO_CLIENT_TIMEOUT", "7", "VAULT_MAX_RETRIES", "4", "VAULT_CACERT", "env.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Address != "https://env:8200" || got.Token.Reveal() != "hvs.S3cret" || got.OpTimeout != 7*time.Second || got.Retries != 4 || got.TLS.CACert != "env.pem" || got.TLS.CAPath != "" || got.Namespace != "team" {
		t.Errorf("the environment made it %+v", got)
	}
	var out bytes.Buffer
	from.tell(slog.New(slog.NewTextHandler(&out, nil)))
	for _, name := range []string{"VAULT_ADDR", "BAO_TOKEN", "VAULT_CACERT", "_CLIENT_TIMEOUT", "_MAX_RETRIES"} {
		if !slices.Contains(from.used, name) || !strings.Contains(out.String(), name) {
			t.Errorf("%s is not told: %v\n%s", name, from.used, &out)
		}
	}
	if !strings.Contains(out.String(), "no effect") || !strings.Contains(out.String(), "VAULT_WRAP_TTL") || strings.Contains(out.String(), "S3cret") {
		t.Errorf("the log says\n%s", &out)
	}
}

func TestWhatTheEnvironmentLacksIsSaid(t *testing.T) {
	for name, try := range map[string]struct {
		change func(*config.Vault)
		env    []string
		want   string
	}{
		"token":         {func(v *config.Vault) { v.TokenFile, v.TokenEnv = "", "APP_TOKEN" }, nil, "token_env: the environment has no APP_TOKEN"},
		"blank token":   {func(v *config.Vault) { v.TokenFile, v.TokenEnv = "", "APP_TOKEN" }, []string{"APP_TOKEN", " \n"}, "no APP_TOKEN"},
		"secret id":     {func(v *config.Vault) { v.Login.AppRole = &config.AppRole{SecretIDEnv: "SID"} }, nil, "login.approle.secret_id_env: the environment has no SID"},
		"jwt":           {func(v *config.Vault) { v.Login.JWT = &config.JWT{TokenEnv: "ID"} }, nil, "login.jwt.token_env: the environment has no ID"},
		"a bad one":     {func(v *config.Vault) { v.Environment = true }, []string{"BAO_SKIP_VERIFY", "S3cret"}, "BAO_SKIP_VERIFY: it must be true or false"},
		"a long one":    {func(v *config.Vault) { v.Environment = true }, []string{"VAULT_CLIENT_TIMEOUT", "90"}, "not shorter than guard_ttl"},
		"not asked for": {func(v *config.Vault) {}, []string{"BAO_SKIP_VERIFY", "S3cret"}, ""},
	} {
		cfg := aVault()
		try.change(&cfg)
		_, _, err := vaultSettings("main", cfg, variables(try.env...))
		if try.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), try.want) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoginsAreHandedOn(t *testing.T) {
	for name, try := range map[string]struct {
		login config.Login
		want  string
	}{
		"approle":    {config.Login{AppRole: &config.AppRole{Mount: "a/b", RoleID: secret.New("r"), SecretIDEnv: "SID", Wrapped: true}}, "AppRole at auth/a/b"},
		"kubernetes": {config.Login{Kubernetes: &config.Kubernetes{Mount: "k8s", Role: "r", TokenFile: "t"}}, "Kubernetes at auth/k8s"},
		"cert":       {config.Login{Cert: &config.Cert{Mount: "cert", Role: "r"}}, "TLS certificate at auth/cert"},
		"jwt":        {config.Login{JWT: &config.JWT{Mount: "ci", Role: "r", TokenEnv: "SID"}}, "JWT at auth/ci"},
	} {
		got, err := login(try.login, variables("SID", "S3cret"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var said string
		switch {
		case got.AppRole != nil:
			said = got.AppRole.String()
			if got.AppRole.SecretID.Value.Reveal() != "S3cret" || !got.AppRole.Wrapped || got.AppRole.RoleID.Value.Reveal() != "r" {
				t.Errorf("%s: handed on as %+v", name, got.AppRole)
			}
		case got.Kubernetes != nil:
			said = got.Kubernetes.String()
			if got.Kubernetes.TokenFile != "t" || got.Kubernetes.Role != "r" {
				t.Errorf("%s: handed on as %+v", name, got.Kubernetes)
			}
		case got.Cert != nil:
			said = got.Cert.String()
		case got.JWT != nil:
			said = got.JWT.String()
			if got.JWT.Token.Value.Reveal() != "S3cret" {
				t.Errorf("%s: without its token", name)
			}
		}
		if said != try.want {
			t.Errorf("%s: handed on as %q", name, said)
		}
	}
}
