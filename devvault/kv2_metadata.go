package devvault

import (
	"maps"
	"slices"
	"strconv"
)

// subkeys answers the keys of a secret without its values, down to a depth.
func (k *kv2) subkeys(req *request, sec *kv2Secret) (*response, error) {
	f := req.fields()
	depth := f.integer("depth")
	if f.err != nil {
		return nil, f.err
	}
	resp, err := k.read(req, sec)
	if resp == nil || err != nil {
		return nil, err
	}
	data, _ := resp.data["data"].(map[string]any)
	resp.data["subkeys"] = nil
	if data != nil {
		resp.data["subkeys"] = keysOnly(data, depth)
	}
	delete(resp.data, "data")
	return resp, nil
}

// keysOnly takes the values out of data; depth 0 has no limit.
func keysOnly(data map[string]any, depth int) map[string]any {
	out := map[string]any{}
	for key, v := range data {
		out[key] = nil
		if inner, ok := v.(map[string]any); ok && depth != 1 {
			out[key] = keysOnly(inner, max(depth-1, 0))
		}
	}
	return out
}

func (k *kv2) detailedMetadata(path string) *response {
	resp := keysOf(children(slices.Collect(maps.Keys(k.secrets)), path))
	info := map[string]any{}
	for _, key := range resp.data["keys"].([]string) {
		if sec := k.secrets[path+key]; sec != nil {
			info[key] = sec.metadata()
		}
	}
	resp.data["key_info"] = info
	return resp
}

func (k *kv2) metadataAPI(req *request, path string) (*response, error) {
	sec := k.secrets[path]
	switch {
	case req.op == opList:
		return keysOf(children(slices.Collect(maps.Keys(k.secrets)), path)), nil
	case req.op == opRead:
		if sec == nil {
			return nil, nil
		}
		return &response{data: sec.metadata()}, nil
	case req.op.write() || req.op == opPatch:
		return k.writeMetadata(req, path)
	case req.op == opDelete:
		delete(k.secrets, path)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (sec *kv2Secret) metadata() map[string]any {
	versions := map[string]any{}
	for n, v := range sec.versions {
		versions[strconv.Itoa(n)] = v.fields()
	}
	return map[string]any{
		"versions": versions, "current_version": sec.current, "oldest_version": sec.oldest, "current_metadata_version": sec.metadataVersion,
		"created_time": stamp(sec.created), "updated_time": stamp(sec.updated), "max_versions": sec.maxVersions,
		"cas_required": sec.casRequired, "metadata_cas_required": false, "delete_version_after": sec.deleteAfter.String(),
		"custom_metadata": sec.customFields(),
	}
}

func (k *kv2) writeMetadata(req *request, path string) (*response, error) {
	f := req.fields()
	now := k.server.now()
	next := kv2Secret{versions: map[int]*kv2Version{}, created: now}
	if sec := k.secrets[path]; sec != nil {
		next = *sec
	}
	next.metadataVersion++
	next.updated = now
	if req.has("max_versions") {
		next.maxVersions = f.integer("max_versions")
	}
	next.casRequired = f.boolean("cas_required", next.casRequired)
	if req.has("delete_version_after") {
		next.deleteAfter = f.seconds("delete_version_after")
	}
	if req.has("custom_metadata") {
		before := next.custom
		given := maps.Clone(f.object("custom_metadata"))
		gone := []string{}
		for key, v := range given {
			if v == nil {
				delete(given, key)
				gone = append(gone, key)
			}
		}
		next.custom = (&request{data: map[string]any{"custom_metadata": given}}).fields().textMap("custom_metadata")
		if req.op == opPatch { // a merge: what is not named stays, null removes
			merged := maps.Clone(before)
			if merged == nil {
				merged = map[string]string{}
			}
			maps.Copy(merged, next.custom)
			for _, key := range gone {
				delete(merged, key)
			}
			next.custom = merged
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	k.secrets[path] = &next
	return nil, nil
}
