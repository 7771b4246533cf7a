package epochkv

import (
	"context"
	"encoding/json"
	"fmt"
)

// neighbourKeys are the exact keys under which other products that elect a
// leader on a KV bucket write by default.
var neighbourKeys = []string{"epoch", "leader", "election", "lock", "lease"}

// Neighbours reports other products that write into our bucket (E16): the keys
// they use by default, and our own keys (of the scopes named) with values that
// are not ours. It detects and enforces nothing; reads that fail are left out.
// Call it once at start; a mirror whose publisher does need not.
func (c *Cells) Neighbours(ctx context.Context, scopes ...string) []string {
	var found []string
	for _, key := range neighbourKeys {
		if e, err := c.store.get(ctx, key); err == nil && e.data != nil {
			found = append(found, fmt.Sprintf(
				"key %s of bucket %s is not of leasesvc: another product elects its leaders in this bucket; give each a bucket of its own",
				key, c.cfg.Bucket))
		}
	}
	for _, key := range c.ownKeys(scopes) {
		e, err := c.store.get(ctx, key)
		if err != nil || e.data == nil {
			continue
		}
		var value json.RawMessage
		if decodeCell(key, e.data, &value) != nil {
			found = append(found, fmt.Sprintf(
				"key %s of bucket %s holds a value leasesvc did not write: another product writes under the same names",
				key, c.cfg.Bucket))
		}
	}
	return found
}

func (c *Cells) ownKeys(scopes []string) []string {
	keys := []string{probeKey}
	for _, s := range scopes {
		keys = append(keys, scopePrefix+s)
	}
	return keys
}
