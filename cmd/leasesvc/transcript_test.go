package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"
)

// masks put a word in place of what differs from run to run.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( UTC)?`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \(UTC\)`), "DAY (UTC)"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?( UTC)?\b`), "CLOCK"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b`), "SPAN"},
	{regexp.MustCompile(`\b[a-z2-7]{26}\b`), "HOLDER"},
	{regexp.MustCompile(`\bX[A-Z2-7]{55}\b`), "XKEY"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "KEYID"},
	{regexp.MustCompile(`\bSX[A-Z2-7]{56}\b`), "SEED"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(epoch|sequence|log at|"(?:seq|last_seq|epoch)":|\b(?:seq|last_seq|epoch):) ?\d+`), "$1 N"},
	{regexp.MustCompile(`[0-9.]+ events/s`), "N events/s"},
	{regexp.MustCompile(`(process|pid) \d+`), "$1 N"},
	{regexp.MustCompile(`\b\d+ (of \d+ )?bytes`), "N bytes"},
	{regexp.MustCompile(`stream LEASESVC, \d+ events`), "stream LEASESVC, N events"},
	{regexp.MustCompile(`(epoch N), \d+ leases?`), "$1, N leases"},
	{regexp.MustCompile(`(\S)   +`), "$1  "}, // columns are as wide as what was masked
}

var colourNames = strings.NewReplacer("\x1b[1m", "<bold>", "\x1b[31m", "<red>", "\x1b[32m", "<green>", "\x1b[33m", "<yellow>", "\x1b[0m", "</>")

func mask(ts *testscript.TestScript, text string) string {
	text = colourNames.Replace(text)
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	return text
}

// masked writes a file, or stdout or stderr, as it would be every time, or only with
// its colours shown: masked [-colours] FILE TO
func masked(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "-colours" {
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(colourNames.Replace(ts.ReadFile(args[1]))), 0o600))
		return
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(mask(ts, ts.ReadFile(args[0]))), 0o600))
}

// alike runs a command with --output json and yaml: both are right, and say the
// same: alike [CODE] leasesvc ...
func alike(ts *testscript.TestScript, _ bool, args []string) {
	if _, err := strconv.Atoi(args[0]); err != nil {
		args = append([]string{"0"}, args...)
	}
	say := func(form string) string {
		exitCodeIs(ts, false, append(slices.Clone(args), "--output", form))
		return mask(ts, ts.ReadFile("stdout"))
	}
	inJSON := say("json")
	fromJSON, err := documents(json.NewDecoder(strings.NewReader(ts.ReadFile("stdout"))))
	if err != nil {
		ts.Fatalf("%v: no JSON: %v\n%s", args, err, inJSON)
	}
	inYAML := say("yaml")
	fromYAML, err := documents(yaml.NewDecoder(strings.NewReader(ts.ReadFile("stdout"))))
	if err != nil {
		ts.Fatalf("%v: no YAML: %v\n%s", args, err, inYAML)
	}
	if len(fromJSON) == 0 {
		ts.Fatalf("%v prints nothing", args)
	}
	same := func(v any) string {
		b, err := json.MarshalIndent(v, "", " ")
		ts.Check(err)
		return mask(ts, string(b))
	}
	if a, b := same(fromJSON), same(fromYAML); a != b {
		ts.Fatalf("%v: JSON says\n%s\nand YAML\n%s", args, a, b)
	}
}

// documents reads all that a decoder gives.
func documents(d interface{ Decode(any) error }) (all []any, err error) {
	for {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, v)
	}
}

// transcript is what the scripts show of a command.
type transcript struct {
	pipe, terminal, forms bool
	flags                 map[string]bool
	outputs               map[string]bool // by the word after --output
}

// transcripts reads which commands the scripts run, on what, and which of it is
// compared word for word.
func transcripts(t *testing.T, model *kong.Node) map[string]*transcript {
	t.Helper()
	out := map[string]*transcript{}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(b), "\n-- ")
		var last *transcript
		terminal := false
		for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
			words := strings.Fields(strings.ReplaceAll(lines.Text(), "'", ""))
			at := slices.Index(words, "leasesvc")
			switch {
			case at > 0:
				path, flags := commandOf(model, words[at+1:])
				if last = out[path]; last == nil {
					last = &transcript{flags: map[string]bool{}, outputs: map[string]bool{}}
					out[path] = last
				}
				for _, f := range flags {
					last.flags[f] = true
				}
				if i := slices.Index(words, "--output"); i > 0 && i+1 < len(words) {
					last.outputs[words[i+1]] = true
				}
				terminal = slices.Contains(words[:at], "onterminal")
				last.forms = last.forms || words[0] == "alike"
			case len(words) > 0 && words[0] == "cmp" && last != nil:
				last.pipe, last.terminal = last.pipe || !terminal, last.terminal || terminal
			case len(words) > 0 && words[0] == "exec":
				last = nil
			}
		}
	}
	return out
}

// commandOf gives the command that words begin with, and its flags.
func commandOf(n *kong.Node, words []string) (path string, flags []string) {
	for _, w := range words {
		if w == "--" {
			break
		}
		if name, ok := strings.CutPrefix(w, "-"); ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			flags = append(flags, name)
			continue
		}
		for _, child := range n.Children {
			if child.Name == w {
				n, path = child, strings.TrimSpace(path+" "+w)
				break
			}
		}
	}
	return path, flags
}

// noTable are the commands whose output is a document of its own kind, or that of
// another program, so that there is no --output.
var noTable = map[string]string{
	"dev": "a log", "serve": "a log", "agent": "a log", "run": "the command's", "config example": "a file to write", "config schema": "a file to write",
	"vault-policy": "a shell script", "nats-setup": "a shell script", "completion": "a shell script",
}

// unshown are flags that no script uses, and why.
var unshown = map[string]string{
	"dev --postgres":         "needs a PostgreSQL of somebody's",
	"consumer-check --creds": "as everywhere", "consumer-check --server": "as everywhere",
}

// TestEveryCommandHasATranscript: each is shown word for word on a pipe and on a
// terminal, prints the same as JSON and as YAML, and each of its own flags is used.
func TestEveryCommandHasATranscript(t *testing.T) {
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	shown, everywhere := transcripts(t, parser.Model.Node), map[string]bool{}
	for _, s := range shown {
		for f := range s.flags {
			everywhere[f] = true
		}
	}
	shared := map[string]bool{"help": true}
	for _, of := range []any{&struct{ logSource }{}, &struct{ output }{}} {
		p, err := kong.New(of)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Model.Flags {
			shared[f.Name] = true
			if !everywhere[f.Name] && !everywhere[string(f.Short)] && f.Name != "help" && f.Name != "stream" && f.Name != "creds" {
				t.Errorf("no script uses --%s", f.Name)
			}
		}
	}
	commands := 0
	for _, leaf := range parser.Model.Leaves(true) {
		commands++
		path := strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" ")
		s := shown[path]
		if s == nil {
			t.Errorf("%s has no transcript", path)
			continue
		}
		if !s.pipe && path != "config schema" { // compared with the documentation, in service/config
			t.Errorf("%s has no transcript on a pipe that is compared", path)
		}
		if !s.terminal {
			t.Errorf("%s has no transcript on a terminal that is compared", path)
		}
		hasOutput := slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "output" })
		if hasOutput == (noTable[path] != "") {
			t.Errorf("%s: --output: %v", path, hasOutput)
		}
		if hasOutput && !s.forms && !(s.outputs["json"] && s.outputs["yaml"]) {
			t.Errorf("%s: its JSON and YAML are not compared", path)
		}
		for _, f := range leaf.Flags {
			if shared[f.Name] || s.flags[f.Name] || f.Short != 0 && s.flags[string(f.Short)] || unshown[path+" --"+f.Name] != "" {
				continue
			}
			if f.Tag.Negatable != "" && s.flags["no-"+f.Name] {
				continue
			}
			t.Errorf("%s: no script uses --%s", path, f.Name)
		}
	}
	if commands < 35 {
		t.Errorf("only %d commands were looked at", commands)
	}
}
