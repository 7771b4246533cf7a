package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
)

const (
	keyA = "UBSXHXSGY2IJN7NNXQ6WHA6M5SEMJLJJ5NG2NTHENR65TLX2IKVGJ546"
	keyB = "UAWBADH7XL7X5YFAX3GYOS4WRDNMSVNWZLIX3ZQPLQH2BC26HQ2ZTIDI"
)

// minimal is the shortest service file.
const minimal = `nats: {url: "nats://127.0.0.1:4222"}
state_dir: state
seal_key: {env: LEASESVC_SEAL_KEY}
vaults: {main: {address: "http://127.0.0.1:8200", token: hvs.S3cret}}
scopes: {prod: {definitions: defs.yaml}}
`

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExampleFilesAreRight(t *testing.T) {
	service, definitions := config.Example()
	dir := t.TempDir()
	write(t, dir, "definitions.yaml", definitions)
	c, err := config.Load(write(t, dir, "leasesvc.yaml", service))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Scopes["prod"].Definitions, filepath.Join(dir, "definitions.yaml"); got != want {
		t.Errorf("definitions file %s, want %s: relative to the service file", got, want)
	}
	if got, want := c.NATS.CredentialsFile, filepath.Join(dir, "leasesvc.creds"); got != want {
		t.Errorf("credentials file %s, want %s", got, want)
	}
	defs, err := c.LoadDefinitions("prod")
	if err != nil {
		t.Fatal(err)
	}
	orders := defs.Leases["orders-db"]
	if defs.Revision != 1 || len(defs.Leases) != 2 || orders.Vault != "main" || orders.Kind != events.KindPostgreSQL ||
		!orders.PrepareTimeout.Equal(events.WholeSeconds(10)) || len(orders.Consumers) != 2 || !orders.Consumers[1].Optional {
		t.Errorf("read as %+v", defs)
	}
}

func TestDefaultsOfTheServiceFile(t *testing.T) {
	c, err := config.Parse("etc/leasesvc.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	v := c.Vaults["main"]
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"replicas", c.NATS.Replicas, 1},
		{"stream", c.NATS.Stream, "LEASESVC"},
		{"max_bytes", c.NATS.MaxBytes, int64(1 << 30)},
		{"state_dir", c.StateDir, filepath.Join("etc", "state")},
		{"guard_role", v.GuardRole, "leasesvc"},
		{"guard_ttl", v.GuardTTL.String(), "60"},
		{"timeout", v.Timeout.String(), "10"},
		{"token", v.Token.Reveal(), "hvs.S3cret"},
		{"listen", c.HTTP.Listen, "127.0.0.1:8250"},
		{"log", c.Log, config.Log{Format: "text", Level: "info"}},
		{"heartbeat", c.Heartbeat.String(), "0.5"},
		{"operation_timeout", c.OperationTimeout.String(), "10"},
		{"shutdown_timeout", c.ShutdownTimeout.String(), "10"},
		{"insecure_consumers", c.InsecureConsumers, false},
		{"exit_on_fence", c.ExitOnFence, false},
		{"project", c.Project, ""},
	} {
		if check.got != check.want {
			t.Errorf("%s is %v, want %v", check.what, check.got, check.want)
		}
	}
}

func TestI7_PrintingAConfigurationShowsNoToken(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(c)
	if out := fmt.Sprintf("%v %+v %#v %s", c, *c, c.Vaults, b); err != nil || strings.Contains(out, "S3cret") || !strings.Contains(out, "[redacted]") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEmbeddedServerStoresBelowStateDir(t *testing.T) {
	src := strings.Replace(minimal, `url: "nats://127.0.0.1:4222"`, "embedded: {}", 1)
	c, err := config.Parse("/etc/leasesvc.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Embedded{Listen: "127.0.0.1:4222", Store: "/etc/state/nats"}
	if c.NATS.Embedded == nil || *c.NATS.Embedded != want {
		t.Fatalf("embedded is %+v, want %+v", c.NATS.Embedded, want)
	}
}

func TestEncodingsOfAFile(t *testing.T) {
	for what, src := range map[string]string{
		"byte order mark":        "\xef\xbb\xbf" + minimal,
		"CRLF":                   strings.ReplaceAll(minimal, "\n", "\r\n"),
		"CR":                     strings.ReplaceAll(minimal, "\n", "\r"),
		"document start and end": "---\n" + minimal + "...\n",
		"no line end at the end": strings.TrimSuffix(minimal, "\n"),
		"tab after a value":      strings.Replace(minimal, "state_dir: state", "state_dir: state\t# here", 1),
	} {
		if _, err := config.Parse("x.yaml", []byte(src)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := config.Parse("x.yaml", []byte("\xef\xbb\xbfstate_dri: x\r\n"))
	var all *config.Errors
	if !errors.As(err, &all) || !strings.Contains(err.Error(), `x.yaml:1:1: unknown key "state_dri", did you mean "state_dir"?`) {
		t.Errorf("a byte order mark shifts positions: %v", err)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(config.MaxFile+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop.yaml")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, want string
		is         error
	}{
		{filepath.Join(dir, "none.yaml"), "there is no such file", fs.ErrNotExist},
		{dir, "is a directory", nil},
		{"/dev/null", "is not a regular file", nil},
		{large, "larger than 16 MiB", nil},
		{loop, "cannot be looked at: too many levels of symbolic links", nil},
		{"", "no file was named", nil},
	} {
		_, errService := config.Load(c.file)
		_, errDefinitions := config.LoadDefinitions(c.file, []string{"main"})
		for _, err := range []error{errService, errDefinitions} {
			var all *config.Errors
			if !errors.As(err, &all) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.file) {
				t.Errorf("%s: got %v, want %q", c.file, err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %v is not %v", c.file, err, c.is)
			}
		}
	}
}

func TestErrorsAreAllThereAndInOrder(t *testing.T) {
	_, err := config.Parse("x.yaml", []byte("heartbeat: 1d\nstate_dir: 7\nnats: []\n"))
	var all *config.Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %v", err)
	}
	var keys []string
	for i, e := range all.List {
		keys = append(keys, e.Key)
		if e.File != "x.yaml" || e.Line < 1 || e.Column < 1 {
			t.Errorf("error %d has no position: %+v", i, e)
		}
		if i > 0 && all.List[i-1].Line > e.Line {
			t.Errorf("error %d is out of order", i)
		}
		var one *config.Error
		if !errors.As(err, &one) {
			t.Error("a single error cannot be asked for")
		}
	}
	if got := strings.Join(keys, " "); got != "seal_key vaults scopes heartbeat state_dir nats" {
		t.Errorf("errors at %s", got)
	}
	many := strings.Repeat("x", 1)
	var src strings.Builder
	for i := range config.MaxShown + 5 {
		src.WriteString(many + strings.Repeat("y", i) + ": 1\n")
	}
	_, err = config.Parse("x.yaml", []byte(src.String()))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != config.MaxShown+1 || !strings.Contains(lines[config.MaxShown], "more") {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestRefusePointsIntoTheFile(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"seal_key.env":     "x.yaml:3:12: seal_key.env: m 1",
		"vaults.main.gone": "x.yaml:4:10: vaults.main.gone: m 1",
		"nowhere":          "x.yaml:1:1: nowhere: m 1",
	} {
		if got := c.Refuse(key, "m %d", 1).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := c.LoadDefinitions("other"); err == nil || !strings.Contains(err.Error(), `x.yaml:5:1: scopes: there is no scope "other"; known: [prod]`) {
		t.Errorf("got %v", err)
	}
}

func TestFurtherSealKeys(t *testing.T) {
	with := func(sealKey string) (*config.Config, error) {
		return config.Parse("/etc/leasesvc/leasesvc.yaml", []byte(strings.Replace(minimal, "{env: LEASESVC_SEAL_KEY}", sealKey, 1)))
	}
	c, err := with("{file: new.key, previous: [{file: old.key}, {env: OLDER}]}")
	if err != nil {
		t.Fatal(err)
	}
	if p := c.SealKey.Previous; len(p) != 2 || p[0].File != "/etc/leasesvc/old.key" || p[1].Env != "OLDER" || c.SealKey.File != "/etc/leasesvc/new.key" {
		t.Errorf("%+v", c.SealKey)
	}
	for sealKey, want := range map[string]string{
		"{previous: [{file: old.key}]}":                                                "seal_key: ",
		"{file: new.key, previous: [{file: a, env: B}]}":                               "seal_key.previous[0]",
		"{file: new.key, previous: [{}]}":                                              "seal_key.previous[0]",
		"{file: new.key, previous: {file: old.key}}":                                   "seal_key.previous: a mapping where a list is expected",
		"{file: new.key, previous: [{file: old.key, previous: []}]}":                   "unknown key \"previous\"",
		"{file: n, previous: [{file: a}, {file: b}, {file: c}, {file: d}, {file: e}]}": "at most 4 are allowed",
	} {
		if _, err := with(sealKey); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sealKey, err)
		}
	}
}
