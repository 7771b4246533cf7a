package epochkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// maxListed bounds how many holder cells one listing for people reads, maxHolders
// one that must have all of them.
const (
	maxListed  = 64
	maxHolders = 1024
)

// ErrManyHolders says that there are more holder cells than are read.
var ErrManyHolders = fmt.Errorf("there are more than %d holder cells; remove those of instances that are gone for good", maxHolders)

// Holders reads the cells of holders, at most 64 of them, for people who ask who
// is there. Like [Cells.Look] it moves nothing and counts no observation.
func (c *Cells) Holders(ctx context.Context) ([]HolderCell, error) {
	keys, err := c.holderKeys(ctx)
	if err != nil {
		return nil, err
	}
	return c.readHolders(ctx, keys[:min(len(keys), maxListed)])
}

// AllHolders reads every holder's cell, for what none may be left out of.
// [ErrManyHolders]: there are too many.
func (c *Cells) AllHolders(ctx context.Context) ([]HolderCell, error) {
	keys, err := c.holderKeys(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) > maxHolders {
		return nil, fmt.Errorf("listing the holders: %w", ErrManyHolders)
	}
	return c.readHolders(ctx, keys)
}

func (c *Cells) holderKeys(ctx context.Context) ([]string, error) {
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
	return keys, nil
}

func (c *Cells) readHolders(ctx context.Context, keys []string) ([]HolderCell, error) {
	var out []HolderCell
	for _, key := range keys {
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
