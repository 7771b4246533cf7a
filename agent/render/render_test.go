package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		External: []string{"github.com/Masterminds/sprig/v3", "go.yaml.in/yaml/v4"},
		Why:      "rendering is pure: who reads and writes files is the caller's",
	})
}

const content = `{"db":{"host":"db.example.com","port":5432,"password":"p'w \"1\" $HOME\nline2","big":12345678901234567890.10,"tls":false,"none":null},
 "servers":[{"name":"a"},{"name":"yes"}],"version":"1.10","key with space":"0755"}`

func parse(t *testing.T, text string) any {
	t.Helper()
	v, err := render.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func do(t *testing.T, spec render.Spec, text string) string {
	t.Helper()
	r, err := render.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Render(parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestJSONKeepsNumbersAndSortsKeys(t *testing.T) {
	got := do(t, render.Spec{Format: render.JSON}, content)
	if !strings.Contains(got, `"big": 12345678901234567890.10`) || !strings.HasSuffix(got, "}\n") || strings.Index(got, `"db"`) > strings.Index(got, `"servers"`) {
		t.Error(got)
	}
	if !json.Valid([]byte(got)) {
		t.Error("it is no JSON")
	}
}

// What a text is must not depend on the reader's version of YAML.
func TestYAMLReadsBackAsItWas(t *testing.T) {
	got := do(t, render.Spec{Format: render.YAML}, content)
	for _, want := range []string{`name: "yes"`, `version: "1.10"`, `big: 12345678901234567890.10`, `tls: false`, `none: null`, `"key with space": "0755"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	var back map[string]any
	if err := yaml.Unmarshal([]byte(got), &back); err != nil {
		t.Fatal(err)
	}
	if pw := back["db"].(map[string]any)["password"]; pw != "p'w \"1\" $HOME\nline2" {
		t.Errorf("%q", pw)
	}
}

// A shell reads the file back to the very values.
func TestEnvIsReadBackByAShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte(do(t, render.Spec{Format: render.Env, Prefix: "APP_"}, content)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `set -a; . "$1"; printf '%s|%s|%s|%s|%s' "$APP_DB_PASSWORD" "$APP_DB_PORT" "$APP_SERVERS_1_NAME" "$APP_KEY_WITH_SPACE" "$APP_DB_NONE"`, "sh", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "p'w \"1\" $HOME\nline2|5432|yes|0755|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironmentRefusesWhatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		`{"a-b":"S3cret1","a.b":"S3cret2"}`: "A_B",
		`{"1":"S3cret"}`:                    "digit",
		`["S3cret"]`:                        "digit",
		`"S3cret"`:                          "map",
		`{"a":"S3cret\u0000"}`:              "NUL",
	} {
		_, err := render.Environment(parse(t, text), "")
		if !errors.Is(err, render.ErrRender) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTemplates(t *testing.T) {
	got := do(t, render.Spec{Format: render.Template, Name: "x", Text: `{{ .db.host | upper }}:{{ .db.port }} {{ range .servers }}{{ .name }},{{ end }} {{ .db.password | b64enc }} {{ index . "key with space" }} {{ toYaml .servers }} {{ .db.port | int | add 1 }}`}, content)
	if want := "DB.EXAMPLE.COM:5432 a,yes, cCd3ICIxIiAkSE9NRQpsaW5lMg== 0755 - name: a\n- name: \"yes\" 5433"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// What is missing is an error, and no error holds a value.
func TestTemplateErrors(t *testing.T) {
	const values = `{"a":{"b":"S3cret-1"},"list":["S3cret-2"]}`
	for _, text := range []string{
		`{{ .none }}`, `{{ .a.none }}`, `{{ .a.b.c }}`, `{{ index .list 3 }}`, `{{ fail .a.b }}`, `{{ .a.b | mustToDate "2006" }}`,
		`{{ template "none" }}`, `{{ mustRegexMatch "(" .a.b }}`, `{{ int .list | div 0 }}`, `{{ .a.b | b64dec | fail }}`, `{{ required .a.b .none }}`,
	} {
		r, err := render.New(render.Spec{Format: render.Template, Name: "x", Text: text})
		if err == nil {
			_, err = r.Render(parse(t, values))
		}
		if err == nil {
			t.Errorf("%s passes", text)
		} else if strings.Contains(err.Error(), "S3cret") {
			t.Errorf("%s: a value shows: %v", text, err)
		}
	}
	for _, text := range []string{`{{ env "HOME" }}`, `{{ now }}`, `{{ uuidv4 }}`, `{{ randAlpha 3 }}`, `{{ getHostByName "x" }}`, `{{ expandenv "$HOME" }}`, `{{ genPrivateKey "rsa" }}`} {
		if _, err := render.New(render.Spec{Format: render.Template, Name: "x", Text: text}); err == nil {
			t.Errorf("%s is a function that is not repeatable", text)
		}
	}
}

func TestSecretsAreRedactedHoweverTheyAreWritten(t *testing.T) {
	h := render.Secrets(parse(t, `{"a":"S3c/ret+\"x","pem":"-----BEGIN\nabcdef0123\n-----END","n":123456,"short":"no"}`))
	text := h.Redact(`S3c/ret+"x S3c/ret+\"x S3c%2Fret%2B%22x UzNjL3JldCsieA== abcdef0123 123456 no`)
	if text != strings.Repeat("[redacted] ", 6)+"no" {
		t.Error(text)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", h, h, h, h); strings.Contains(s, "S3c") {
		t.Error(s)
	}
	if h.Longest() < len(`S3c%2Fret%2B%22x`) {
		t.Error(h.Longest())
	}
}
