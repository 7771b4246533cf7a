package epochkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const recoveryPrefix = "recovered."

// Recovery says that an operator was told what a scope's log lost, and decided
// to go on with what there is. It is in force for that stream, and for what was
// lost up to that epoch: what is lost later is another loss.
type Recovery struct {
	Scope string `json:"scope"`
	// StreamCreated is the creation time of the stream that is gone on with.
	StreamCreated time.Time `json:"stream_created"`
	// Epoch is the highest that was known of when it was decided.
	Epoch uint64 `json:"epoch"`
	// Anew: what the log still knows is issued anew.
	Anew bool `json:"anew,omitempty"`
	// Trusted is up to where the log counts without its MACs, since the seal key
	// that it was written under is lost; 0: nothing does. It stays in force for the
	// stream, and takes Proof: who decided so has the key that is in force now.
	Trusted uint64 `json:"trusted,omitempty"`
	Proof   string `json:"proof,omitempty"`
	// Found is what was said to be lost.
	Found []string `json:"found"`
	// Lost are the leases that are known of and that the log does not have, as
	// NAME/NUMBER with the lease id behind where that is known.
	Lost []string  `json:"lost,omitempty"`
	At   time.Time `json:"at"`
}

// Covers tells whether the decision was about a loss: of that stream, where no
// later epoch than that is known of.
func (r *Recovery) Covers(streamCreated time.Time, epoch uint64) bool {
	return r != nil && r.StreamCreated.Equal(streamCreated) && epoch <= r.Epoch
}

// Recovery reads what was decided about a scope; nil: nothing was.
func (c *Cells) Recovery(ctx context.Context, scope string) (*Recovery, error) {
	e, err := c.get(ctx, recoveryPrefix+scope)
	if errors.Is(err, errNotFound) || err == nil && e.data == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was decided about scope %s: %w", scope, err)
	}
	var r Recovery
	if err := json.Unmarshal(e.data, &r); err != nil || r.Scope != scope {
		return nil, fmt.Errorf("reading what was decided about scope %s: key %s: %w", scope, recoveryPrefix+scope, ErrForeignCell)
	}
	return &r, nil
}

// Decide records a recovery, in the place of the one before. It is for
// `leasesvc recover`.
func Decide(ctx context.Context, js jetstream.JetStream, bucket string, r Recovery) error {
	if err := checkScope(r.Scope); err != nil {
		return err
	}
	_, err := js.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + bucket + "." + recoveryPrefix + r.Scope, Data: encodeCell(r)}, jetstream.WithExpectStream(streamName(bucket)))
	if err != nil {
		return fmt.Errorf("recording the decision about scope %s: %w", r.Scope, err)
	}
	return nil
}

// LookFrom is [Cells.Look] for who is no instance: an operator. It gives
// ErrNoBucket where there is none, and the bucket's last revision beside.
func LookFrom(ctx context.Context, js jetstream.JetStream, bucket, scope string) (View, uint64, error) {
	stream, err := js.Stream(ctx, streamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return View{Scope: scope}, 0, fmt.Errorf("stream %s: %w", streamName(bucket), ErrNoBucket)
	}
	if err != nil {
		return View{Scope: scope}, 0, fmt.Errorf("binding stream %s: %w", streamName(bucket), err)
	}
	v, err := outsider(js, bucket, stream).Look(ctx, scope)
	return v, stream.CachedInfo().State.LastSeq, err
}

// DecisionOf is [Cells.Recovery] for who is no instance.
func DecisionOf(ctx context.Context, js jetstream.JetStream, bucket, scope string) (*Recovery, error) {
	stream, err := js.Stream(ctx, streamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("binding stream %s: %w", streamName(bucket), err)
	}
	return outsider(js, bucket, stream).Recovery(ctx, scope)
}

// outsider reads cells without being an instance.
func outsider(js jetstream.JetStream, bucket string, stream jetstream.Stream) *Cells {
	return &Cells{
		cfg: Config{Bucket: bucket, now: time.Now, Logger: slog.New(slog.DiscardHandler)}, js: js,
		store: &bucketStore{js: js, bucket: bucket, stream: stream, timeout: DefaultRequestTimeout},
	}
}
