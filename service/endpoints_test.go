package service_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

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
