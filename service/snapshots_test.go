package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/snapshot"
)

// objects opens the bucket of snapshots.
func (r *rig) objects() jetstream.ObjectStore {
	r.t.Helper()
	o, err := r.nats.JS(r.t).ObjectStore(aBit(r.t), snapshot.Bucket)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// savedUpTo tells whether a snapshot is there that ends with a sequence.
func (r *rig) savedUpTo(seq uint64) bool {
	r.t.Helper()
	infos, err := r.objects().List(aBit(r.t))
	if err != nil {
		return false
	}
	for _, info := range infos {
		if strings.HasPrefix(info.Name, fmt.Sprintf("prod.%020d.", seq)) {
			return true
		}
	}
	return false
}

// TestAStartReadsFromTheSnapshotOn: a scope that is given back is saved, the next
// start begins there, and what it leads is what was left.
func TestAStartReadsFromTheSnapshotOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.before = service.SaveOften
	r.definitions(1, appDefinition+otherDefinition)
	s := &shop{rig: r}
	stop := r.run("state-a")
	r.serve(s)
	r.await("both leases", func() bool { return s.lease() != 0 && r.active("other") != 0 })
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("a second lease", func() bool { return r.count(events.TypeInstalled) == 3 && s.lease() == r.active("app") })
	app, other := r.active("app"), r.active("other")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !r.savedUpTo(r.lastSeq()) {
		t.Fatalf("no snapshot ends with the release at %d", r.lastSeq())
	}
	stop = r.run("state-b")
	r.await("the next holder", func() bool {
		return r.count(events.TypeOpened) == 2 && r.active("app") == app && r.active("other") == other
	})
	if said := r.out.String(); !strings.Contains(said, "restored from a snapshot") {
		t.Error("the log was read from its beginning")
	}
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("a lease of the next holder", func() bool { return r.active("app") > app && s.lease() == r.active("app") })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if infos, err := r.objects().List(aBit(t)); err != nil || len(infos) > 2 {
		t.Errorf("%d snapshots are kept, %v", len(infos), err)
	}
}

// TestTwoReleasesFindTheirSnapshots: an upgrade, and the way back, read from the
// log what the other release did, and no more.
func TestTwoReleasesFindTheirSnapshots(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.before = service.SaveOften
	r.definitions(1, otherDefinition)
	lead := func(version string, opened int) (restored int) {
		before := len(r.out.String())
		r.version = version
		stop := r.run("state-" + version)
		r.await("release "+version+" to lead", func() bool { return r.count(events.TypeOpened) == opened && r.active("other") != 0 })
		active := r.active("other")
		r.done(r.api().Rotate(aBit(t), "prod", "other"))
		r.await("a rotation", func() bool { return r.active("other") > active })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if !r.savedUpTo(r.lastSeq()) {
			t.Errorf("release %s left no snapshot", version)
		}
		return strings.Count(r.out.String()[before:], "restored from a snapshot")
	}
	for i, c := range []struct {
		version  string
		restored int
	}{{"1.0.0", 0}, {"2.0.0", 0}, {"1.0.0", 1}, {"2.0.0", 1}, {"2.0.0", 1}, {"1.0.0", 1}} {
		if got := lead(c.version, i+1); got != c.restored {
			t.Errorf("start %d, of release %s: restored %d times", i+1, c.version, got)
		}
	}
}

// TestABrokenSnapshotIsIgnored and the log is read instead.
func TestABrokenSnapshotIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.before = service.SaveOften
	r.definitions(1, otherDefinition)
	stop := r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	active := r.active("other")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	infos, err := r.objects().List(aBit(t))
	if err != nil || len(infos) == 0 {
		t.Fatal(infos, err)
	}
	for _, info := range infos {
		if _, err := r.objects().PutBytes(aBit(t), info.Name, []byte("somebody else's")); err != nil {
			t.Fatal(err)
		}
	}
	r.run("state-b")
	r.await("the next holder", func() bool { return r.count(events.TypeOpened) == 2 && r.active("other") == active })
	if said := r.out.String(); !strings.Contains(said, "a snapshot is ignored") || strings.Contains(said, "restored from a snapshot") {
		t.Error("nothing was said of it, or it was used")
	}
}

// TestALogThatIsGoneIsNotLed: a snapshot knows of a log that was deleted.
func TestALogThatIsGoneIsNotLed(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.before = service.SaveOften
	r.definitions(1, otherDefinition)
	stop := r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.nats.JS(t).DeleteStream(aBit(t), journal.DefaultStream); err != nil {
		t.Fatal(err)
	}
	r.run("state-b")
	r.await("the refusal", func() bool { return strings.Contains(r.out.String(), "is of a log that is gone") })
	if n := r.count(events.TypeOpened); n != 1 {
		t.Errorf("the scope was opened %d times", n)
	}
}
