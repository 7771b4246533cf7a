// Package deploy_test checks that the files of docker-compose.yml are ones that
// the servers would accept, as far as that shows without containers.
package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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

func TestServiceAndDefinitionsFilesAreRight(t *testing.T) {
	c, err := config.Load("leasesvc/leasesvc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defs, err := c.LoadDefinitions("demo")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range defs.Leases {
		if d.Verifier == nil {
			continue
		}
		if err := verify.Check(verify.Spec{Kind: d.Verifier.Kind, DSN: d.Verifier.DSN}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestComposeFileHoldsTogether: each mount of ours exists, each volume is
// declared, each service depended on is there.
func TestComposeFileHoldsTogether(t *testing.T) {
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Volumes   []string       `yaml:"volumes"`
			DependsOn map[string]any `yaml:"depends_on"`
		} `yaml:"services"`
		Volumes map[string]any `yaml:"volumes"`
	}
	// A key beside a merge (<<) overrides it, which the decoder takes for a
	// duplicate.
	if err := yaml.UnmarshalWithOptions(text, &compose, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) == 0 {
		t.Fatal("no services were read")
	}
	for name, s := range compose.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, declared := compose.Volumes[source]
			if strings.HasPrefix(source, ".") {
				_, err := os.Stat(filepath.Join("..", source))
				declared = err == nil
			}
			if !declared {
				t.Errorf("service %s mounts %s, which does not exist", name, source)
			}
		}
		for other := range s.DependsOn {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("service %s depends on %s, which does not exist", name, other)
			}
		}
	}
}
