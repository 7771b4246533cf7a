package devvault

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// kv1 is a KV engine of version 1. Its map is guarded by Server.mu.
type kv1 struct {
	server  *Server
	mount   *mount
	secrets map[string]map[string]any
}

func (k *kv1) exists(sub string) bool { return k.secrets[sub] != nil }

func (k *kv1) handle(req *request, path string) (*response, error) {
	s := k.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.op == opList:
		return keysOf(children(slices.Collect(maps.Keys(k.secrets)), path)), nil
	case req.op == opRead:
		data := k.secrets[path]
		if data == nil {
			return nil, nil
		}
		return &response{lease: &leaseAnswer{ttl: k.ttl(data, k.mount.defaultTTL(s))}, data: data}, nil
	case req.op.write():
		if path == "" {
			return nil, badRequest("missing path")
		}
		if len(req.data) == 0 {
			return nil, badRequest("missing data fields")
		}
		k.secrets[path] = req.data
		return nil, nil
	case req.op == opDelete:
		delete(k.secrets, path)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

// ttl is the hint that a secret carries in its own data, or the mount's.
func (k *kv1) ttl(data map[string]any, usual time.Duration) time.Duration {
	for _, field := range []string{"ttl", "lease"} {
		v, ok := data[field]
		if !ok {
			continue
		}
		switch v.(type) {
		case string, json.Number:
			if d, err := parseSeconds(v); err == nil {
				return d
			}
		}
		break
	}
	return usual
}
