package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/service/config"
)

// seed adds every file of testdata and the examples.
func seed(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		if src, err := os.ReadFile(file); err == nil {
			f.Add(src)
		}
	}
	service, definitions := config.Example()
	f.Add([]byte(service))
	f.Add([]byte(definitions))
	f.Add([]byte(minimal))
}

// checkRefusal holds for whatever a file holds: a list of errors, each with a
// position within the file and a message on one line.
func checkRefusal(t *testing.T, err error, src []byte) {
	t.Helper()
	if err == nil {
		return
	}
	var all *config.Errors
	if !errors.As(err, &all) || len(all.List) == 0 {
		t.Fatalf("%v is no list of errors", err)
	}
	lines := strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(src)), "\n") + 1
	for _, e := range all.List {
		if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Message == "" || strings.ContainsAny(e.Error(), "\n\r\x00") {
			t.Fatalf("a bad error: %+v, in a file of %d lines\n%q", e, lines, src)
		}
	}
}

func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := config.Parse("x.yaml", src)
		checkRefusal(t, err, src)
		if err == nil && (len(c.Vaults) == 0 || len(c.Scopes) == 0 || c.StateDir == "" || c.Heartbeat.Sign() <= 0 ||
			(c.NATS.URL == "") == (c.NATS.Embedded == nil) || (c.SealKey.File == "") == (c.SealKey.Env == "")) {
			t.Fatalf("a configuration that can't be: %+v\n%q", c, src)
		}
	})
}

func FuzzParseDefinitions(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		defs, err := config.ParseDefinitions("x.yaml", src, []string{"main"})
		checkRefusal(t, err, src)
		if err != nil {
			return
		}
		for name, d := range defs.Leases {
			if d.Vault != "main" || d.Path == "" || d.Kind == "" || d.RenewAt.Sign() <= 0 || d.PrepareTimeout.Sign() <= 0 ||
				d.RetireAfter.Cmp(d.GoodFor) < 0 && d.RetireAfter.Sign() <= 0 || defs.Position(name).Line < 1 {
				t.Fatalf("a definition that can't be: %s: %+v\n%q", name, d, src)
			}
		}
		again, err := config.ParseDefinitions("x.yaml", src, []string{"main"})
		if err != nil || again.Digest() != defs.Digest() || defs.Revision < 1 {
			t.Fatalf("read twice, it is not the same: %v\n%q", err, src)
		}
	})
}

// Whatever else is wrong around it, a secret in its place is never repeated.
func TestI7_NoErrorRepeatsASecret(t *testing.T) {
	const canary = "S3cretC4nary"
	values := rapid.SampledFrom([]string{canary, "hvs." + canary, `"` + canary + `"`, "'" + canary, `"` + canary, "[" + canary + "]", "{a: " + canary + "}",
		canary + ": x", "&a " + canary, "*" + canary, "!" + canary, "@" + canary, "|\n      " + canary, `"\x` + canary + `"`, canary + " # x", "- " + canary, "`" + canary,
		"http://u:" + canary + "@v:8200", "https://v:8200?t=" + canary, "https://v:" + canary, "postgres://{{username}}:" + canary + "@a/b", `"postgres://u:` + canary + `@a/b"`,
		"SUA" + canary, "%" + canary, canary + "\n      " + canary + ": 1", `"` + canary + `" ` + canary})
	service := rapid.SampledFrom([]string{"address", "token", "token_file", "token_env", "tls", "login"})
	lease := rapid.SampledFrom([]string{"      - key: ", "    verifier:\n      kind: postgresql\n      dsn: ", "    verifier: ", "    path: "})
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		v := values.Draw(t, "value")
		src := "vaults:\n  main:\n    " + service.Draw(t, "key") + ": " + v + "\nstate_dir: a\n"
		_, err := config.Parse("x.yaml", []byte(src))
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Fatalf("got %v of\n%s", err, src)
		}
		key := lease.Draw(t, "lease")
		src = "revision: 1\nleases:\n  a:\n    kind: postgresql\n"
		if strings.HasPrefix(key, "      -") {
			src += "    consumers:\n"
		}
		src += key + v + "\n"
		if _, err = config.ParseDefinitions("x.yaml", []byte(src), []string{"main"}); err != nil {
			refused++
			if strings.Contains(err.Error(), canary) {
				t.Fatalf("got %v of\n%s", err, src)
			}
		}
	})
	if refused < 20 {
		t.Errorf("only %d files were refused", refused)
	}
}
