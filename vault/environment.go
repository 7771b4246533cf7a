package vault

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// Overrides are settings that win over a configuration file: those of flags, or
// of the environment (see [Environment]). A nil field overrides nothing.
type Overrides struct {
	Address, Namespace *string
	// The three of the authorities go together: one that is set drops what the
	// configuration has of all three.
	CACert, CACertPEM, CAPath *string
	ClientCert, ClientKey     *string
	TLSServerName             *string
	SkipVerify                *bool
	// Timeout is Config.OpTimeout.
	Timeout *time.Duration
	Retries *int
	// Token drops what the configuration has of a token, a token file and a login.
	Token *secret.String
	// Origins names each setting's variable or flag for errors and status, by:
	// address, namespace, ca, client, token.
	Origins map[string]string
	// Ignored are variables that are set, that the vault and bao commands know,
	// and that have no effect here.
	Ignored []string
}

// ignoredVariables are known to the vault and bao commands and decide nothing here.
var ignoredVariables = []string{
	"AGENT_ADDR", "CLIENT_CERT_BYTES", "CLIENT_KEY_BYTES", "SRV_LOOKUP", "WRAP_TTL", "MFA", "RATE_LIMIT",
	"HTTP_PROXY", "PROXY_ADDR", "DISABLE_REDIRECTS", "TOKEN_PATH", "HEADERS",
}

// Environment reads the variables that users of Vault and OpenBao know, through
// lookup (os.LookupEnv): _ADDR, _NAMESPACE, _CACERT, _CACERT_BYTES, _CAPATH,
// _CLIENT_CERT, _CLIENT_KEY, _TLS_SERVER_NAME, _SKIP_VERIFY, _CLIENT_TIMEOUT,
// _MAX_RETRIES and _TOKEN, each with BAO_ or VAULT_ before it. As in OpenBao the
// BAO_ one wins, also when it is there and empty, and an empty one sets nothing.
//
// It is for the one connection that asks for it; the rest of a configuration
// with several is not the environment's business. Errors name the variable and
// never repeat what it holds. _MAX_RETRIES above 10 counts as 10.
func Environment(lookup func(string) (string, bool)) (Overrides, error) {
	o := Overrides{Origins: map[string]string{}}
	for name, to := range map[string]struct {
		set    **string
		origin string
	}{
		"ADDR": {&o.Address, "address"}, "NAMESPACE": {&o.Namespace, "namespace"},
		"CACERT": {&o.CACert, "ca"}, "CACERT_BYTES": {&o.CACertPEM, "ca"}, "CAPATH": {&o.CAPath, "ca"},
		"CLIENT_CERT": {&o.ClientCert, "client"}, "CLIENT_KEY": {&o.ClientKey, "client"},
		"TLS_SERVER_NAME": {&o.TLSServerName, ""},
	} {
		if text, full, ok := variable(lookup, name); ok {
			*to.set = &text
			o.origin(to.origin, full)
		}
	}
	if text, full, ok := variable(lookup, "TOKEN"); ok {
		value := secret.New(strings.TrimSpace(text))
		o.Token = &value
		o.origin("token", full)
	}
	if text, full, ok := variable(lookup, "SKIP_VERIFY"); ok {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return Overrides{}, fmt.Errorf("%s: it must be true or false", full)
		}
		o.SkipVerify = &b
	}
	if text, full, ok := variable(lookup, "CLIENT_TIMEOUT"); ok {
		d, err := secondsOrDuration(text)
		if err != nil || d <= 0 || d > 10*time.Minute {
			return Overrides{}, fmt.Errorf("%s: it must be seconds or a duration in (0, 10m], such as 30 or 30s", full)
		}
		o.Timeout = &d
	}
	if text, full, ok := variable(lookup, "MAX_RETRIES"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return Overrides{}, fmt.Errorf("%s: it must be a whole number that is not negative", full)
		}
		n = min(n, maxRetries)
		o.Retries = &n
	}
	for _, name := range ignoredVariables {
		if _, full, ok := variable(lookup, name); ok {
			o.Ignored = append(o.Ignored, full)
		}
	}
	return o, nil
}

// variable gives BAO_name, or VAULT_name when the first is not there.
func variable(lookup func(string) (string, bool), name string) (text, full string, ok bool) {
	for _, prefix := range []string{"BAO_", "VAULT_"} {
		if text, there := lookup(prefix + name); there {
			return text, prefix + name, text != ""
		}
	}
	return "", "", false
}

func secondsOrDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return time.ParseDuration(text)
}

// origin notes where a setting came from; variables of one setting are named together.
func (o *Overrides) origin(setting, name string) {
	switch before := o.Origins[setting]; {
	case setting == "":
	case before == "":
		o.Origins[setting] = name
	case before > name: // the order of a map must not show
		o.Origins[setting] = name + " and " + before
	default:
		o.Origins[setting] = before + " and " + name
	}
}

// Override gives cfg with o over it. Flags over the environment over the file is
// file.Override(environment).Override(flags).
func (cfg Config) Override(o Overrides) Config {
	cfg.origins = maps.Clone(cfg.origins)
	if cfg.origins == nil {
		cfg.origins = map[string]string{}
	}
	maps.Copy(cfg.origins, o.Origins)
	replace(&cfg.Address, o.Address)
	replace(&cfg.Namespace, o.Namespace)
	if o.CACert != nil || o.CACertPEM != nil || o.CAPath != nil {
		cfg.TLS.CACert, cfg.TLS.CACertPEM, cfg.TLS.CAPath = "", "", ""
	}
	replace(&cfg.TLS.CACert, o.CACert)
	replace(&cfg.TLS.CACertPEM, o.CACertPEM)
	replace(&cfg.TLS.CAPath, o.CAPath)
	replace(&cfg.TLS.ClientCert, o.ClientCert)
	replace(&cfg.TLS.ClientKey, o.ClientKey)
	replace(&cfg.TLS.ServerName, o.TLSServerName)
	replace(&cfg.TLS.SkipVerify, o.SkipVerify)
	replace(&cfg.OpTimeout, o.Timeout)
	replace(&cfg.Retries, o.Retries)
	if o.Token != nil {
		cfg.Token, cfg.TokenFile, cfg.Login = *o.Token, "", Login{}
	}
	return cfg
}

func replace[T any](to *T, by *T) {
	if by != nil {
		*to = *by
	}
}
