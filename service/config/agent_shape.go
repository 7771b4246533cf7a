package config

import (
	"errors"
	"io/fs"
	"net/url"
	"regexp"
	"strconv"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/events"
)

const maxArguments = 256

// shape gives what may stand in an agent's file, reading into a.
func (a *Agent) shape() shape {
	return object{fields: []field{
		{name: "nats", shape: a.NATS.clientShape(), required: true},
		{name: "scope", shape: name(&a.Scope), required: true},
		{name: "consumer", shape: name(&a.Consumer), required: true},
		{name: "instance", shape: name(&a.Instance), def: "the host's name"},
		{name: "seed_file", shape: path{&a.SeedFile}},
		{name: "service_key", shape: text{to: &a.ServiceKey, what: "public curve nkey", check: checkServiceKey, allowed: "a public curve nkey (56 characters, X first), as leasesvc status shows it"}},
		{name: "service_keys", shape: a.furtherServiceKeys(), def: "[]"},
		{name: "insecure", shape: boolean{&a.Insecure}, def: "false"},
		{name: "log", shape: object{fields: []field{
			{name: "format", shape: choice[string]{&a.Log.Format, []string{"text", "json"}}, def: "text"},
			{name: "level", shape: choice[string]{&a.Log.Level, []string{"debug", "info", "warn", "error"}}, def: "info"},
		}}},
		{name: "tracing", shape: tracing(&a.Tracing, "leasesvc-agent")},
		{name: "refresh", shape: duration{&a.Refresh, "100ms", "1h"}, def: "10s"},
		{name: "targets", shape: named{"target", a.target, 1}, required: true},
	}, check: func(d *decoder, f *found) {
		for _, key := range []string{"seed_file", "service_key"} {
			if f.ok("insecure") && !a.Insecure && !f.has(key) {
				d.failAt(f.Position, key, "is missing, and is required unless insecure: true")
			}
		}
		a.checkPaths(d)
	}}
}

// checkPaths refuses two targets with one file.
func (a *Agent) checkPaths(d *decoder) {
	seen := map[string]string{}
	for _, name := range a.TargetNames() {
		p := a.Targets[name].Path
		if p == "" {
			continue
		}
		if other, twice := seen[p]; twice {
			key := "targets." + name + ".file"
			d.failAt(d.places[key], key, "is the file of target %s too", other)
		}
		seen[p] = name
	}
}

// clientShape is the connection's part of [NATS.shape].
func (n *NATS) clientShape() shape {
	o := n.shape().(object)
	keep := map[string]bool{"url": true, "credentials_file": true, "nkey_seed_file": true, "token_file": true, "user": true, "password_file": true, "tls": true}
	var fields []field
	for _, f := range o.fields {
		if keep[f.name] {
			f.required = f.name == "url"
			fields = append(fields, f)
		}
	}
	return object{fields: fields, check: func(d *decoder, f *found) {
		f.exclusive(d, false, "credentials_file", "nkey_seed_file", "token_file", "user")
		if f.has("user") != f.has("password_file") {
			f.fail(d, []string{"user", "password_file"}, "user and password_file come together")
		}
	}}
}

// maxServiceKeys bounds the further service keys; beside service_key, as many as a
// consumer may pin.
const maxServiceKeys = 7

func (a *Agent) furtherServiceKeys() shape {
	return sequence{max: maxServiceKeys, elem: func() shape {
		return text{to: new(string), what: "public curve nkey", check: checkServiceKey, allowed: "a public curve nkey (56 characters, X first), as leasesvc status shows it"}
	}, check: func(_ *decoder, n *node, _ place) {
		for _, item := range n.items {
			a.ServiceKeys = append(a.ServiceKeys, item.text)
		}
	}}
}

func checkServiceKey(s string) error {
	switch {
	case nkeys.IsValidPublicCurveKey(s):
		return nil
	case len(s) > 1 && s[0] == 'S':
		return errors.New("looks like a seed, which is a secret and belongs to the service only; take it out of this file, replace it, and put the public key here")
	default:
		return errors.New("is not a public curve nkey, or has a typing error in it")
	}
}

func (a *Agent) target(called string) shape {
	t := Target{Mode: 0o600, Format: "json", Write: "auto"}
	return object{fields: []field{
		{name: "document", shape: name(&t.Document)},
		{name: "lease", shape: name(&t.Lease)},
		{name: "format", shape: choice[string]{&t.Format, []string{"json", "yaml", "env", "template"}}, def: "json"},
		{name: "template", shape: text{to: &t.Template}},
		{name: "template_file", shape: path{&t.TemplateFile}},
		{name: "prefix", shape: text{to: &t.Prefix, what: "beginning of a variable's name", check: checkPrefix, allowed: "letters, digits and underscores, no digit first, such as APP_"}},
		{name: "file", shape: path{&t.Path}},
		{name: "mode", shape: fileMode{&t.Mode}, def: "0600"},
		{name: "owner", shape: account(&t.Owner)},
		{name: "group", shape: account(&t.Group)},
		{name: "write", shape: choice[string]{&t.Write, []string{"auto", "atomic", "in-place"}}, def: "auto"},
		{name: "drain", shape: duration{&t.Drain, "0s", "1h"}, def: "0s"},
		{name: "hook", shape: t.hook()},
		{name: "exec", shape: t.exec()},
	}, check: func(d *decoder, f *found) {
		t.check(d, f)
		a.Targets[called] = t
	}}
}

func (t *Target) check(d *decoder, f *found) {
	f.exclusive(d, true, "document", "lease")
	f.exclusive(d, true, "file", "exec")
	f.exclusive(d, false, "template", "template_file")
	if f.has("exec") {
		for _, key := range []string{"format", "template", "template_file", "mode", "owner", "group", "write", "hook"} {
			if f.has(key) {
				f.fail(d, []string{key}, "stands beside exec, whose values are in the environment of the application")
			}
		}
		t.Format = "env"
	}
	templated := f.has("template") || f.has("template_file")
	switch {
	case !f.ok("format"):
	case t.Format == "template" && !templated:
		d.failAt(f.Position, f.key, "one of template, template_file is required with format: template")
	case t.Format != "template" && templated:
		f.fail(d, []string{"template", "template_file"}, "means something with format: template only")
	case t.Format != "env" && f.has("prefix"):
		f.fail(d, []string{"prefix"}, "means something with format: env and exec only")
	}
}

var prefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

func checkPrefix(s string) error {
	if !prefix.MatchString(s) {
		return errors.New("is no beginning of a variable's name")
	}
	return nil
}

// account is a user or group, by name or number.
func account(to *string) shape { return accountName{to} }

type accountName struct{ to *string }

var accountText = regexp.MustCompile(`^([a-z_][a-z0-9_-]{0,31}\$?|[0-9]{1,10})$`)

func (a accountName) read(d *decoder, n *node, p place) {
	if n.kind != scalar || !accountText.MatchString(n.text) {
		d.fail(n, p, "is not the name or number of a user or group")
		return
	}
	*a.to = n.text
}

func (accountName) typ() string                  { return "name or number" }
func (accountName) children(func(string, field)) {}

// fileMode is an octal mode, in quotes or not.
type fileMode struct{ to *fs.FileMode }

var octal = regexp.MustCompile(`^0?[0-7]{3}$`)

func (m fileMode) read(d *decoder, n *node, p place) {
	if n.kind != scalar || !octal.MatchString(n.text) {
		d.fail(n, p, "is not a mode of three octal digits with or without a 0 in front, such as 0640")
		return
	}
	v, err := strconv.ParseUint(n.text, 8, 32)
	if err != nil {
		d.fail(n, p, "is not a mode")
		return
	}
	if v&0o400 == 0 {
		d.fail(n, p, "does not let the owner read the file")
		return
	}
	*m.to = fs.FileMode(v)
}

func (fileMode) typ() string                  { return "mode" }
func (fileMode) children(func(string, field)) {}

// signalNames are the signals that a person may name.
var signalNames = []string{"HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "KILL", "CONT", "WINCH"}

func command(to *[]string) shape {
	var args []string
	return sequence{max: maxArguments, elem: func() shape {
		var arg string
		return argument{&arg, &args}
	}, check: func(d *decoder, n *node, p place) {
		if len(args) == 0 || args[0] == "" {
			d.fail(n, p, "names no program; it is the first item of the list")
			return
		}
		*to = args
	}}
}

// argument is one of a command's; a number is taken as it is written.
type argument struct {
	to  *string
	all *[]string
}

func (a argument) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.typ == pem {
		d.fail(n, p, "%s where an argument is expected", n.describe())
		return
	}
	*a.to = n.text
	*a.all = append(*a.all, n.text)
}

func (argument) typ() string                  { return "text" }
func (argument) children(func(string, field)) {}

func (t *Target) hook() shape {
	h := Hook{Timeout: events.WholeSeconds(10), Method: "POST"}
	return object{fields: []field{
		{name: "command", shape: command(&h.Command)},
		{name: "shell", shape: text{to: &h.Shell}},
		{name: "signal", shape: choice[string]{&h.Signal, signalNames}},
		{name: "pid_file", shape: path{&h.PIDFile}},
		{name: "process", shape: text{to: &h.Process, what: "name of a program", check: checkProgram}},
		{name: "url", shape: text{to: &h.URL, what: "URL", check: checkHookURL, allowed: "http:// or https://"}},
		{name: "method", shape: choice[string]{&h.Method, []string{"GET", "POST", "PUT"}}, def: "POST"},
		{name: "timeout", shape: duration{&h.Timeout, "10ms", "1h"}, def: "10s"},
		{name: "optional", shape: boolean{&h.Optional}, def: "false"},
	}, check: func(d *decoder, f *found) {
		f.exclusive(d, true, "command", "shell", "signal", "url")
		if f.has("signal") {
			f.exclusive(d, true, "pid_file", "process")
		} else if f.has("pid_file") || f.has("process") {
			f.fail(d, []string{"pid_file", "process"}, "means something beside signal only")
		}
		if f.has("method") && !f.has("url") {
			f.fail(d, []string{"method"}, "means something beside url only")
		}
		t.Hook = &h
	}}
}

func checkProgram(s string) error {
	if s == "" || len(s) > 255 || regexp.MustCompile(`[/\s\x00]`).MatchString(s) {
		return errors.New("is not the name of a program (without its directory)")
	}
	return nil
}

func checkHookURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("its scheme is not http or https")
	case u.User != nil:
		return errors.New("holds a user or password, which don't belong here")
	}
	return nil
}

func (t *Target) exec() shape {
	e := Exec{OnChange: "restart", Signal: "HUP", StopSignal: "TERM", StopTimeout: events.WholeSeconds(10), ReadyAfter: events.WholeSeconds(1)}
	return object{fields: []field{
		{name: "command", shape: command(&e.Command), required: true},
		{name: "on_change", shape: choice[string]{&e.OnChange, []string{"restart", "signal"}}, def: "restart"},
		{name: "signal", shape: choice[string]{&e.Signal, signalNames}, def: "HUP"},
		{name: "stop_signal", shape: choice[string]{&e.StopSignal, signalNames}, def: "TERM"},
		{name: "stop_timeout", shape: duration{&e.StopTimeout, "0s", "10m"}, def: "10s"},
		{name: "ready_after", shape: duration{&e.ReadyAfter, "0s", "10m"}, def: "1s"},
	}, check: func(d *decoder, f *found) {
		if f.has("signal") && e.OnChange != "signal" {
			f.fail(d, []string{"signal"}, "means something with on_change: signal only")
		}
		t.Exec = &e
	}}
}
