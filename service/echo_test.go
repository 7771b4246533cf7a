package service_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
)

// TestE13_TheEchoSaysWhatTheHolderDoes, and nothing of a credential.
func TestE13_TheEchoSaysWhatTheHolderDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	last := r.events(events.TypeInstalled)[0]
	js, err := jetstream.New(r.nats.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(aBit(t), epochkv.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil {
		t.Fatal(err)
	}
	r.await("the echo to tell of the last event", func() bool {
		e, err := kv.Get(aBit(t), "holder."+st.Holder)
		if err != nil {
			t.Fatal(err)
		}
		var cell struct {
			Echo struct {
				Version       string
				Protocol      int
				StreamCreated string `json:"stream_created"`
				Leads         int
				Scopes        map[string]struct {
					Epoch   uint64
					LastSeq uint64 `json:"last_seq"`
					Names   int
				}
			} `json:"echo"`
		}
		if err := json.Unmarshal(e.Value(), &cell); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Value()), "v-token-le-app") {
			t.Fatalf("the echo tells of an account: %s", e.Value())
		}
		s := cell.Echo.Scopes["prod"]
		return cell.Echo.Version == "1.2.3" && cell.Echo.Protocol == 1 && cell.Echo.StreamCreated != "" && cell.Echo.Leads == 1 &&
			s.Epoch == last.Epoch && s.LastSeq >= last.Seq && s.Names == 1
	})
}
