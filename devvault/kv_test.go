package devvault_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestKV1(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "kv/a/b", map[string]any{"x": 1, "y": "z"})
	out := v.ok("GET", "kv/a/b", nil)
	if number(out["lease_duration"]) != "2764800" || out["lease_id"] != "" || out["renewable"] != false || fmt.Sprint(out["data"]) != "map[x:1 y:z]" {
		t.Fatalf("read: %v", out)
	}
	v.ok("POST", "kv/t", map[string]any{"ttl": "30s"})
	if d := number(v.ok("GET", "kv/t", nil)["lease_duration"]); d != "30" {
		t.Errorf("the hint in the data: %s s", d)
	}
	if k := fmt.Sprint(v.ok("LIST", "kv", nil)["data"].(map[string]any)["keys"]); k != "[a/ t]" {
		t.Errorf("list: %s", k)
	}
	v.refused(v.RootToken(), "POST", "kv/q", nil, 400, "missing data fields")
	v.ok("DELETE", "kv/a/b", nil)
	v.refused(v.RootToken(), "GET", "kv/a/b", nil, 404, "")
	v.refused(v.RootToken(), "LIST", "kv/none", nil, 404, "")
}

func TestKV2(t *testing.T) {
	v := newVault(t)
	write := func(value string, options map[string]any) map[string]any {
		body := map[string]any{"data": map[string]any{"p": value}}
		if options != nil {
			body["options"] = options
		}
		return v.ok("POST", "secret/data/a/x", body)["data"].(map[string]any)
	}
	if d := write("one", map[string]any{"cas": 0}); number(d["version"]) != "1" || d["deletion_time"] != "" || d["destroyed"] != false || d["custom_metadata"] != nil {
		t.Fatalf("write: %v", d)
	}
	write("two", nil)
	v.refused(v.RootToken(), "POST", "secret/data/a/x", map[string]any{"data": map[string]any{}, "options": map[string]any{"cas": 1}}, 400, "check-and-set parameter did not match the current version")
	v.refused(v.RootToken(), "POST", "secret/data/a/x", map[string]any{"p": 1}, 400, "no data provided")

	read := func(query string, wantStatus int) (any, map[string]any) {
		t.Helper()
		status, out := v.call(v.RootToken(), "GET", "secret/data/a/x"+query, nil)
		if status != wantStatus {
			t.Fatalf("read%s: %d, want %d", query, status, wantStatus)
		}
		data, _ := out["data"].(map[string]any)
		meta, _ := data["metadata"].(map[string]any)
		return data["data"], meta
	}
	if d, m := read("", 0); fmt.Sprint(d) != "map[p:two]" || number(m["version"]) != "2" {
		t.Fatalf("current: %v %v", d, m)
	}
	if d, _ := read("?version=1", 0); fmt.Sprint(d) != "map[p:one]" {
		t.Fatalf("version 1: %v", d)
	}
	read("?version=9", 404)
	v.pass(time.Second)
	v.ok("DELETE", "secret/data/a/x", nil)
	if d, m := read("", 404); d != nil || m["deletion_time"] == "" || number(m["version"]) != "2" {
		t.Fatalf("deleted: a 404 that says when: %v %v", d, m)
	}
	v.ok("POST", "secret/undelete/a/x", map[string]any{"versions": []int{2}})
	read("", 0)
	v.ok("POST", "secret/delete/a/x", map[string]any{"versions": []int{1}})
	v.ok("PUT", "secret/destroy/a/x", map[string]any{"versions": []int{1}})
	v.ok("POST", "secret/undelete/a/x", map[string]any{"versions": []int{1}})
	if _, m := read("?version=1", 404); m["destroyed"] != true {
		t.Fatalf("destroyed: %v", m)
	}
	v.ok("PATCH", "secret/data/a/x", map[string]any{"data": map[string]any{"q": 1}})
	if d, m := read("", 0); fmt.Sprint(d) != "map[p:two q:1]" || number(m["version"]) != "3" {
		t.Fatalf("patched: %v %v", d, m)
	}
	v.ok("POST", "secret/metadata/a/x", map[string]any{"max_versions": 2, "custom_metadata": map[string]any{"o": "p"}, "delete_version_after": "1h"})
	write("four", nil)
	meta := v.ok("GET", "secret/metadata/a/x", nil)["data"].(map[string]any)
	if number(meta["current_version"]) != "4" || number(meta["oldest_version"]) != "3" || len(meta["versions"].(map[string]any)) != 2 || meta["delete_version_after"] != "1h0m0s" {
		t.Fatalf("metadata: %v", meta)
	}
	v.pass(time.Hour)
	read("", 404)
	if k := fmt.Sprint(v.ok("LIST", "secret/metadata", nil)["data"].(map[string]any)["keys"]); k != "[a/]" {
		t.Errorf("list: %s", k)
	}
	v.ok("DELETE", "secret/metadata/a/x", nil)
	read("", 404)
	if status, out := v.call(v.RootToken(), "GET", "secret/a/x", nil); status != 404 || out["warnings"] == nil {
		t.Errorf("a path of version 1: %d %v", status, out)
	}
}

func TestKV2Subkeys(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "secret/data/a", map[string]any{"data": map[string]any{"x": 1, "n": map[string]any{"deep": map[string]any{"er": true}}}})
	get := func(query string) string {
		return fmt.Sprint(v.ok("GET", "secret/subkeys/a"+query, nil)["data"].(map[string]any)["subkeys"])
	}
	if got := get(""); got != "map[n:map[deep:map[er:<nil>]] x:<nil>]" {
		t.Errorf("all: %s", got)
	}
	if got := get("?depth=1"); got != "map[n:<nil> x:<nil>]" {
		t.Errorf("depth 1: %s", got)
	}
	v.ok("DELETE", "secret/data/a", nil)
	status, out := v.call(v.RootToken(), "GET", "secret/subkeys/a", nil)
	if data := out["data"].(map[string]any); status != 404 || data["subkeys"] != nil || data["metadata"].(map[string]any)["deletion_time"] == "" {
		t.Errorf("of a deleted version: %d %v", status, data)
	}
}

func TestKV2MetadataIsMerged(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "secret/metadata/dir/a", map[string]any{"custom_metadata": map[string]any{"o": "me", "k": 5}, "max_versions": 3})
	v.ok("PATCH", "secret/metadata/dir/a", map[string]any{"custom_metadata": map[string]any{"p": "q", "o": nil}})
	listed := v.ok("LIST", "secret/detailed-metadata/dir", nil)["data"].(map[string]any)
	info := listed["key_info"].(map[string]any)["a"].(map[string]any)
	if fmt.Sprint(info["custom_metadata"]) != "map[k:5 p:q]" || number(info["max_versions"]) != "3" {
		t.Errorf("after a patch: %v", info)
	}
	v.ok("POST", "secret/metadata/dir/a", map[string]any{"custom_metadata": map[string]any{"only": "x"}})
	if d := v.ok("GET", "secret/metadata/dir/a", nil)["data"].(map[string]any); fmt.Sprint(d["custom_metadata"]) != "map[only:x]" {
		t.Errorf("after a write: %v", d["custom_metadata"])
	}
}

// C-cases of readers: a version that is deleted, destroyed, or was never.
func TestKV2VersionsThatAreNotThere(t *testing.T) {
	v := newVault(t)
	for n := range 3 {
		v.ok("POST", "secret/data/a", map[string]any{"data": map[string]any{"x": n}})
	}
	v.ok("POST", "secret/delete/a", map[string]any{"versions": 1})
	v.ok("PUT", "secret/destroy/a", map[string]any{"versions": []int{2}})
	for query, want := range map[string]string{"?version=1": "404 false", "?version=2": "404 true", "?version=9": "404 none", "": "0 false"} {
		status, out := v.call(v.RootToken(), "GET", "secret/data/a"+query, nil)
		destroyed := any("none")
		if data, ok := out["data"].(map[string]any); ok {
			destroyed = data["metadata"].(map[string]any)["destroyed"]
		}
		if got := fmt.Sprint(status, " ", destroyed); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	resp, body, err := raw(t, v, "PATCH", "secret/data/none", v.RootToken().Reveal(), `{"data":{"y":5}}`, "Content-Type", "application/merge-patch+json")
	if err != nil || resp.StatusCode != http.StatusNotFound || body != "" {
		t.Errorf("a patch of nothing: %v %q %v, want 404 without a body", resp, body, err)
	}
}
