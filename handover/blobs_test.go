package handover

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/handover/wire"
)

func openBlobs(t *testing.T) (*Blobs, jetstream.JetStream, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	js, err := jetstream.New(connect(t, startNATS(t)))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := OpenBlobs(ctx, js, BlobsBucket, 1)
	if err != nil {
		t.Fatal(err)
	}
	return blobs, js, ctx
}

func TestBlobsAreCreatedOnceReadAndPurged(t *testing.T) {
	blobs, js, ctx := openBlobs(t)
	if _, err := blobs.Get(ctx, "prod", "db", 1); !errors.Is(err, ErrNoBlob) {
		t.Errorf("nothing stored: %v", err)
	}
	if err := blobs.Put(ctx, "prod", "db", 1, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := blobs.Put(ctx, "prod", "db", 1, []byte("one")); err != nil {
		t.Errorf("the same again, as after a lost answer: %v", err)
	}
	if err := blobs.Put(ctx, "prod", "db", 1, []byte("two")); !errors.Is(err, ErrBlobExists) {
		t.Errorf("other values: %v", err)
	}
	again, err := OpenBlobs(ctx, js, BlobsBucket, 1) // a second instance binds
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Get(ctx, "prod", "db", 1); err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if err := blobs.Purge(ctx, "prod", "db", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.Get(ctx, "prod", "db", 1); !errors.Is(err, ErrNoBlob) {
		t.Errorf("purged: %v", err)
	}
	if err := blobs.Put(ctx, "prod", "db", 1, []byte("one")); !errors.Is(err, ErrBlobExists) {
		t.Errorf("created again after the purge: %v", err)
	}
	if err := blobs.Purge(ctx, "prod", "db", 99); err != nil {
		t.Errorf("purging what is not there: %v", err)
	}
}

func TestBlobsListByScope(t *testing.T) {
	blobs, _, ctx := openBlobs(t)
	for i, name := range []string{"a", "b"} {
		if err := blobs.Put(ctx, "prod", name, uint64(i+1), []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := blobs.Put(ctx, "test", "c", 3, []byte("c")); err != nil {
		t.Fatal(err)
	}
	if err := blobs.Purge(ctx, "prod", "a", 1); err != nil {
		t.Fatal(err)
	}
	if err := blobs.Probe(ctx, newKeys(t), "prod"); err != nil {
		t.Fatal(err)
	}
	list, err := blobs.List(ctx, "prod")
	if err != nil || len(list) != 1 || list[0].Name != "b" || list[0].Lease != 2 || time.Since(list[0].Created) > time.Minute {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := blobs.List(ctx, "empty"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestProbeRefusesAnotherSealKey(t *testing.T) {
	blobs, _, ctx := openBlobs(t)
	keys := newKeys(t)
	var all sync.WaitGroup
	for range 8 { // all instances of a scope start at once
		all.Go(func() {
			if err := blobs.Probe(ctx, keys, "prod"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := blobs.Probe(ctx, newKeys(t), "prod"); !errors.Is(err, wire.ErrSeal) {
		t.Errorf("another key: %v", err)
	}
	if err := blobs.Probe(ctx, newKeys(t), "test"); err != nil {
		t.Errorf("another scope: %v", err)
	}
}
