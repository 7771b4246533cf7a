package epochkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// maxListed bounds how many holder cells one listing reads.
const maxListed = 64

// Holders reads the cells of holders, at most 64 of them, for people who ask who
// is there. Like [Cells.Look] it moves nothing and counts no observation.
func (c *Cells) Holders(ctx context.Context) ([]HolderCell, error) {
	lister, ok := c.store.(interface {
		keys(ctx context.Context, prefix string) ([]string, error)
	})
	if !ok {
		return nil, nil
	}
	keys, err := lister.keys(ctx, holderPrefix)
	if err != nil {
		return nil, fmt.Errorf("listing the holders: %w", err)
	}
	var out []HolderCell
	for _, key := range keys[:min(len(keys), maxListed)] {
		cell, _, err := c.readHolder(ctx, strings.TrimPrefix(key, holderPrefix))
		switch {
		case errors.Is(err, errNotFound):
		case err != nil:
			return nil, fmt.Errorf("listing the holders: %w", err)
		default:
			out = append(out, cell)
		}
	}
	return out, nil
}

// keys lists the keys that begin with a prefix, sorted.
func (s *bucketStore) keys(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st, err := s.js.Stream(ctx, streamName(s.bucket))
	if err == nil {
		var info *jetstream.StreamInfo
		if info, err = st.Info(ctx, jetstream.WithSubjectFilter(s.subject(prefix+">"))); err == nil {
			var out []string
			for subject := range info.State.Subjects {
				out = append(out, strings.TrimPrefix(subject, s.subject("")))
			}
			slices.Sort(out)
			return out, nil
		}
	}
	return nil, s.classify(err, "STREAM.INFO."+streamName(s.bucket))
}
