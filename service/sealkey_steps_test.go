package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/snapshot"
)

// held gives a rig with a lease, whose seal keys are old and new.
func held(t *testing.T, sealKey string) (r *rig, older, newer *handover.Keys, stop func() error) {
	t.Helper()
	r = newRig(t, "1h", "2h")
	seed, err := readFile(r, "seal.key")
	if err != nil {
		t.Fatal(err)
	}
	older, newer = r.keysOf(seed), r.newKey("new.key")
	r.definitions(1, plainDefinition)
	stop = r.under(sealKey, "a")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	return r, older, newer, stop
}

// saysAndDoesNotLead waits until an instance says why it does not lead.
func (r *rig) saysAndDoesNotLead(sealKey, why string) {
	r.t.Helper()
	before, from := len(r.events(events.TypeOpened)), len(r.out.String())
	stop := r.under(sealKey, "refusing")
	r.await("a refusal that says "+why, func() bool { return strings.Contains(r.out.String()[from:], why) })
	r.stopped(stop)
	if len(r.events(events.TypeOpened)) != before {
		r.t.Error("it led all the same")
	}
}

// TestWhoHasOnlyTheOldKeyStandsBack: it follows as far as it can, says what is
// missing, and leads no more; with the new key it goes on.
func TestWhoHasOnlyTheOldKeyStandsBack(t *testing.T) {
	r, _, newer, stop := held(t, oldAlone)
	from := len(r.out.String())
	stopOld := r.under(oldAlone, "old")
	r.await("a standby", func() bool { return strings.Contains(r.out.String()[from:], "standing by") })
	r.stopped(stop) // the standby leads
	r.await("the standby to lead", func() bool { _, ok := r.status(); return ok })
	r.under(newFirst, "a")
	r.done(r.api().StepDown(context.Background(), "prod"))
	r.inForce(newer)
	r.await("it to say what is missing", func() bool {
		return strings.Contains(r.out.String(), "under the seal key "+newer.ID()+", which is not known here: give this instance that key too")
	})
	r.stopped(stopOld)
	r.saysAndDoesNotLead(oldAlone, "was opened under the seal key "+newer.ID())
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
}

// TestWhoLacksTheOldKeyStandsBack: it is needed as long as values are under it.
func TestWhoLacksTheOldKeyStandsBack(t *testing.T) {
	r, older, newer, stop := held(t, oldAlone)
	r.stopped(stop)
	r.saysAndDoesNotLead(newAlone, "was opened under the seal key "+older.ID())
	if d := r.examine(); !d.KeyLost {
		t.Errorf("%+v", d)
	}
	// A key that is neither.
	r.newKey("foreign.key")
	r.saysAndDoesNotLead("{file: foreign.key}", "was opened under the seal key "+older.ID())

	// A crash between the opening under the new key and the sealing anew.
	r.sealKey = newFirst
	r.before = func(s *service.Service) { service.HoldSealingBack(s, func() error { return errors.New("held back") }) }
	svc, stop := r.start("a")
	r.inForce(newer)
	service.CutOff(svc)
	_ = stop()
	r.before = nil
	r.saysAndDoesNotLead(newAlone, "are still sealed under the seal key "+older.ID())
	if d := r.examine(); len(d.Found) == 0 || !strings.Contains(strings.Join(d.Found, " "), "still sealed under the seal key "+older.ID()) {
		t.Errorf("%+v", d)
	}
	stop = r.under(newFirst, "b")
	r.removable(older)
	r.stopped(stop)
	r.under(newAlone, "c")
	r.inForce(newer)
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	if n := r.count(events.TypeAcquired); n != 1 {
		t.Errorf("%d leases were acquired", n)
	}
}

// TestTheOldKeyCanComeBack: an operator who puts the order back, and instances
// whose orders differ, lose nothing.
func TestTheOldKeyCanComeBack(t *testing.T) {
	r, older, newer, stop := held(t, oldFirst)
	r.stopped(stop)
	stop = r.under(newFirst, "a")
	r.inForce(newer)
	r.removable(older)
	stopB := r.under(oldFirst, "b")
	r.await("it to be said that another instance has the old key first", func() bool {
		st, _ := r.status()
		return len(st.OtherKeys) == 1 && strings.Contains(st.OtherKeys[0].Says, "it is the first key of")
	})
	r.stopped(stop)
	r.inForce(older)
	r.removable(newer)
	r.stopped(stopB)
	r.under(oldAlone, "c")
	r.inForce(older)
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	if n := r.count(events.TypeAcquired); n != 1 {
		t.Errorf("%d leases were acquired", n)
	}
	if p := r.folded(older, newer); p.Stopped() != nil {
		t.Error(p.Stopped())
	}
}

// TestAThirdKey: of a key that was replaced twice over, nothing but what reads the
// log is kept, and that goes along.
func TestAThirdKey(t *testing.T) {
	r, older, newer, stop := held(t, oldFirst)
	third := r.newKey("third.key")
	r.stopped(stop)
	stop = r.under(newFirst, "a")
	r.removable(older)
	r.stopped(stop)
	stop = r.under("{file: third.key, previous: [{file: new.key}]}", "a")
	r.inForce(third)
	r.removable(newer)
	r.stopped(stop)
	r.deleteStream("OBJ_" + snapshot.Bucket)
	r.under("{file: third.key}", "b")
	r.inForce(third)
	if _, err := r.reader().Get(context.Background(), "app"); err != nil {
		t.Error(err)
	}
	if st, _ := r.status(); st.Skipped != 0 || len(st.OtherKeys) != 0 {
		t.Errorf("%+v", st)
	}
}

// TestASnapshotOfTheOldKeyHolds: it was made before the change, and is gone on from
// after it.
func TestASnapshotOfTheOldKeyHolds(t *testing.T) {
	r := newRig(t, "1h", "2h")
	seed, err := readFile(r, "seal.key")
	if err != nil {
		t.Fatal(err)
	}
	_, newer := r.keysOf(seed), r.newKey("new.key")
	r.definitions(1, plainDefinition)
	r.before = service.SaveOften
	stop := r.under(oldAlone, "a")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	r.stopped(stop)
	stop = r.under(newFirst, "a")
	r.inForce(newer)
	if !strings.Contains(r.out.String(), "restored from a snapshot") {
		t.Error("the snapshot was not gone on from")
	}
	r.stopped(stop) // and saves one under the new key
	from := len(r.out.String())
	r.under(newFirst, "a")
	r.await("a snapshot of the new key to be gone on from", func() bool { return strings.Contains(r.out.String()[from:], "restored from a snapshot") })
	r.inForce(newer)
	if strings.Contains(r.out.String(), "a snapshot is ignored") {
		t.Error("a snapshot was ignored")
	}
}

func TestASealKeyThatIsNamedTwiceIsRefused(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	for _, key := range []string{"{file: seal.key, previous: [{file: seal.key}]}", "{file: seal.key, previous: [{file: missing.key}]}"} {
		r.sealKey = key
		if _, err := service.New(r.config("a"), service.Options{}); err == nil || !strings.Contains(err.Error(), "seal_key.previous[0]") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
