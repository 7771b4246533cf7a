package config

import (
	"errors"
	"net"
	"path/filepath"
	"slices"

	"github.com/leasesvc/leasesvc/events"
)

// shape gives what may stand in a service file, reading into c.
func (c *Config) shape() shape {
	return object{fields: []field{
		{name: "nats", shape: c.NATS.shape(), required: true},
		{name: "state_dir", shape: path{&c.StateDir}, required: true},
		{name: "seal_key", shape: c.SealKey.shape(), required: true},
		{name: "vaults", shape: named{"vault", c.vault, 1}, required: true},
		{name: "scopes", shape: named{"scope", c.scope, 1}, required: true},
		{name: "http", shape: c.HTTP.shape()},
		{name: "metrics", shape: object{fields: []field{
			{name: "per_lease", shape: integer{to: func(v int64) { c.Metrics.PerLease = int(v) }, min: 0, max: 1_000_000}, def: "10000"},
		}}},
		{name: "log", shape: object{fields: []field{
			{name: "format", shape: choice[string]{&c.Log.Format, []string{"text", "json"}}, def: "text"},
			{name: "level", shape: choice[string]{&c.Log.Level, []string{"debug", "info", "warn", "error"}}, def: "info"},
		}}},
		{name: "tracing", shape: tracing(&c.Tracing, "leasesvc")},
		{name: "insecure_consumers", shape: boolean{&c.InsecureConsumers}, def: "false"},
		{name: "verifier_commands", shape: c.verifierCommands(), def: "[]"},
		{name: "exit_on_fence", shape: boolean{&c.ExitOnFence}, def: "false"},
		{name: "heartbeat", shape: duration{&c.Heartbeat, "50ms", "1m"}, def: "500ms"},
		{name: "operation_timeout", shape: duration{&c.OperationTimeout, "100ms", "10m"}, def: "10s"},
		{name: "shutdown_timeout", shape: duration{&c.ShutdownTimeout, "100ms", "10m"}, def: "10s"},
		{name: "project", shape: text{to: &c.Project, what: "name or empty text", check: func(s string) error {
			if s == "" {
				return nil
			}
			return checkName(s)
		}}, def: `""`},
	}, check: func(d *decoder, f *found) {
		if f.ok("heartbeat", "operation_timeout") && c.OperationTimeout.Cmp(c.Heartbeat) < 0 {
			f.fail(d, []string{"operation_timeout", "heartbeat"}, "operation_timeout is shorter than heartbeat; a single heartbeat must fit into it")
		}
	}}
}

// maxCommands bounds how many programs verifiers may run.
const maxCommands = 64

// verifierCommands reads the programs that a verifier may run.
func (c *Config) verifierCommands() shape {
	var all []string
	return sequence{max: maxCommands, elem: func() shape {
		return text{to: new(string), what: "program's path", check: func(s string) error {
			if !filepath.IsAbs(s) || len(s) > 4096 {
				return errors.New("is no absolute path")
			}
			return nil
		}, allowed: "an absolute path"}
	}, check: func(_ *decoder, n *node, _ place) {
		for _, item := range n.items {
			all = append(all, item.text)
		}
		c.VerifierCommands = all
	}}
}

func (n *NATS) shape() shape {
	embedded := Embedded{Listen: "127.0.0.1:4222"}
	logins := []string{"credentials_file", "nkey_seed_file", "token_file", "user"}
	return object{fields: []field{
		{name: "url", shape: text{to: &n.URL, what: "URL", check: checkNATSURL, allowed: "nats://host:4222, tls://, ws:// or wss://, several with commas between them"}},
		{name: "embedded", shape: object{fields: []field{
			{name: "listen", shape: listen(&embedded.Listen), def: "127.0.0.1:4222"},
			{name: "store", shape: path{&embedded.Store}, def: "nats in state_dir"},
		}, check: func(*decoder, *found) { n.Embedded = &embedded }}},
		{name: "credentials_file", shape: path{&n.CredentialsFile}},
		{name: "nkey_seed_file", shape: path{&n.NKeySeedFile}},
		{name: "token_file", shape: path{&n.TokenFile}},
		{name: "user", shape: text{to: &n.User, check: checkPlain(1, 256)}},
		{name: "password_file", shape: path{&n.PasswordFile}},
		{name: "tls", shape: n.TLS.shape("ca", "cert", "key")},
		{name: "replicas", shape: integer{to: func(v int64) { n.Replicas = int(v) }, min: 1, max: 5, allowed: []int64{1, 3, 5}}, def: "1"},
		{name: "stream", shape: text{to: &n.Stream, what: "stream name", check: checkStream}, def: "LEASESVC"},
		{name: "max_bytes", shape: size{&n.MaxBytes, "1MiB", "1024TiB"}, def: "1GiB"},
	}, check: func(d *decoder, f *found) {
		f.exclusive(d, true, "url", "embedded")
		f.exclusive(d, false, logins...)
		if f.has("user") != f.has("password_file") {
			f.fail(d, []string{"user", "password_file"}, "user and password_file come together")
		}
		if !f.has("embedded") || f.has("url") {
			return
		}
		for _, name := range append([]string{"password_file", "tls"}, logins...) {
			if f.has(name) {
				f.fail(d, []string{name}, "stands beside embedded, which runs in the process and needs none")
			}
		}
		if f.ok("replicas") && n.Replicas != 1 {
			f.fail(d, []string{"replicas"}, "an embedded server is a single one; allowed beside embedded: 1")
		}
	}}
}

// shape reads the keys of t that a connection has.
func (t *TLS) shape(keys ...string) shape {
	all := map[string]field{
		"ca":          {name: "ca", shape: path{&t.CA}},
		"ca_pem":      {name: "ca_pem", shape: certificates{&t.CAPEM}},
		"ca_path":     {name: "ca_path", shape: path{&t.CAPath}},
		"cert":        {name: "cert", shape: path{&t.Cert}},
		"key":         {name: "key", shape: path{&t.Key}},
		"server_name": {name: "server_name", shape: text{to: &t.ServerName, what: "host name", check: checkPlain(1, 253)}},
		"skip_verify": {name: "skip_verify", shape: boolean{&t.SkipVerify}, def: "false"},
	}
	o := object{check: func(d *decoder, f *found) {
		if f.has("cert") != f.has("key") {
			f.fail(d, []string{"cert", "key"}, "cert and key come together")
		}
		authorities := []string{"ca", "ca_pem", "ca_path"}
		f.exclusive(d, false, authorities...)
		if f.ok("skip_verify") && t.SkipVerify && (slices.ContainsFunc(authorities, f.has) || f.has("server_name")) {
			f.fail(d, []string{"skip_verify"}, "skip_verify accepts any certificate, so ca and server_name would mean nothing; leave one or the other out")
		}
	}}
	for _, k := range keys {
		o.fields = append(o.fields, all[k])
	}
	return o
}

func (h *HTTP) shape() shape {
	return object{fields: []field{
		{name: "listen", shape: listen(&h.Listen), def: "127.0.0.1:8250"},
		{name: "tls", shape: object{fields: []field{
			{name: "cert", shape: path{&h.Cert}, required: true},
			{name: "key", shape: path{&h.Key}, required: true},
			{name: "client_ca", shape: path{&h.ClientCA}},
		}}},
		{name: "token_file", shape: path{&h.TokenFile}},
		{name: "insecure", shape: boolean{&h.Insecure}, def: "false"},
	}, check: func(d *decoder, f *found) {
		if !f.ok("listen", "tls", "token_file", "insecure") || h.Insecure || h.local() {
			return
		}
		const why = "others than this machine reach this address"
		switch {
		case h.TokenFile == "" && h.ClientCA == "":
			f.fail(d, []string{"listen"}, "%s, so it needs a login: set token_file, or tls with client_ca; or listen on 127.0.0.1 (insecure: true lets everybody look)", why)
		case h.Cert == "":
			f.fail(d, []string{"listen"}, "%s, so its login needs tls with cert and key; behind a proxy that has them set insecure: true", why)
		}
	}}
}

// local tells whether only this machine reaches the address.
func (h *HTTP) local() bool {
	host, _, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxPrevious bounds the further seal keys.
const maxPrevious = 4

func (k *SealKey) shape() shape {
	previous := sequence{max: maxPrevious, elem: func() shape {
		further := &SealKey{}
		return object{fields: further.source(), check: func(d *decoder, f *found) {
			f.exclusive(d, true, "file", "env")
			k.Previous = append(k.Previous, *further)
		}}
	}}
	return object{fields: append(k.source(), field{name: "previous", shape: previous, def: "[]"}),
		check: func(d *decoder, f *found) { f.exclusive(d, true, "file", "env") }}
}

// source is where one key is.
func (k *SealKey) source() []field {
	return []field{
		{name: "file", shape: path{&k.File}},
		{name: "env", shape: variable(&k.Env)},
	}
}

func (c *Config) scope(name string) shape {
	s := Scope{Documents: Documents{Poll: events.WholeSeconds(60), Wait: events.WholeSeconds(5)}}
	return object{fields: []field{
		{name: "definitions", shape: path{&s.Definitions}, required: true},
		{name: "documents", shape: s.Documents.shape()},
	}, check: func(*decoder, *found) { c.Scopes[name] = s }}
}
