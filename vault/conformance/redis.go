package conformance

import (
	"net"
	"testing"
)

// testRedis makes ACL users in a real Redis by the database engine.
func testRedis(t *testing.T, a *admin) {
	r := a.target.Redis
	host, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		t.Fatal(err)
	}
	mount := "conf-redis-" + a.suffix
	a.mount(t, mount, "database", nil)
	a.must(t, "POST", mount+"/config/redis", map[string]any{
		"plugin_name": r.Plugin, "allowed_roles": "*", "host": host, "port": port, "username": r.User, "password": r.Password.Reveal(),
	})
	a.must(t, "POST", mount+"/roles/app", map[string]any{
		"db_name": "redis", "default_ttl": "1h", "max_ttl": "24h", "creation_statements": `["~*", "+@all"]`,
	})
	a.proves(t, r, mount+"/creds/app")
}
