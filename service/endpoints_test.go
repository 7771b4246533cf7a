package service_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasesvc/leasesvc/service/api"
)

// A member of a queue group behind a NATS server that hangs is sent its share of
// the requests until the other servers notice, which took 14 s.
func TestEndpoints_AreInNoQueueGroup(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, "  {}\n")
	r.run("state")
	var msg *nats.Msg
	nc := r.nats.Conn(t)
	r.await("the endpoints to be served", func() (ok bool) {
		var err error
		msg, err = nc.Request("$SRV.INFO."+api.ServiceName, nil, time.Second)
		return err == nil
	})
	var info micro.Info
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		t.Fatal(err)
	}
	if len(info.Endpoints) == 0 {
		t.Fatal("no endpoints")
	}
	for _, e := range info.Endpoints {
		if e.QueueGroup != "" {
			t.Errorf("%s is in queue group %q", e.Subject, e.QueueGroup)
		}
	}
}

// micros asks the micro service's instances and gives the only answer.
func micros[T any](r *rig, verb string) (out T) {
	r.t.Helper()
	nc := r.nats.Conn(r.t)
	r.await("the answer to "+verb, func() bool {
		m, err := nc.Request("$SRV."+verb+"."+api.ServiceName, nil, time.Second)
		return err == nil && json.Unmarshal(m.Data, &out) == nil
	})
	return out
}

// TestEndpoints_AreListedWithTheirSchemas: what `nats service ls, info and stats`
// show has every operation, with its subject and schemas, and real answers are
// what the schemas say.
func TestEndpoints_AreListedWithTheirSchemas(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	r.run("state")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	ping := micros[micro.Ping](r, "PING")
	if ping.Name != api.ServiceName || ping.Version != "1.2.3" || ping.Metadata[api.MetadataScope] != "prod" || ping.Metadata["holder"] == "" {
		t.Errorf("%+v", ping)
	}
	info := micros[micro.Info](r, "INFO")
	listed := map[string]micro.EndpointInfo{}
	for _, e := range info.Endpoints {
		listed[e.Name] = e
	}
	for _, op := range []string{
		"status", "leases", "apply", "rotate", "revoke", "reissue", "step-down", "finalize", "shutdown", "adopt", "register", "leave", "refused",
		"document", "document-put", "document-show", "document-list",
	} {
		e, there := listed[op]
		if !there || !strings.HasPrefix(e.Subject, "leasesvc."+op+".prod") {
			t.Errorf("%s is listed as %+v", op, e)
			continue
		}
		delete(listed, op)
		compiles(t, op, e.Metadata)
	}
	for op := range listed {
		t.Errorf("%s is listed, and this test knows nothing of it", op)
	}
	for _, op := range []string{"get", "key"} { // of every instance, so no endpoints of the holder's
		var read map[string]string
		if err := json.Unmarshal([]byte(info.Metadata["endpoint_"+op]), &read); err != nil || !strings.HasPrefix(read["subject"], "leasesvc."+op+".prod") {
			t.Errorf("%s is described as %v, %v", op, read, err)
			continue
		}
		compiles(t, op, read)
	}
	// Real answers.
	nc := r.nats.Conn(t)
	endpoints := map[string]map[string]string{}
	for _, e := range info.Endpoints {
		endpoints[e.Name] = e.Metadata
	}
	for subject, which := range map[string]string{
		"leasesvc.status.prod": "response_schema", "leasesvc.leases.prod": "response_schema", "leasesvc.document-list.prod": "response_schema",
		"leasesvc.rotate.prod.app": "response_schema", "leasesvc.rotate.prod.nobody": "error_schema", "leasesvc.register.prod.app": "error_schema",
	} {
		m, err := nc.Request(subject, nil, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Data))
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		if err := schema(t, subject, endpoints[strings.Split(subject, ".")[1]][which]).Validate(answer); err != nil {
			t.Errorf("the answer to %s is not what its %s says: %v\n%s", subject, which, err, m.Data)
		}
	}
	r.await("the statistics", func() bool {
		for _, e := range micros[micro.Stats](r, "STATS").Endpoints {
			var of struct {
				Answered, Refused int64
				Took              float64 `json:"took_s"`
			}
			if e.Name == "rotate" && json.Unmarshal(e.Data, &of) == nil {
				return e.NumRequests >= 2 && of.Answered >= 2 && of.Refused >= 1 && of.Took > 0
			}
		}
		return false
	})
}

func schema(t *testing.T, name, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("the schema of %s: %v: %q", name, err, text)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:"+name, doc); err != nil {
		t.Fatalf("the schema of %s: %v", name, err)
	}
	s, err := c.Compile("mem:" + name)
	if err != nil {
		t.Fatalf("the schema of %s: %v", name, err)
	}
	return s
}

// compiles holds the metadata of an endpoint to what it must have.
func compiles(t *testing.T, op string, metadata map[string]string) {
	t.Helper()
	if metadata["description"] == "" {
		t.Errorf("%s has no description", op)
	}
	for _, which := range []string{"request_schema", "response_schema", "error_schema"} {
		schema(t, op+"-"+which, metadata[which])
	}
}
