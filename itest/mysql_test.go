package itest

import (
	"testing"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sqllease"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
)

func TestMySQL(t *testing.T) {
	t.Parallel()
	srv := mysqltest.Start(t)
	const create = `CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'`
	const locked = create + ` ACCOUNT LOCK`
	rotations(t, engine{
		kind: "mysql", path: "database/creds/app",
		verifier: `{kind: mysql, dsn: "mysql://{{username}}:{{password}}@` + srv.Addr() + `/", timeout: 1s}`,
		setUp: func(v *vaultServer) {
			v.database(t, map[string]any{"plugin_name": "mysql-database-plugin", "connection_url": "{{username}}:{{password}}@tcp(" + srv.Addr() + ")/",
				"username": srv.Superuser(), "password": srv.Password()}, create)
		},
		users: srv.Users,
		breakNext: func(v *vaultServer, broken bool) {
			statement := create
			if broken {
				statement = locked
			}
			v.must(t, "POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1h", "max_ttl": "2h", "creation_statements": []string{statement}})
		},
		start: func(_ *rig, client *consumer.Client, l *load) func() {
			dialect, err := sqllease.MySQL("tcp(" + srv.Addr() + ")/")
			if err != nil {
				t.Fatal(err)
			}
			return workOnSQL(t, client, l, dialect, "SELECT substring_index(current_user(), '@', 1)")
		},
	})
}
