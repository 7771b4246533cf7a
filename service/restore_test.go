package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service"
)

// backup is what `nats stream backup` keeps: the stream's configuration and state,
// and the server's own copy of it.
type backup struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// jsAPI asks the server something as the nats command does.
func (r *rig) jsAPI(nc *nats.Conn, subject string, ask, answer any) {
	r.t.Helper()
	body, err := json.Marshal(ask)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := nc.Request("$JS.API.STREAM."+subject, body, 10*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	var failed struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil || failed.Error != nil {
		r.t.Fatalf("%s: %s", subject, m.Data)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		r.t.Fatal(err)
	}
}

// backUp backs a stream up.
func (r *rig) backUp(stream string) *backup {
	r.t.Helper()
	nc := r.nats.Conn(r.t)
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	b := &backup{}
	r.jsAPI(nc, "SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox, "no_consumers": true}, b)
	for {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			r.t.Fatal(err)
		}
		if m.Reply != "" {
			_ = m.Respond(nil)
		}
		if len(m.Data) == 0 {
			return b
		}
		b.chunks = append(b.chunks, m.Data)
	}
}

// restore puts a stream back that is not there.
func (r *rig) restore(stream string, b *backup) {
	r.t.Helper()
	nc := r.nats.Conn(r.t)
	var to struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	r.jsAPI(nc, "RESTORE."+stream, map[string]any{"config": b.Config, "state": b.State}, &to)
	for _, chunk := range append(b.chunks, nil) {
		m, err := nc.Request(to.DeliverSubject, chunk, 10*time.Second)
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"error"`) {
			r.t.Fatalf("restoring %s: %s", stream, m.Data)
		}
	}
}

// theStreams are those that docs/operations.md has backed up, in its order.
var theStreams = []string{journal.DefaultStream, "KV_" + handover.BlobsBucket, "KV_" + epochkv.DefaultBucket}

// TestRestoreAllFromABackup is the procedure of docs/operations.md: the backup is made
// while the service runs, everything is restored, and only the snapshots know that
// there was more.
func TestRestoreAllFromABackup(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	r.before = service.SaveOften
	stop := r.run("state")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	old := r.active("app")
	backups := map[string]*backup{}
	for _, s := range theStreams {
		backups[s] = r.backUp(s)
	}
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("a rotation", func() bool { return r.active("app") > old })
	r.stopped(stop)
	for _, s := range theStreams {
		r.deleteStream(s)
	}
	for _, s := range theStreams {
		r.restore(s, backups[s])
	}
	d := r.examine()
	lost := fmt.Sprint(d.Lost)
	if len(d.Found) == 0 || len(d.Kept) != 1 || d.Kept[0].Lease != old || len(d.Lost) != 1 || d.Lost[0].Lease != old+1 || d.Lost[0].LeaseID == "" {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("is of a log that is gone")
	r.decide(true)
	r.leadsAsRecovered()
	all := r.events(events.TypeOpened)
	if o := all[len(all)-1].Data.(*events.Opened); len(o.Lost) != 1 || !strings.HasPrefix(o.Lost[0], fmt.Sprintf("app/%d database/creds/app/", old+1)) {
		t.Errorf("%v is said to be lost, it was %s", o.Lost, lost)
	}
	r.await("what the log still knew to be issued anew", func() bool { return r.active("app") > old })
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}

// TestRestoreTheLogAlone: the epochs and the sealed values know of more.
func TestRestoreTheLogAlone(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	stop := r.run("state")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	old := r.active("app")
	b := r.backUp(journal.DefaultStream)
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("a rotation", func() bool { return r.active("app") > old })
	r.stopped(stop)
	r.deleteStream(journal.DefaultStream)
	r.restore(journal.DefaultStream, b)
	if d := r.examine(); len(d.Found) == 0 || len(d.Lost) != 1 || d.Lost[0].Lease != old+1 {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("the log has no event of the scope there")
	r.decide(false)
	r.leadsAsRecovered()
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}
