package verify_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/handover/verify"
)

func TestCheckAccepts(t *testing.T) {
	for _, dsn := range []string{
		"postgres://{{username}}:{{password}}@db:5432/app",
		"postgresql://{{ username }}:{{ password }}@db/app?sslmode=require&connect_timeout=3",
		"postgres://{{username}}:{{password}}@a:5432,b:5432/app?target_session_attrs=read-write",
		"postgres://{{username}}:{{password}}@db:{{port}}/{{dbname}}",
		"postgres://{{username}}:{{password}}@/app?host=/var/run/postgresql",
		"host=db user={{username}} password={{password}}",
		"user = '{{username}}' password = '{{password}}' host = db",
	} {
		if err := verify.Check(verify.Spec{Kind: verify.KindPostgreSQL, DSN: dsn}); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for dsn, says := range map[string]string{
		"": "write {{username}}",
		"postgres://{{username}}:literal-pw@db/app":                                       "has a password in it",
		"postgres://{{username}}:literal-pw{{password}}@db/app":                           "has a password in it",
		"postgres://{{username}}:{{password}}@db/app?password=literal-pw":                 "has a password in it",
		"postgres://{{username}}:literal-pw@db/app?password={{password}}":                 "has a password in it",
		"host=db user={{username}} password=literal-pw":                                   "has a password in it",
		"host=db user={{username}} password='literal-pw'":                                 "has a password in it",
		"host=db user={{username}} password=literal-pw password={{password}}":             "has a password in it",
		"host=db user={{username}} PASSWORD = literal-pw":                                 "has a password in it",
		"postgres://app:{{password}}@db/app":                                              "write {{username}}",
		"postgres://{{username}}@db/app":                                                  "write {{username}}",
		"postgres://db/app":                                                               "write {{username}}",
		"postgres://{{username}}:{{username}}@db/app":                                     "has a password in it",
		"postgres://{{username}}:{{password}}@/app":                                       "names no host",
		"user={{username}} password={{password}}":                                         "names no host",
		"postgres://{{username}}:{{password}}@db/app?passfile=/x":                         "must not use passfile",
		"host=db user={{username}} password={{password}} sslpassword=literal-pw":          "must not use passfile",
		"host=db user={{username}} password={{password}} service=x":                       "must not use passfile",
		"mysql://{{username}}:{{password}}@db/app":                                        "cannot be read",
		"postgres://{{username}}:{{password}}@db:literal-pw/app":                          "cannot be read",
		"postgres://{{username}}:literal-pw/x@db/app":                                     "cannot be read",
		"postgres://{{username}}:{{password}}@db/app?sslmode=literal-pw":                  "cannot be read",
		"postgres://{{username}}:{{password}}@db/app?sslmode=verify-ca&sslrootcert=/none": "/none",
	} {
		err := verify.Check(verify.Spec{Kind: verify.KindPostgreSQL, DSN: dsn})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s:\n got %v\nwant %q", dsn, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "literal-pw") {
			t.Errorf("%s: the error repeats the password: %v", dsn, err)
		}
	}
	if err := verify.Check(verify.Spec{Kind: "oracle", DSN: "x"}); err == nil || !strings.Contains(err.Error(), verify.KindPostgreSQL) {
		t.Errorf("an unknown kind: %v", err)
	}
}

// FuzzValuesStayValues: whatever a value is, it ends where its key stands, and
// nowhere else.
func FuzzValuesStayValues(f *testing.F) {
	for _, seed := range []string{"p@ss:w/rd%?#", `'\ "`, "x host=evil", "{{username}}", "é\xff\n"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, user, password string) {
		if user == "" || password == "" || strings.ContainsRune(user+password, 0) {
			return
		}
		for _, template := range []string{
			"postgres://{{username}}:{{password}}@db:1/app",
			"postgres://db:1/app?user={{username}}&password={{password}}",
			"user={{username}} password={{password}} host=db port=1 dbname=app",
			"host='db' password='{{password}}' user='{{username}}' port='1' dbname='app'",
		} {
			dsn, err := verify.Render(template, map[string]any{"username": user, "password": password})
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatalf("%s: user %q, password %q: %v", template, user, password, err)
			}
			if cfg.User != user || cfg.Password != password || cfg.Host != "db" || cfg.Port != 1 || cfg.Database != "app" {
				t.Fatalf("%s: user %q, password %q became %q, %q at %s:%d/%s",
					template, user, password, cfg.User, cfg.Password, cfg.Host, cfg.Port, cfg.Database)
			}
		}
	})
}
