package devvault_test

import (
	"fmt"
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
