package devvault_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

// A server in memory, set up through its own API, and one credential whose
// account goes with its lease.
func Example() {
	ctx := context.Background()
	directory := &devvault.Directory{}
	server, err := devvault.New(devvault.Config{Accounts: directory})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	do := func(method, path string, body any) map[string]any {
		out, err := server.Do(ctx, method, path, body)
		if err != nil {
			fmt.Println(err)
		}
		return out
	}
	do("POST", "sys/mounts/database", map[string]any{"type": "database"})
	do("POST", "database/config/db", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*"})
	do("POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1h", "max_ttl": "24h"})

	creds := do("GET", "database/creds/app", nil)
	data := creds["data"].(map[string]any)
	user, password := data["username"].(string), data["password"].(string)
	fmt.Println("lease of", creds["lease_duration"], "s, login:", directory.Login(user, password))

	do("PUT", "sys/leases/revoke", map[string]any{"lease_id": creds["lease_id"]})
	names, _ := directory.List(ctx)
	fmt.Println("accounts after the revocation:", len(names))
	// Output:
	// lease of 3600 s, login: <nil>
	// accounts after the revocation: 0
}

// A lost answer: the account is made, and the caller never learns of it.
func ExampleServer_Inject() {
	server, err := devvault.New(devvault.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	fault := server.Inject(devvault.Fault{Method: "GET", Path: "database/creds/*", Times: 1, DropAfter: true})
	defer fault.Remove()
	fmt.Println("hits so far:", fault.Hits())
	// Output:
	// hits so far: 0
}

// A secret id that only one reader can have: it travels wrapped.
func ExampleServer_DoWrapped() {
	ctx := context.Background()
	server, err := devvault.New(devvault.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	if _, err := server.Do(ctx, "POST", "sys/auth/approle", map[string]any{"type": "approle"}); err != nil {
		fmt.Println(err)
	}
	if _, err := server.Do(ctx, "POST", "auth/approle/role/app", map[string]any{"token_ttl": "1h"}); err != nil {
		fmt.Println(err)
	}
	token, err := server.DoWrapped(ctx, time.Minute, "POST", "auth/approle/role/app/secret-id", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := server.DoAs(ctx, token, "POST", "sys/wrapping/unwrap", nil)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// POST sys/wrapping/unwrap: 400: wrapping token is not valid or does not exist
}
