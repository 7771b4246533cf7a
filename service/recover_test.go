package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/snapshot"
)

const plainDefinition = `  app:
    path: database/creds/app
    kind: postgresql
    good_for: 200ms
`

// lived gives a rig whose service led, acquired a lease, and was stopped.
func lived(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	stop := r.run("state")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) recoverer() *service.Recoverer {
	r.t.Helper()
	x, err := service.NewRecoverer(context.Background(), r.config("recover"), r.nats.Conn(r.t), "1.2.3")
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

func (r *rig) examine() service.Damage {
	r.t.Helper()
	all, err := r.recoverer().Examine(context.Background())
	if err != nil || len(all) != 1 {
		r.t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func (r *rig) decide(anew bool) {
	r.t.Helper()
	x := r.recoverer()
	all, err := x.Examine(context.Background())
	if err == nil {
		err = x.Decide(context.Background(), all, anew)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// refusesToLead starts an instance and checks that it says why it does not lead.
func (r *rig) refusesToLead(why string) {
	r.t.Helper()
	before := len(r.events(events.TypeOpened))
	stop := r.run("state")
	r.await("a refusal that says "+why, func() bool {
		said := r.out.String()
		return strings.Contains(said, why) && strings.Contains(said, "leasesvc recover")
	})
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	if len(r.events(events.TypeOpened)) != before {
		r.t.Error("it led all the same")
	}
}

// leadsAsRecovered starts an instance and checks that it leads, and that the log
// says how that came.
func (r *rig) leadsAsRecovered() {
	r.t.Helper()
	before := len(r.events(events.TypeOpened))
	r.run("state")
	r.await("an epoch", func() bool { return len(r.events(events.TypeOpened)) > before })
	opened := r.events(events.TypeOpened)[before]
	if how := opened.Data.(*events.Opened).How; how != events.HowRecovered || opened.Actor.Name != "operator/recover" {
		r.t.Errorf("opened as %q by %q", how, opened.Actor.Name)
	}
	r.await("a usable lease", func() bool { return r.active("app") > 0 })
}

func (r *rig) deleteStream(name string) {
	r.t.Helper()
	if err := r.nats.JS(r.t).DeleteStream(context.Background(), name); err != nil {
		r.t.Fatal(err)
	}
}

func TestRecoverADeletedStream(t *testing.T) {
	r := lived(t)
	lastSeq := r.lastSeq()
	r.deleteStream(journal.DefaultStream)
	if d := r.examine(); len(d.Found) == 0 || !strings.Contains(d.Found[0], "there is no stream") || len(d.Lost) != 1 || d.Lost[0].Name != "app" {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("the log has no event of the scope there")
	d := r.examine()
	if len(d.Found) == 0 || !d.Decided.IsZero() || len(d.Kept) != 0 || len(d.Lost) != 1 || d.LastSeq < lastSeq-1 {
		t.Errorf("%+v, the last sequence was %d", d, lastSeq)
	}
	r.decide(false)
	r.leadsAsRecovered()
	// What was lost is named in the log.
	all := r.events(events.TypeOpened)
	if o := all[len(all)-1].Data.(*events.Opened); len(o.Lost) != 1 || !strings.HasPrefix(o.Lost[0], "app/1 database/creds/app/") || len(o.Found) == 0 {
		t.Errorf("%+v", o)
	}
	// Consumers take nothing at or below the last n they took.
	if first := r.events(events.TypeOpened); first[len(first)-1].Seq < lastSeq {
		t.Errorf("the new log begins at sequence %d, the old one ended at %d", first[len(first)-1].Seq, lastSeq)
	}
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}

// TestRecoverAnOlderBackup puts the stream's files back as they were before.
func TestRecoverAnOlderBackup(t *testing.T) {
	r := lived(t)
	streams := filepath.Join(r.nats.Embedded().StoreDir(), "$G", "streams", journal.DefaultStream)
	backup := filepath.Join(t.TempDir(), "backup")
	r.nats.Stop()
	if err := os.CopyFS(backup, os.DirFS(streams)); err != nil {
		t.Fatal(err)
	}
	if err := r.nats.Start(); err != nil {
		t.Fatal(err)
	}
	stop := r.run("state")
	r.await("the lease", func() bool { return r.active("app") > 0 })
	old := r.active("app")
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("a rotation", func() bool { return r.active("app") > old })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.nats.Stop()
	if err := os.RemoveAll(streams); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(streams, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	if err := r.nats.Start(); err != nil {
		t.Fatal(err)
	}
	d := r.examine()
	if len(d.Found) == 0 || len(d.Kept) != 1 || d.Kept[0].Lease != old || len(d.Lost) != 1 || d.Lost[0].Lease != old+1 {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("and the last epoch in the log is")
	r.decide(true)
	r.leadsAsRecovered()
	r.await("what the log still knew to be issued anew", func() bool {
		for _, e := range r.events(events.TypeRequested) {
			if e.Data.(*events.Requested).Reason == events.ReasonReissue {
				return true
			}
		}
		return false
	})
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}

func TestRecoverADeletedBucketOfEpochs(t *testing.T) {
	r := lived(t)
	r.deleteStream("KV_" + epochkv.DefaultBucket)
	epoch := r.events(events.TypeOpened)[0].Epoch
	if d := r.examine(); len(d.Found) == 0 || !d.BucketBehind || len(d.Kept) != 1 {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("the bucket was recreated or restored")
	if d := r.examine(); len(d.Found) == 0 { // whatever the refused instance has written there since
		t.Errorf("%+v", d)
	}
	r.decide(false)
	r.leadsAsRecovered()
	all := r.events(events.TypeOpened)
	if last := all[len(all)-1].Epoch; last <= epoch {
		t.Errorf("epoch %d, there was epoch %d", last, epoch)
	}
	// The lease is kept: nothing was acquired anew.
	if n := r.count(events.TypeAcquired); n != 1 {
		t.Errorf("%d leases were acquired", n)
	}
}

func TestRecoverALostSealKey(t *testing.T) {
	r := lived(t)
	old := r.events(events.TypeInstalled)[0].Lease
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", seed.Reveal())
	if d := r.examine(); !d.KeyLost || len(d.Kept) != 1 || d.Kept[0].Lease != old {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("only where it is lost for good")
	r.decide(false)
	r.leadsAsRecovered()
	r.await("a successor, whose values can be read", func() bool { return r.active("app") > old })
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	r.await("the old lease to be revoked", func() bool { return r.count(events.TypeRevoked) > 0 })
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}

// TestTheTrustInALogOutlivesRestarts: what was written under the lost key counts at
// every start, and only because somebody with the key in force said so.
func TestTheTrustInALogOutlivesRestarts(t *testing.T) {
	r := lived(t)
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", seed.Reveal())
	r.decide(false)
	for range 2 {
		stop := r.run("state")
		r.await("the lease", func() bool { return r.active("app") > 0 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	status := r.examine()
	if len(status.Found) != 0 || len(status.Kept) == 0 {
		t.Errorf("%+v", status)
	}
	forged := epochkv.Recovery{Scope: "prod", Trusted: 1 << 40, Proof: "forged", Epoch: 1 << 40, At: time.Now(), Found: []string{}}
	js := r.nats.JS(t)
	stream, err := js.Stream(context.Background(), journal.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	forged.StreamCreated = stream.CachedInfo().Created
	if err := epochkv.Decide(context.Background(), js, epochkv.DefaultBucket, forged); err != nil {
		t.Fatal(err)
	}
	stop := r.run("state")
	r.await("the forged decision to be ignored", func() bool { return strings.Contains(r.out.String(), "does not hold, and is ignored") })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestADecisionCoversWhatItWasAbout: another loss is another decision.
func TestADecisionCoversWhatItWasAbout(t *testing.T) {
	at := time.Now()
	r := &epochkv.Recovery{StreamCreated: at, Epoch: 7}
	for _, c := range []struct {
		r     *epochkv.Recovery
		at    time.Time
		epoch uint64
		want  bool
	}{{r, at, 7, true}, {r, at, 8, false}, {r, at.Add(1), 7, false}, {nil, at, 0, false}} {
		if got := c.r.Covers(c.at, c.epoch); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestAHealthyScopeHasLostNothing(t *testing.T) {
	r := lived(t)
	if d := r.examine(); len(d.Found) != 0 || len(d.Kept) != 1 {
		t.Errorf("%+v", d)
	}
	r.decide(false) // changes nothing
	stop := r.run("state")
	r.await("the lease", func() bool { return r.active("app") > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	all := r.events(events.TypeOpened)
	if how := all[len(all)-1].Data.(*events.Opened).How; how == events.HowRecovered {
		t.Error("opened as recovered")
	}
}

// TestRecoverADeletedBucketOfSealedValues: nothing in the log is lost, and every
// lease is issued anew, since nobody can read it any more.
func TestRecoverADeletedBucketOfSealedValues(t *testing.T) {
	r := lived(t)
	old := r.events(events.TypeInstalled)[0].Lease
	r.deleteStream("KV_" + handover.BlobsBucket)
	d := r.examine()
	if len(d.Found) == 0 || len(d.ValuesGone) != 1 || d.ValuesGone[0] != "app/1" || len(d.Kept) != 1 {
		t.Errorf("%+v", d)
	}
	r.refusesToLead("the bucket of sealed values has nothing of the scope")
	r.decide(false)
	r.leadsAsRecovered()
	r.await("a successor, whose values can be read", func() bool { return r.active("app") > old })
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	r.await("the old lease to be revoked", func() bool { return r.count(events.TypeRevoked) > 0 })
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}

// TestSomeSealedValuesAreGone: of an older backup of the bucket, say. It leads, and
// replaces what nobody can read.
func TestSomeSealedValuesAreGone(t *testing.T) {
	r := lived(t)
	old := r.events(events.TypeInstalled)[0].Lease
	kv, err := r.nats.JS(t).KeyValue(context.Background(), handover.BlobsBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(context.Background(), fmt.Sprintf("prod.app.%d", old)); err != nil {
		t.Fatal(err)
	}
	if d := r.examine(); len(d.ValuesGone) != 1 {
		t.Errorf("%+v", d)
	}
	r.run("state")
	r.await("a successor", func() bool { return r.active("app") > old })
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.out.String(), "the values of an active lease are gone from the store") {
		t.Error("it was not said")
	}
}

// TestADeletedBucketOfSnapshotsLosesNothing: the log is read from its beginning.
func TestADeletedBucketOfSnapshotsLosesNothing(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	r.before = service.SaveOften
	stop := r.run("state")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.deleteStream("OBJ_" + snapshot.Bucket)
	if d := r.examine(); len(d.Found) != 0 || len(d.Kept) != 1 {
		t.Errorf("%+v", d)
	}
	from := len(r.out.String())
	r.run("state")
	r.await("it to lead", func() bool { return r.active("app") > 0 })
	if n := r.count(events.TypeAcquired); n != 1 || strings.Contains(r.out.String()[from:], "restored from a snapshot") {
		t.Errorf("%d leases were acquired", n)
	}
}

// TestAStretchThatNobodyCanCheck: the key before the last is gone for good, and with
// the bucket of sealed values also what was kept of it.
func TestAStretchThatNobodyCanCheck(t *testing.T) {
	r, older, newer, stop := held(t, oldFirst)
	r.stopped(stop)
	stop = r.under(newFirst, "state")
	r.removable(older)
	r.stopped(stop)
	r.deleteStream("KV_" + handover.BlobsBucket)
	r.deleteStream("OBJ_" + snapshot.Bucket)
	r.sealKey = newAlone
	r.refusesToLead("the bucket of sealed values has nothing of the scope")
	if d := r.examine(); !strings.Contains(strings.Join(d.Found, " "), "was written under the seal key "+older.ID()) || len(d.Kept) != 1 {
		t.Errorf("%+v", d)
	}
	r.decide(false)
	r.leadsAsRecovered()
	r.inForce(newer)
	r.await("a successor", func() bool { return r.active("app") > 1 })
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("it is lost still: %+v", d)
	}
}
