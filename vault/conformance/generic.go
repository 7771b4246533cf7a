package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

// testGeneric reads paths of which nothing is known but what the caller says: with
// GET and a query, and with POST and parameters.
func testGeneric(t *testing.T, a *admin) {
	c := a.client(t, a.target.RootToken, "")
	for _, v := range []string{"one", "two"} {
		a.must(t, "POST", a.kv()+"/data/generic", map[string]any{"data": map[string]any{"password": v}})
	}
	g, err := c.Read(t.Context(), a.kv()+"/data/generic", nil, vault.ReadOptions{Params: map[string]any{"version": 1}})
	if err != nil {
		t.Fatal(err)
	}
	var data struct{ Data struct{ Password string } }
	if err := json.Unmarshal(g.Data, &data); err != nil || data.Data.Password != "one" || g.LeaseID != "" {
		t.Errorf("a GET with a query: keys %v, %v", g.Keys, err)
	}

	mount := "conf-generic-" + a.suffix
	a.mount(t, mount, "pki", nil)
	a.must(t, "POST", mount+"/root/generate/internal", map[string]any{"common_name": "conformance", "ttl": "700h", "key_type": "ec", "key_bits": 256})
	a.must(t, "POST", mount+"/roles/app", map[string]any{"allow_any_name": true, "enforce_hostnames": false, "max_ttl": "2h", "generate_lease": true, "key_type": "ec", "key_bits": 256})
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		g, err = c.Read(t.Context(), mount+"/issue/app", nil, vault.ReadOptions{Method: method, Params: map[string]any{"common_name": "app.internal", "ttl": "1h"}})
		if err != nil {
			t.Fatalf("%s with parameters: %v", method, err)
		}
		if !strings.HasPrefix(g.LeaseID, mount+"/issue/app/") || g.TTL.Std() < 59*time.Minute || g.TTL.Std() > time.Hour || !strings.Contains(strings.Join(g.Keys, " "), "private_key") {
			t.Errorf("%s with parameters: %s", method, g)
		}
		if _, err := c.RevokeLease(t.Context(), g.LeaseID, vault.Verified()); err != nil {
			t.Error(err)
		}
	}
	_, err = c.Read(t.Context(), mount+"/issue/app", nil, vault.ReadOptions{Method: http.MethodPost})
	wantKind(t, "a POST without its parameters", err, vault.KindRefused)
	_, err = c.Read(t.Context(), mount+"/issue/app", nil, vault.ReadOptions{})
	wantKind(t, "a GET where a POST is due", err, vault.KindRefused)
}
