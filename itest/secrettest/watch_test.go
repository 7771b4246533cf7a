package secrettest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/itest/secrettest"
)

const planted = `pa"ss<w0rd>/of+a\test&`

// look tells what is found of the planted secret in a text.
func look(t *testing.T, value, text string) []string {
	t.Helper()
	w := secrettest.New(t.TempDir())
	w.Secret("the planted secret", value)
	if err := w.Print("somewhere", []byte(text)); err != nil {
		t.Fatal(err)
	}
	r, err := w.Look()
	if err != nil {
		t.Fatal(err)
	}
	if r.Secrets != 1 || r.Files != 1 || r.Bytes != int64(len(text)) {
		t.Fatalf("%+v", r)
	}
	for _, leak := range r.Leaks {
		if strings.Contains(leak, value) {
			t.Errorf("the report repeats the secret: %s", leak)
		}
	}
	return r.Leaks
}

func TestI7_APlantedSecretIsFoundInEveryForm(t *testing.T) {
	inJSON, err := json.Marshal(map[string]string{"password": planted})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(inJSON))
	if err != nil {
		t.Fatal(err)
	}
	var text, structured bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("m", "error", "login as x with "+planted)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("m", "error", "login as x with "+planted)
	for name, seen := range map[string]string{
		"plain": "login with " + planted + " failed", "quoted": fmt.Sprintf("%q", planted), "JSON": string(inJSON), "JSON in JSON": string(twice),
		"a URL": (&url.URL{Scheme: "postgres", User: url.UserPassword("u", planted), Host: "db"}).String(), "a query": url.Values{"p": {planted}}.Encode(),
		"hexadecimal": hex.EncodeToString([]byte(planted)), "%X": fmt.Sprintf("%X", planted),
		"base64": base64.StdEncoding.EncodeToString([]byte(planted)), "base64 one further": base64.StdEncoding.EncodeToString([]byte("x" + planted + "yz")),
		"base64 two further": base64.URLEncoding.EncodeToString([]byte("xy" + planted)), "basic": base64.StdEncoding.EncodeToString([]byte("user:" + planted)),
		"a log line": text.String(), "a JSON log line": structured.String(),
	} {
		if len(look(t, planted, "before "+seen+" after")) != 1 {
			t.Errorf("%s: %s: it is not found", name, seen)
		}
	}
	if leaks := look(t, planted, strings.Repeat("a text without any secret, password or token\n", 100)); len(leaks) != 0 {
		t.Errorf("found where it is not: %v", leaks)
	}
}

func TestI7_APrivateKeyIsFoundByItsLines(t *testing.T) {
	var lines []string
	for i := range 8 {
		lines = append(lines, strings.Repeat(fmt.Sprint(i), 10)+strings.Repeat("abcdefghi", 6))
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Join(lines, "\n") + "\n-----END PRIVATE KEY-----\n"
	for name, seen := range map[string]string{
		"as it is": key, "escaped": strings.ReplaceAll(key, "\n", `\n`), "a line": lines[6], "in one": strings.Join(lines, ""), "indented": strings.ReplaceAll(key, "\n", "\n    "),
	} {
		if len(look(t, key, seen)) == 0 {
			t.Errorf("%s: it is not found", name)
		}
	}
	if leaks := look(t, key, lines[0]+"\n"+lines[1]); len(leaks) != 0 {
		t.Errorf("what the certificate shows as well is no secret: %v", leaks)
	}
}

func TestI7_WhatAVaultAnswersIsKept(t *testing.T) {
	w := secrettest.New(t.TempDir())
	w.Answered("auth/token/create/guard", []byte(`{"auth":{"client_token":"hvs.guardtoken","accessor":"accessor-of-it"}}`))
	w.Answered("database/creds/x", []byte(`{"lease_id":"database/creds/x/abcdefgh","data":{"username":"v-user-name","password":"long-password"}}`))
	w.Answered("pki/issue/x", []byte(`{"data":{"certificate":"public-certificate","private_key":"private-key-text"}}`))
	w.Answered("secret/data/x", []byte(`{"data":{"data":{"api":"api-key-value","list":[{"deep":"deep-value-text"}],"port":1},"metadata":{"created_time":"2026-01-01T00:00:00Z"}}}`))
	w.Answered("sys/wrapping/wrap", []byte(`{"wrap_info":{"token":"wrapping-token"}}`))
	w.Answered("sys/health", []byte(`no JSON`))
	w.Audited([]byte(`{"type":"response","request":{"path":"database/creds/x"},"response":{"data":{"password":"audited-password"}}}
{"type":"response","request":{"path":"auth/token/create"},"response":{"auth":{"client_token":"audited-token"}}}
`))
	for _, secret := range []string{"hvs.guardtoken", "long-password", "private-key-text", "api-key-value", "deep-value-text", "wrapping-token", "audited-password", "audited-token"} {
		if err := w.Print(secret, []byte("seen: "+secret)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Print("public", []byte("accessor-of-it v-user-name public-certificate database/creds/x/abcdefgh 2026-01-01T00:00:00Z")); err != nil {
		t.Fatal(err)
	}
	r, err := w.Look()
	if err != nil || r.Secrets != 8 || len(r.Leaks) != 8 {
		t.Fatalf("%v: %+v", err, r)
	}
}

// TestI7_AFileIsLookedAtAsItIsInTheEnd: it grows, is removed, and another one takes
// its path.
func TestI7_AFileIsLookedAtAsItIsInTheEnd(t *testing.T) {
	w := secrettest.New(t.TempDir())
	w.Secret("the planted secret", planted)
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "log")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o700))
	must(os.WriteFile(path, []byte("begins\n"), 0o600))
	must(w.Tree(dir))
	must(w.File(path))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(err)
	_, err = fmt.Fprintln(f, "ends with", planted)
	must(err)
	must(f.Close())
	must(os.Remove(path))
	must(os.WriteFile(path, []byte("another"), 0o600))
	must(w.File(path))
	r, err := w.Look()
	must(err)
	if r.Files != 2 || len(r.Leaks) != 1 || !strings.Contains(r.Leaks[0], "line 2") {
		t.Errorf("%+v", r)
	}
	if err := w.File(filepath.Join(dir, "nosuch")); err == nil {
		t.Error("a file that is not there is kept")
	}
}

// tests is a run that prints what it likes.
type tests func() int

func (f tests) Run() int { return f() }

func TestI7_ARunThatLeaksFails(t *testing.T) {
	if code := secrettest.Main(tests(func() int { return 0 })).Run(); code != 0 {
		t.Errorf("a run that starts nothing: %d", code)
	}
	clean := func() int {
		secrettest.Secret("the planted secret", planted)
		if secrettest.Print("a test", []byte("nothing")) != nil {
			return 7
		}
		return 0
	}
	if code := secrettest.Main(tests(clean)).Run(); code != 0 {
		t.Errorf("a clean run: %d", code)
	}
	if code := secrettest.Main(tests(func() int { clean(); _ = secrettest.Print("a test", []byte(planted)); return 0 })).Run(); code != 1 {
		t.Errorf("a run that leaks: %d", code)
	}
	if code := secrettest.Main(tests(func() int { secrettest.Secret("the planted secret", planted); return 0 })).Run(); code != 1 {
		t.Errorf("a run that shows nothing: %d", code)
	}
	secrettest.Secret("nobody's", planted) // outside of a run
}
