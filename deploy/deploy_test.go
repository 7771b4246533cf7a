package deploy

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/service/config"
)

func TestNATSServersSyncAlwaysAndAskForThePassword(t *testing.T) {
	t.Setenv("SERVER_NAME", "nats-1")
	t.Setenv("NATS_PASSWORD", "p0123456789")
	o, err := server.ProcessConfigFile("nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !o.SyncAlways || o.StoreDir == "" || len(o.Routes) != 3 || o.ServerName != "nats-1" {
		t.Errorf("sync always %v, store %q, %d routes, name %q", o.SyncAlways, o.StoreDir, len(o.Routes), o.ServerName)
	}
	if len(o.Users) != 1 || o.Users[0].Password != "p0123456789" {
		t.Errorf("%d users", len(o.Users))
	}
}

// TestServiceFilesAreRight: those of the compose file and of the unit, with their
// definitions; each by the service's own reader.
func TestServiceFilesAreRight(t *testing.T) {
	for _, file := range []string{"leasesvc/leasesvc.yaml", "systemd/leasesvc.yaml"} {
		c, err := config.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(c.Scopes) != 1 {
			t.Errorf("%s: %d scopes", file, len(c.Scopes))
		}
		for scope := range c.Scopes {
			checkDefinitions(t, c, scope)
		}
	}
}

func checkDefinitions(t *testing.T, c *config.Config, scope string) {
	t.Helper()
	defs, err := c.LoadDefinitions(scope)
	if err != nil {
		t.Error(err)
		return
	}
	if len(defs.Leases) == 0 {
		t.Errorf("%s has no leases", scope)
	}
	for name, d := range defs.Leases {
		if d.Verifier == nil {
			t.Errorf("%s is not verified", name)
			continue
		}
		if err := verify.Check(verify.Spec{Kind: d.Verifier.Kind, DSN: d.Verifier.DSN}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
