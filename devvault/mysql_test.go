package devvault_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
	"github.com/leasesvc/leasesvc/secret"
)

func TestMySQLAccountLivesAsLongAsItsLease(t *testing.T) {
	srv := mysqltest.Shared(t)
	v := newVault(t, func(c *devvault.Config) {
		c.Plugins = map[string]devvault.Accounts{"mysql-database-plugin": &devvault.MySQL{}}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	v.ok("POST", "database/config/db", map[string]any{
		"plugin_name": "mysql-database-plugin", "connection_url": "{{username}}:{{password}}@tcp(" + srv.Addr() + ")/",
		"username": srv.Superuser(), "password": srv.Password(),
	})
	v.ok("POST", "database/roles/app", map[string]any{
		"creation_statements": []string{`CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'; GRANT SELECT ON *.* TO '{{name}}'@'%';`},
	})
	c := v.creds(v.RootToken())
	if len(c.user) > 32 || !strings.HasPrefix(c.user, "v-") {
		t.Errorf("the user is %q", c.user)
	}
	if err := srv.Login(ctx, c.user, c.password); err != nil {
		t.Fatalf("login: %v", err)
	}
	users, err := srv.Users(ctx)
	if err != nil || !slices.Contains(users, c.user) {
		t.Fatalf("users are %v, %v", users, err)
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	if err := srv.Login(ctx, c.user, c.password); err == nil {
		t.Error("the user outlived its lease")
	}
	if users, err := srv.Users(ctx); err != nil || len(users) != 0 {
		t.Errorf("users are %v, %v", users, err)
	}
}

func TestMySQLDropOfNobodyAndRefusedConfiguration(t *testing.T) {
	srv := mysqltest.Shared(t)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	url := "{{username}}:{{password}}@tcp(" + srv.Addr() + ")/"
	accounts, err := (&devvault.MySQL{}).Connect(ctx, connection(url, srv.Superuser(), srv.Password()), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := accounts.Drop(ctx, "v-nobody", nil); err != nil {
		t.Errorf("dropping nobody: %v", err)
	}
	if _, err := (&devvault.MySQL{}).Connect(ctx, connection(url, srv.Superuser(), "pw-wrong"), true); err == nil || strings.Contains(err.Error(), "pw-wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func connection(url, user, password string) devvault.Connection {
	return devvault.Connection{URL: url, Username: user, Password: secret.New(password)}
}
