package epochkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamConfig is how the stream behind the bucket must be: for Open, for
// `leasesvc nats-setup --print`, and for `leasesvc recover` (FirstSeq).
func StreamConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              streamName(bucket),
		Description:       "leasesvc: who leads which scope (holder cells and scope cells)",
		Subjects:          []string{"$KV." + bucket + ".>"},
		Storage:           jetstream.FileStorage,
		Replicas:          max(replicas, 1),
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowDirect:       false, // a follower may not answer a read that decides
	}
}

// bind returns the bucket's stream, created first when it is absent and may
// be. It never updates one: create-or-update turns direct get on again.
func bind(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	name := streamName(cfg.Bucket)
	st, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !cfg.Create {
			return nil, fmt.Errorf("stream %s: %w: `leasesvc nats-setup --print` shows how to create it", name, ErrNoBucket)
		}
		sc := StreamConfig(cfg.Bucket, cfg.Replicas)
		sc.FirstSeq = cfg.FirstRevision
		st, err = create(ctx, js, sc)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster, with another configuration
			st, err = js.Stream(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("binding stream %s: %w", name, err)
	}
	if diff := settingsDiff(st.CachedInfo().Config, cfg); len(diff) > 0 {
		return nil, &WrongSettings{Stream: name, Diff: diff}
	}
	return st, nil
}

// Creating is repeated this often, at this pace, when the server can't now.
const (
	createTries = 50
	createPace  = 200 * time.Millisecond
)

// codeNoPeers: the cluster has not enough servers for the replicas, or not yet.
const codeNoPeers jetstream.ErrorCode = 10005

// create is CreateStream, repeated while the server says that it is its fault:
// just after a stream of that name was deleted, its files may still be in the
// way (code 10049), and a cluster that is still forming finds no servers for it.
func create(ctx context.Context, js jetstream.JetStream, sc jetstream.StreamConfig) (jetstream.Stream, error) {
	for try := 1; ; try++ {
		st, err := js.CreateStream(ctx, sc)
		var api *jetstream.APIError
		noPeers := errors.As(err, &api) && api.ErrorCode == codeNoPeers
		switch {
		case err == nil:
			return st, nil
		case noPeers && try == createTries:
			return nil, fmt.Errorf("with %d replicas: fewer servers than that have JetStream and are up: %w", sc.Replicas, err)
		case try == createTries, api == nil, api.Code < 500 && !noPeers:
			return nil, err
		}
		if werr := wait(ctx, createPace); werr != nil {
			return nil, errors.Join(werr, err)
		}
	}
}

// settingsDiff names each setting that decides and is not as it must be.
func settingsDiff(got jetstream.StreamConfig, cfg Config) []string {
	var diff []string
	want := func(name string, got, want any) {
		if got != want {
			diff = append(diff, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	want("subjects", fmt.Sprint(got.Subjects), fmt.Sprint([]string{"$KV." + cfg.Bucket + ".>"}))
	want("storage", got.Storage, jetstream.FileStorage)
	want("retention", got.Retention, jetstream.LimitsPolicy)
	want("max_msgs_per_subject", got.MaxMsgsPerSubject, int64(1))
	want("max_msgs", got.MaxMsgs, int64(-1))
	want("max_age", got.MaxAge, time.Duration(0))
	want("discard", got.Discard, jetstream.DiscardNew)
	want("allow_direct", got.AllowDirect, false)
	want("allow_msg_ttl", got.AllowMsgTTL, false)
	want("allow_msg_schedules", got.AllowMsgSchedules, false)
	want("allow_msg_counter", got.AllowMsgCounter, false)
	want("no_ack", got.NoAck, false)
	want("sealed", got.Sealed, false)
	want("mirror", got.Mirror != nil, false)
	want("sources", len(got.Sources), 0)
	want("subject_transform", got.SubjectTransform != nil, false)
	want("persist_mode async", got.PersistMode == jetstream.AsyncPersistMode, false)
	if cfg.Replicas > 0 {
		want("num_replicas", got.Replicas, cfg.Replicas)
	}
	return diff
}

// Recreate deletes the bucket and creates it again with its first revision
// above epoch, the greatest one in the log (E7). All instances must be
// stopped: it is for `leasesvc recover`.
func Recreate(ctx context.Context, js jetstream.JetStream, bucket string, replicas int, epoch uint64) error {
	name := streamName(bucket)
	if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("deleting stream %s to recreate it: %w", name, err)
	}
	sc := StreamConfig(bucket, replicas)
	sc.FirstSeq = epoch + 1
	if _, err := create(ctx, js, sc); err != nil {
		return fmt.Errorf("creating stream %s above epoch %d: %w", name, epoch, err)
	}
	return nil
}
