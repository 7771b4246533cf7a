package devvault

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// defaultVersions is how many versions of a secret are kept.
const defaultVersions = 10

// kv2 is a KV engine of version 2. Its state is guarded by Server.mu.
type kv2 struct {
	server      *Server
	secrets     map[string]*kv2Secret
	maxVersions int
	casRequired bool
	deleteAfter time.Duration
}

type kv2Secret struct {
	versions         map[int]*kv2Version
	current, oldest  int
	created, updated time.Time
	metadataVersion  int
	maxVersions      int
	casRequired      bool
	deleteAfter      time.Duration
	custom           map[string]string
}

type kv2Version struct {
	data             map[string]any
	created, deleted time.Time // deleted may lie ahead
	destroyed        bool
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (v *kv2Version) fields() map[string]any {
	return map[string]any{"created_time": stamp(v.created), "deletion_time": stamp(v.deleted), "destroyed": v.destroyed}
}

func (sec *kv2Secret) versionFields(n int) map[string]any {
	data := sec.versions[n].fields()
	data["version"] = n
	data["custom_metadata"] = sec.customFields()
	return data
}

func (sec *kv2Secret) customFields() any {
	if sec.custom == nil {
		return nil
	}
	return sec.custom
}

// exists tells whether a write would be an update. The caller holds s.mu.
func (k *kv2) exists(sub string) bool {
	head, path, _ := strings.Cut(sub, "/")
	switch head {
	case "data", "metadata":
		return k.secrets[path] != nil
	}
	return true
}

func (k *kv2) handle(req *request, sub string) (*response, error) {
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	head, path, _ := strings.Cut(sub, "/")
	if head == "config" && path == "" {
		return k.configAPI(req)
	}
	if path == "" && req.op != opList {
		if slices.Contains([]string{"data", "metadata", "subkeys", "delete", "undelete", "destroy"}, head) {
			if req.op == opRead {
				return nil, nil
			}
			return &response{status: http.StatusNotFound, warnings: []string{"Non-listing operations on the root of a K/V v2 mount are not supported."}}, nil
		}
	}
	switch head {
	case "data":
		return k.dataAPI(req, path)
	case "metadata":
		return k.metadataAPI(req, path)
	case "subkeys":
		if req.op != opRead {
			return nil, unsupportedOperation()
		}
		return k.subkeys(req, k.secrets[path])
	case "detailed-metadata":
		if req.op != opList {
			return nil, unsupportedOperation()
		}
		return k.detailedMetadata(path), nil
	case "delete", "undelete", "destroy":
		if !req.op.write() {
			return nil, unsupportedOperation()
		}
		return k.versionsAPI(req, head, path)
	}
	verb := map[operation]string{opCreate: "put", opUpdate: "put", opPatch: "patch", opRead: "get", opList: "list", opDelete: "delete"}[req.op]
	return &response{status: http.StatusNotFound, warnings: []string{
		fmt.Sprintf("Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the OpenBao CLI, use 'bao kv %s' for this operation.", verb),
	}}, nil
}

func (k *kv2) dataAPI(req *request, path string) (*response, error) {
	sec := k.secrets[path]
	switch {
	case req.op == opRead:
		return k.read(req, sec)
	case req.op.write():
		data, ok := req.data["data"].(map[string]any)
		if null, given := req.data["data"]; !ok && (!given || null != nil) {
			return nil, badRequest("no data provided")
		}
		return k.write(req, path, data)
	case req.op == opPatch:
		change, ok := req.data["data"].(map[string]any)
		if !ok {
			return nil, badRequest("no data provided")
		}
		if sec == nil || sec.versions[sec.current] == nil || sec.versions[sec.current].gone(k.server.now()) {
			return &response{status: http.StatusNotFound, raw: &rawBody{}}, nil // not even a body
		}
		return k.write(req, path, merged(sec.versions[sec.current].data, change))
	case req.op == opDelete:
		if sec != nil {
			if v := sec.versions[sec.current]; v != nil && !v.gone(k.server.now()) {
				v.deleted = k.server.now()
			}
		}
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (v *kv2Version) gone(now time.Time) bool {
	return v.destroyed || !v.deleted.IsZero() && !v.deleted.After(now)
}

// merged is a JSON merge patch: null removes a key.
func merged(base, change map[string]any) map[string]any {
	out := maps.Clone(base)
	for key, v := range change {
		switch v := v.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			inner, _ := out[key].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			out[key] = merged(inner, v)
		default:
			out[key] = v
		}
	}
	return out
}

func (k *kv2) read(req *request, sec *kv2Secret) (*response, error) {
	if sec == nil {
		return nil, nil
	}
	f := req.fields()
	n := f.integer("version")
	if f.err != nil {
		return nil, f.err
	}
	if n <= 0 {
		n = sec.current
	}
	v := sec.versions[n]
	if v == nil {
		return nil, nil
	}
	resp := &response{data: map[string]any{"data": nil, "metadata": sec.versionFields(n)}}
	if v.gone(k.server.now()) {
		resp.status = http.StatusNotFound
		return resp, nil
	}
	resp.data["data"] = v.data
	return resp, nil
}

func (k *kv2) write(req *request, path string, data map[string]any) (*response, error) {
	sec := k.secrets[path]
	if sec == nil {
		sec = &kv2Secret{versions: map[int]*kv2Version{}}
	}
	options := request{data: req.fields().objectOrEmpty("options")}
	f := options.fields()
	if options.has("cas") {
		if cas := f.integer("cas"); f.err != nil {
			return nil, badRequest("error parsing check-and-set parameter")
		} else if cas != sec.current {
			return nil, badRequest("check-and-set parameter did not match the current version")
		}
	} else if k.casRequired || sec.casRequired {
		return nil, badRequest("check-and-set parameter required for this call")
	}
	now := k.server.now()
	v := &kv2Version{data: data, created: now}
	after := firstPositive(sec.deleteAfter, k.deleteAfter)
	if sec.deleteAfter > 0 && k.deleteAfter > 0 {
		after = min(sec.deleteAfter, k.deleteAfter)
	}
	if after > 0 {
		v.deleted = now.Add(after)
	}
	k.secrets[path] = sec
	sec.current++
	sec.versions[sec.current], sec.updated = v, now
	if sec.created.IsZero() {
		sec.created = now
	}
	keep := max(sec.maxVersions, k.maxVersions)
	if keep <= 0 {
		keep = defaultVersions
	}
	if sec.current-sec.oldest >= keep {
		for n := sec.oldest; n <= sec.current-keep; n++ {
			delete(sec.versions, n)
		}
		sec.oldest = sec.current - keep + 1
	}
	return &response{data: sec.versionFields(sec.current)}, nil
}

func (f *fields) objectOrEmpty(name string) map[string]any {
	if m := f.object(name); m != nil {
		return m
	}
	return map[string]any{}
}

func (k *kv2) versionsAPI(req *request, verb, path string) (*response, error) {
	f := req.fields()
	numbers := f.integers("versions")
	if f.err != nil {
		return nil, f.err
	}
	if len(numbers) == 0 {
		if verb == "destroy" {
			return nil, badRequest("no version number provided")
		}
		return nil, badRequest("No version number provided")
	}
	sec := k.secrets[path]
	if sec == nil {
		return nil, nil
	}
	now := k.server.now()
	for _, n := range numbers {
		v := sec.versions[n]
		if v == nil {
			continue
		}
		switch verb {
		case "delete":
			if !v.gone(now) {
				v.deleted = now
			}
		case "undelete":
			if !v.destroyed {
				v.deleted = time.Time{}
			}
		case "destroy":
			v.destroyed, v.data = true, nil
		}
	}
	return nil, nil
}

func (k *kv2) configAPI(req *request) (*response, error) {
	switch {
	case req.op == opRead:
		return &response{data: map[string]any{"max_versions": k.maxVersions, "cas_required": k.casRequired, "metadata_cas_required": false, "delete_version_after": k.deleteAfter.String()}}, nil
	case req.op.write():
		f := req.fields()
		keep, cas, after := f.integer("max_versions"), f.boolean("cas_required", k.casRequired), f.seconds("delete_version_after")
		if f.err != nil {
			return nil, f.err
		}
		if req.has("max_versions") {
			k.maxVersions = keep
		}
		if req.has("delete_version_after") {
			k.deleteAfter = after
		}
		k.casRequired = cas
		return nil, nil
	}
	return nil, unsupportedOperation()
}
