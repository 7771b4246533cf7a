package service_test

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/snapshot"
)

// What an operator creates with the printed settings is what the service takes,
// though it may create nothing itself.
func TestNATSSetup_IsWhatTheServiceTakes(t *testing.T) {
	cfg := &config.Config{NATS: config.NATS{Stream: "LEASES", Replicas: 1, MaxBytes: 1 << 20}}
	commands, err := service.NATSSetup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	js := natstest.Start(t).JS(t)
	add := regexp.MustCompile(`(?ms)^cat > (\S+)\.json <<'END'\n(.*?)\nEND\nnats stream add (\S+) --config (\S+)\.json$`)
	found := add.FindAllStringSubmatch(commands, -1)
	if len(found) != 4 {
		t.Fatalf("%d streams are created, want the log, the cells, the blobs and the snapshots:\n%s", len(found), commands)
	}
	for _, m := range found {
		var sc jetstream.StreamConfig
		if err := json.Unmarshal([]byte(m[2]), &sc); err != nil {
			t.Fatal(err)
		}
		if sc.Name != m[1] || m[3] != m[1] || m[4] != m[1] {
			t.Errorf("stream %s is created by %q", sc.Name, m[0])
		}
		if _, err := js.CreateStream(t.Context(), sc); err != nil {
			t.Fatal(err)
		}
	}

	log, err := journal.Open(t.Context(), js, journal.Config{Stream: "LEASES", Replicas: 1, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	log.Close()
	state, err := epochkv.OpenStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	if _, err := epochkv.Open(t.Context(), js, epochkv.Config{Replicas: 1, State: state, Instance: "one"}); err != nil {
		t.Error(err)
	}
	blobs, err := handover.OpenBlobs(t.Context(), js, handover.BlobsBucket, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := blobs.Put(t.Context(), "prod", "orders", 1, []byte("sealed")); err != nil {
		t.Error(err)
	}
	snapshots, err := snapshot.Open(t.Context(), js, snapshot.Bucket, 1, snapshot.Key{}, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshots.Save(t.Context(), "prod", 1, []byte("snapshot")); err != nil {
		t.Error(err)
	}
	got, err := js.Stream(t.Context(), "KV_"+handover.BlobsBucket)
	if err != nil {
		t.Fatal(err)
	}
	if got.CachedInfo().Config.AllowDirect {
		t.Error("the blobs' bucket allows direct get")
	}
}
