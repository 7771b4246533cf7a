package handover_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

// A bucket that would lose values is refused, with the setting named.
func TestOpenBlobs_RefusesABucketThatLosesValues(t *testing.T) {
	js := natstest.Start(t).JS(t)
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"max_age": func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Hour },
		"storage": func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"discard": func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
	} {
		bucket := "sealed_" + setting
		cfg := handover.BlobsStream(bucket, 1)
		change(&cfg)
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		_, err := handover.OpenBlobs(t.Context(), js, bucket, 1)
		var refused *handover.BucketError
		if !errors.As(err, &refused) || len(refused.Differences) != 1 || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if _, err := handover.OpenBlobs(t.Context(), js, "sealed", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := handover.OpenBlobs(t.Context(), js, "sealed", 3); err == nil || !strings.Contains(err.Error(), "num_replicas") {
		t.Errorf("replicas: %v", err)
	}
}
