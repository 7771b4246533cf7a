package service

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/snapshot"
)

// journalOf gives the log's configuration.
func journalOf(n *config.NATS) journal.Config {
	return journal.Config{Stream: n.Stream, Replicas: n.Replicas, MaxBytes: n.MaxBytes}
}

// NATSSetup gives the commands of the nats program that create what a service
// file's service needs in JetStream, for an operator whose services may not
// create it themselves. They are the settings that the service makes it with.
func NATSSetup(cfg *config.Config) (string, error) {
	var b strings.Builder
	b.WriteString("# The service creates these itself when its account may. One that is there is\n" +
		"# changed with `nats stream edit` in place of `nats stream add`.\n")
	for _, sc := range []jetstream.StreamConfig{
		journal.Settings(journalOf(&cfg.NATS)),
		epochkv.StreamConfig(epochkv.DefaultBucket, cfg.NATS.Replicas),
		handover.BlobsStream(handover.BlobsBucket, cfg.NATS.Replicas),
		snapshot.StreamConfig(snapshot.Bucket, cfg.NATS.Replicas),
	} {
		settings, err := json.MarshalIndent(sc, "", "  ")
		if err != nil {
			return "", fmt.Errorf("printing the settings of stream %s: %w", sc.Name, err)
		}
		fmt.Fprintf(&b, "\ncat > %[1]s.json <<'END'\n%[2]s\nEND\nnats stream add %[1]s --config %[1]s.json\n", sc.Name, settings)
	}
	return b.String(), nil
}
