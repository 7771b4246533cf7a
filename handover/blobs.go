package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// BlobsBucket is the usual bucket of sealed values.
const BlobsBucket = "leasesvc_sealed"

// What can be wrong with a blob, for errors.Is.
var (
	// ErrNoBlob: nothing is stored (any more) for the lease.
	ErrNoBlob = errors.New("no sealed values are stored")
	// ErrBlobExists: something else is stored, or was until shortly ago.
	ErrBlobExists = errors.New("other sealed values are stored already")
)

// purgeMarkerTTL is how long the bucket remembers that a blob was purged. It
// only has to outlive requests that are under way.
const purgeMarkerTTL = time.Hour

// Blobs stores sealed values in a KV bucket, under the lease's number: each is
// created once, read, and purged. (What was purged can linger in the store's
// files; what it opens is revoked by then.) It stores what it is given:
// sealing is [Keys.SealAtRest]'s.
type Blobs struct {
	kv jetstream.KeyValue
	// markersEnd tells whether the bucket lets a purge marker expire.
	markersEnd bool
}

// OpenBlobs opens the bucket, and creates it with that many replicas when it
// is not there. An existing bucket whose settings would lose values gives a
// [*BucketError].
func OpenBlobs(ctx context.Context, js jetstream.JetStream, bucket string, replicas int) (*Blobs, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateStream(ctx, BlobsStream(bucket, replicas))
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			kv, err = js.KeyValue(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s of sealed values: %w", bucket, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s of sealed values: %w", bucket, err)
	}
	if st, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		if diff := bucketDiff(st.StreamInfo().Config, replicas); len(diff) > 0 {
			return nil, &BucketError{Bucket: bucket, Differences: diff}
		}
	}
	return &Blobs{kv: kv, markersEnd: status.LimitMarkerTTL() > 0}, nil
}

// BucketError names each setting of the bucket of sealed values that must be
// another.
type BucketError struct {
	Bucket      string
	Differences []string // "max_age is 1h0m0s, want 0s"
}

// Error implements error.
func (e *BucketError) Error() string {
	return fmt.Sprintf("bucket %s of sealed values must not be used as it is: %s; edit its stream KV_%s, or let `leasesvc nats-setup --print` show how",
		e.Bucket, strings.Join(e.Differences, "; "), e.Bucket)
}

// bucketDiff names the settings by which values would go, or change.
func bucketDiff(got jetstream.StreamConfig, replicas int) (diff []string) {
	want := func(name string, got, want any) {
		if got != want {
			diff = append(diff, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	want("storage", got.Storage, jetstream.FileStorage)
	want("retention", got.Retention, jetstream.LimitsPolicy)
	want("discard", got.Discard, jetstream.DiscardNew)
	want("max_age", got.MaxAge, time.Duration(0))
	want("max_msgs", max(got.MaxMsgs, -1), int64(-1))
	want("mirror", got.Mirror != nil, false)
	want("sources", len(got.Sources), 0)
	if replicas > 0 {
		want("num_replicas", got.Replicas, replicas)
	}
	return diff
}

// BlobsStream gives the configuration of the stream behind the bucket, as
// [OpenBlobs] creates it. A bucket made as such allows direct get, whose answer a
// follower may give that has not seen the blob yet; this one doesn't.
func BlobsStream(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   "KV_" + bucket,
		Description:            "leasesvc: sealed values, by scope, name and lease",
		Subjects:               []string{"$KV." + bucket + ".>"},
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		DenyDelete:             true,
		AllowRollup:            true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: purgeMarkerTTL,
	}
}

func blobKey(scope, name string, lease uint64) string {
	return scope + "." + name + "." + strconv.FormatUint(lease, 10)
}

// Put stores sealed values. It may be called again with the same bytes when an
// answer was lost; other bytes for the same lease are refused with
// [ErrBlobExists].
func (b *Blobs) Put(ctx context.Context, scope, name string, lease uint64, sealed []byte) error {
	return b.create(ctx, blobKey(scope, name, lease), sealed)
}

func (b *Blobs) create(ctx context.Context, key string, sealed []byte) error {
	// Not Create: it would write over a purged key.
	_, err := b.kv.Update(ctx, key, sealed, 0)
	if err == nil {
		return nil
	}
	stored, readErr := b.kv.Get(ctx, key)
	switch {
	case readErr == nil && bytes.Equal(stored.Value(), sealed):
		return nil // an earlier attempt whose answer was lost
	case readErr == nil, errors.Is(readErr, jetstream.ErrKeyNotFound) && refusedForGood(err):
		return fmt.Errorf("storing sealed values as %s: %w", key, ErrBlobExists)
	}
	return fmt.Errorf("storing sealed values as %s: %w", key, err)
}

// refusedForGood tells a key that has been written from one that is just being
// written (10164, on a replicated bucket), maybe by an earlier attempt of ours.
func refusedForGood(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// Get reads sealed values; [ErrNoBlob] when there are none.
func (b *Blobs) Get(ctx context.Context, scope, name string, lease uint64) ([]byte, error) {
	return b.get(ctx, blobKey(scope, name, lease))
}

func (b *Blobs) get(ctx context.Context, key string) ([]byte, error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("reading %s: %w", key, ErrNoBlob)
	}
	if err != nil {
		return nil, fmt.Errorf("reading sealed values %s: %w", key, err)
	}
	return entry.Value(), nil
}

// Purge removes sealed values, for good. It is no error when there are none.
func (b *Blobs) Purge(ctx context.Context, scope, name string, lease uint64) error {
	key := blobKey(scope, name, lease)
	var opts []jetstream.KVDeleteOpt
	if b.markersEnd {
		opts = append(opts, jetstream.PurgeTTL(purgeMarkerTTL))
	}
	if err := b.kv.Purge(ctx, key, opts...); err != nil {
		return fmt.Errorf("purging sealed values %s: %w", key, err)
	}
	return nil
}

// Blob is one entry of [Blobs.List].
type Blob struct {
	Name    string
	Lease   uint64
	Created time.Time
}

// List gives what is stored for a scope, without the values, so that what no
// event names can be swept.
func (b *Blobs) List(ctx context.Context, scope string) ([]Blob, error) {
	watch, err := b.kv.Watch(ctx, scope+".*.*", jetstream.IgnoreDeletes(), jetstream.MetaOnly())
	if err != nil {
		return nil, fmt.Errorf("listing the sealed values of %s: %w", scope, err)
	}
	defer func() { _ = watch.Stop() }()
	var out []Blob
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("listing the sealed values of %s: %w", scope, ctx.Err())
		case entry := <-watch.Updates():
			if entry == nil {
				return out, nil
			}
			part := strings.Split(entry.Key(), ".")
			lease, err := strconv.ParseUint(part[2], 10, 64)
			if err != nil {
				continue // not ours
			}
			out = append(out, Blob{Name: part[1], Lease: lease, Created: entry.Created()})
		}
	}
}

// probe is what a scope's probe blob is sealed for; an underscore cannot begin
// a name.
const probe = "_probe"

// Reprobe puts a probe blob under these keys in the place of the one that is
// there: the scope's seal key was lost, and an operator decided to go on. What was
// sealed under the lost one stays closed for good.
func (b *Blobs) Reprobe(ctx context.Context, keys opener, scope string) error {
	sealed, err := keys.SealAtRest(scope, probe, 0, []byte(`{}`))
	if err != nil {
		return err
	}
	if _, err := b.kv.Put(ctx, scope+"."+probe, sealed); err != nil {
		return fmt.Errorf("storing the probe of scope %s: %w", scope, err)
	}
	return nil
}

// Probed tells whether a scope's probe blob is there.
func (b *Blobs) Probed(ctx context.Context, scope string) (bool, error) {
	_, err := b.get(ctx, scope+"."+probe)
	if errors.Is(err, ErrNoBlob) {
		return false, nil
	}
	return err == nil, err
}

// Probe makes sure that the keys are those of the scope: it opens the scope's
// probe blob, which the first to come creates. [wire.ErrSeal] means that the
// scope's values are sealed under another key: do not claim it.
func (b *Blobs) Probe(ctx context.Context, keys opener, scope string) error {
	key := scope + "." + probe
	sealed, err := keys.SealAtRest(scope, probe, 0, []byte(`{}`))
	if err != nil {
		return err
	}
	err = b.create(ctx, key, sealed)
	if err == nil || !errors.Is(err, ErrBlobExists) {
		return err
	}
	stored, err := b.get(ctx, key)
	if err != nil {
		return err
	}
	if _, err := keys.OpenAtRest(scope, probe, 0, stored); err != nil {
		if errors.Is(err, wire.ErrSeal) {
			return fmt.Errorf("scope %s is sealed under another key than %s; give this instance the scope's seal key (seal_key.previous takes further ones): %w", scope, keys, err)
		}
		return err
	}
	return nil
}
