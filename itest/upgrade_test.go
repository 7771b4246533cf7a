package itest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/itest/proctest"
)

// The two releases: this one, and one that has an event of a later version.
const (
	thisRelease = "1.0.0"
	nextRelease = "2.0.0"
)

// release builds a release of the program.
func release(t *testing.T, version, tags string) string {
	t.Helper()
	return proctest.Build(t, "./cmd/leasesvc", append(raceFlags, "-tags", tags, "-ldflags", "-X main.version="+version)...)
}

// upgrade is a rig on which instances of two releases run.
type upgrade struct {
	*rig
	programs map[string]string
	running  map[string]*instance
	said     map[string]int // how much an instance had said before its present run
	epoch    uint64         // of the holder that was seen last
}

// run starts an instance of a release; its state directory stays that of its name.
func (u *upgrade) run(name, version string) {
	u.t.Helper()
	u.prog, u.said[name] = u.programs[version], len(u.output(name))
	u.running[name] = u.start(name)
}

func (u *upgrade) output(name string) string {
	b, err := os.ReadFile(filepath.Join(u.dir, name+".log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.t.Fatal(err)
	}
	return string(b)
}

// says waits until an instance has said something in its present run.
func (u *upgrade) says(name, text string) {
	u.t.Helper()
	await(u.t, 60*time.Second, name+" to say "+text, func() bool { return strings.Contains(u.output(name)[u.said[name]:], text) })
}

// standby starts an instance and waits until it follows the scope.
func (u *upgrade) standby(name, version string) {
	u.t.Helper()
	u.run(name, version)
	u.says(name, "standing by")
}

// end ends an instance in good order.
func (u *upgrade) end(name string) {
	u.t.Helper()
	in := u.running[name]
	if err := in.End(syscall.SIGTERM, 60*time.Second); err != nil {
		u.t.Fatalf("SIGTERM to %s: %v", name, err)
	}
	if code := in.State().ExitCode(); code != 0 {
		u.t.Fatalf("%s ended with %d", name, code)
	}
}

// ledBy waits until a new epoch is led by a release.
func (u *upgrade) ledBy(version string) {
	u.t.Helper()
	u.epoch = u.leads(u.epoch)
	if got := u.status().Version; got != version {
		u.t.Fatalf("epoch %d is led by release %s, not %s", u.epoch, got, version)
	}
}

type status struct {
	Version string
	Holder  string
	Skipped uint64 `json:"skipped_events"`
	Upgrade *struct {
		Pending, InForce map[string]int
		Behind           []struct{ Holder, Version string }
	}
	Notes []string
}

func (u *upgrade) status() (st status) {
	u.t.Helper()
	await(u.t, 60*time.Second, "a status", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		got, err := u.api.Status(ctx, scope)
		if err != nil {
			return false
		}
		b, err := json.Marshal(got)
		st = status{}
		return err == nil && json.Unmarshal(b, &st) == nil
	})
	return st
}

// command runs a command of a release, and gives what it printed and its code.
func (u *upgrade) command(version string, args ...string) (string, int) {
	u.t.Helper()
	cmd := exec.Command(u.programs[version], args...)
	cmd.Env = append(cmd.Environ(), "LEASESVC_SERVER="+u.nats.URL(), "LEASESVC_SCOPE="+scope)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// commits waits for so many more commits, and gives the version that the last one
// is written in.
func (u *upgrade) commits(n int) (version int) {
	u.t.Helper()
	before := len(u.raw(events.TypeInstalled))
	await(u.t, 120*time.Second, "commits", func() bool { return len(u.raw(events.TypeInstalled)) >= before+n })
	all := u.raw(events.TypeInstalled)
	return all[len(all)-1].Version
}

// envelope is what any release reads of an event.
type envelope struct {
	Seq     uint64
	Type    events.Type
	Version int
	Epoch   uint64
	Lease   uint64
	Data    struct{ Rehearsed string }
}

// raw reads the events of a type, whatever release wrote them.
func (u *upgrade) raw(of events.Type) (out []envelope) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if u.log == nil {
		u.read()
	}
	st, err := u.log.Info(ctx)
	if err != nil {
		u.t.Fatal(err)
	}
	err = u.log.Replay(ctx, scope, 1, st.LastSeq, func(m journal.Message) error {
		if _, _, typ, err := events.ParseSubject(m.Subject); err != nil || typ != of {
			return err
		}
		e := envelope{Seq: m.Seq}
		if err := json.Unmarshal(m.Payload, &e); err != nil {
			return err
		}
		out = append(out, e)
		return nil
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// traffic is what goes on all the time: rotations, and reads of the credential. (The
// application's queries are its own.)
type traffic struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	gets   int
	failed []string
}

func (u *upgrade) traffic(reader *consumer.Client) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	l := &traffic{cancel: cancel}
	l.wg.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			one, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			began := time.Now()
			if _, err := reader.Get(one, "orders"); err != nil {
				l.failed = append(l.failed, fmt.Sprintf("a get at %s failed: %v", began.Format(time.StampMilli), err))
			}
			done()
			l.gets++
		}
	})
	l.wg.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			one, done := context.WithTimeout(ctx, 2*time.Second)
			_, _ = u.api.Rotate(one, scope, "orders") // refused while a hand-over is in flight, or nobody leads
			done()
		}
	})
	return l
}

func (l *traffic) end(t *testing.T) {
	t.Helper()
	l.cancel()
	l.wg.Wait()
	for _, f := range l.failed[:min(5, len(l.failed))] {
		t.Error(f)
	}
	if l.gets < 100 {
		t.Errorf("only %d gets were made", l.gets)
	}
	t.Logf("%d gets, %d failed", l.gets, len(l.failed))
}

const upgradeDefinitions = `revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    verifier: {kind: postgresql, dsn: "postgres://{{username}}:{{password}}@%s/postgres?sslmode=disable", timeout: 5s}
    consumers: [{name: app, key: %s}]
    prepare_timeout: 10s
    good_for: 2s
    acquisitions_per_hour: 3600
`

// TestRollingUpgrade: two releases, the second with an event of a later version,
// take turns in leading a scope under load, forward and back, in good order and
// killed: no query and no get fails, no event is skipped. What the second writes
// is read by the first until an operator finalizes; that is refused while one of
// the first is there. From then on the later version is written, and the first
// release stays up, says so, and does not lead.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	u := &upgrade{rig: newRig(t, startDevvault, "2m", "10m"), running: map[string]*instance{}, said: map[string]int{}, programs: map[string]string{
		thisRelease: release(t, thisRelease, "failpoints"),
		nextRelease: release(t, nextRelease, "failpoints nextrelease"),
	}}
	app := u.identity("app")
	u.write("definitions.yaml", fmt.Sprintf(upgradeDefinitions, u.pg.Addr(), app.public))
	u.run("a", thisRelease)
	u.ledBy(thisRelease)
	u.standby("b", thisRelease)
	client := u.connect(app)
	application := startApplication(u.rig, client)
	traffic := u.traffic(client)
	u.commits(2)
	if out, code := u.command(thisRelease, "upgrade", "--finalize"); code != 0 || !strings.Contains(out, "nothing to finalize") {
		t.Errorf("exit code %d: %s", code, out)
	}

	u.forwardAndBack()
	u.finalize()
	u.leftBehind()

	traffic.end(t)
	queries := application.end()
	client.Close()
	failed := 0
	for _, q := range queries {
		if q.err != nil {
			if failed++; failed <= 5 {
				t.Errorf("a query at %s failed: %v", q.began.Format(time.StampMilli), q.err)
			}
		}
	}
	if len(queries) < 1000 {
		t.Errorf("only %d queries were made", len(queries))
	}
	t.Logf("%d queries, %d failed; %d commits, %d epochs", len(queries), failed, len(u.raw(events.TypeInstalled)), len(u.raw(events.TypeOpened)))
	u.noWayBack()
	if out, code := u.command(nextRelease, "verify-log", "--seal-key", filepath.Join(u.dir, "seal.key")); code != 0 {
		t.Errorf("the log is not intact (%d): %s", code, out)
	}
	u.noSecretAnywhere()
}

// forwardAndBack has the releases take turns; it ends with two of the next one.
func (u *upgrade) forwardAndBack() {
	u.t.Helper()
	// Forward: b is replaced, and takes over; a comes back as it was.
	u.end("b")
	u.standby("b", nextRelease)
	await(u.t, 60*time.Second, "a later release to be named", func() bool { // by its first heartbeat
		out, code := u.command(thisRelease, "upgrade", "--finalize")
		return code == 1 && strings.Contains(out, "a later one") && strings.Contains(out, u.holderOf("b"))
	})
	u.end("a")
	u.ledBy(nextRelease)
	u.standby("a", thisRelease)
	if v := u.commits(2); v != 1 {
		u.t.Errorf("the next release writes version %d while nobody finalized", v)
	}
	u.refusedWhileBehind()

	// Back, in good order: what the next release wrote is led from.
	u.end("b")
	u.ledBy(thisRelease)
	u.standby("b", thisRelease)
	u.commits(2)

	// Forward by a kill.
	u.end("b")
	u.standby("b", nextRelease)
	u.running["a"].Kill()
	u.ledBy(nextRelease)
	u.standby("a", nextRelease)
	u.commits(2)

	// Back by a kill, and forward for good.
	u.end("a")
	u.standby("a", thisRelease)
	u.running["b"].Kill()
	u.ledBy(thisRelease)
	u.commits(2)
	u.standby("b", nextRelease)
	u.end("a")
	u.ledBy(nextRelease)
	u.standby("a", nextRelease)
	if v := u.commits(2); v != 1 {
		u.t.Errorf("the next release writes version %d while nobody finalized", v)
	}
	if log, p := u.read(); len(log) == 0 || p.State().Formats != nil { // it fails on what is skipped
		u.t.Error("a format is in force")
	}
}

// refusedWhileBehind: b leads with the next release, and a is of this one.
func (u *upgrade) refusedWhileBehind() {
	u.t.Helper()
	holder := u.holderOf("a")
	for range 2 {
		out, code := u.command(nextRelease, "upgrade", "--finalize")
		if code != 1 || !strings.Contains(out, holder) || !strings.Contains(out, "release "+thisRelease) || !strings.Contains(out, "installed 2") {
			u.t.Errorf("finalizing while %s is there (%d): %s", holder, code, out)
		}
	}
	if got := u.raw(events.TypeFormat); len(got) != 0 {
		u.t.Errorf("a format was written: %v", got)
	}
	st := u.status()
	if st.Upgrade == nil || st.Upgrade.Pending["installed"] != 2 || len(st.Upgrade.Behind) != 1 || st.Upgrade.Behind[0].Holder != holder {
		u.t.Errorf("status says %+v", st)
	}
	if out, code := u.command(nextRelease, "upgrade"); code != 0 || !strings.Contains(out, "pending") || !strings.Contains(out, holder) {
		u.t.Errorf("exit code %d: %s", code, out)
	}
}

// holderOf gives the holder id of an instance, as its state directory has it.
func (u *upgrade) holderOf(name string) string {
	u.t.Helper()
	b, err := os.ReadFile(filepath.Join(u.dir, "state-"+name, "incarnation.json"))
	var state struct{ Holder string }
	if err != nil || json.Unmarshal(b, &state) != nil || state.Holder == "" {
		u.t.Fatalf("the holder id of %s: %s, %v", name, b, err)
	}
	return state.Holder
}

func (u *upgrade) finalize() {
	u.t.Helper()
	out, code := u.command(nextRelease, "upgrade", "--finalize")
	if code != 0 || !strings.Contains(out, "installed 2") {
		u.t.Fatalf("exit code %d: %s", code, out)
	}
	if got := u.raw(events.TypeFormat); len(got) != 1 || got[0].Version != 1 {
		u.t.Fatalf("formats: %+v", got)
	}
	if v := u.commits(2); v != 2 {
		u.t.Errorf("after it commits are written in version %d", v)
	}
	all := u.raw(events.TypeInstalled)
	if last := all[len(all)-1]; last.Data.Rehearsed == "" {
		u.t.Errorf("the field of version 2 is not in the log: %+v", last)
	}
	for _, e := range all {
		if later := e.Seq > u.raw(events.TypeFormat)[0].Seq; later && e.Version == 1 && e.Seq > all[len(all)-2].Seq || !later && (e.Version != 1 || e.Data.Rehearsed != "") {
			u.t.Errorf("%+v, and the format is at %d", e, u.raw(events.TypeFormat)[0].Seq)
		}
	}
	if out, code := u.command(nextRelease, "upgrade", "--finalize"); code != 0 || !strings.Contains(out, "nothing to finalize") {
		u.t.Errorf("once more (%d): %s", code, out)
	}
}

// leftBehind: an instance of this release beside two of the next one.
func (u *upgrade) leftBehind() {
	u.t.Helper()
	at := u.raw(events.TypeFormat)[0].Seq
	u.run("c", thisRelease)
	u.says("c", "is behind the log")
	u.says("c", fmt.Sprintf("the format at sequence %d", at))
	// The holder is killed: the other one of the next release takes over.
	holders := map[string]bool{u.holderOf("a"): true, u.holderOf("b"): true}
	leader := map[bool]string{true: "a", false: "b"}[u.status().Holder == u.holderOf("a")]
	u.running[leader].Kill()
	u.ledBy(nextRelease)
	if st := u.status(); !holders[st.Holder] || st.Skipped != 0 {
		u.t.Errorf("led by %+v", st)
	}
	u.standby(leader, nextRelease)
	if v := u.commits(2); v != 2 {
		u.t.Errorf("version %d is written", v)
	}
	st := u.status()
	if st.Upgrade == nil || len(st.Upgrade.Behind) != 1 || !strings.Contains(strings.Join(st.Notes, "\n"), u.holderOf("c")) {
		u.t.Errorf("status does not name what was left behind: %+v", st)
	}
	select {
	case <-u.running["c"].Exited():
		u.t.Error("the one that is behind did not stay up")
	default:
	}
	if n := strings.Count(u.output("c"), "is behind the log"); n != 1 {
		u.t.Errorf("it says so %d times", n)
	}
	out, code := u.command(thisRelease, "verify-log", "--seal-key", filepath.Join(u.dir, "seal.key"))
	if code != 3 || !strings.Contains(out, fmt.Sprintf("sequence %d: future", at)) {
		u.t.Errorf("verify-log of release %s (%d): %s", thisRelease, code, out)
	}
	out, code = u.command(thisRelease, "doctor", "--config", filepath.Join(u.dir, "c.yaml"))
	if code == 0 || !strings.Contains(out, "this release is behind the log") {
		u.t.Errorf("doctor of release %s (%d): %s", thisRelease, code, out)
	}
	// What reads the log ends where it can't read on, rather than leave something out.
	for _, args := range [][]string{{"explain", "orders"}, {"at", "1s"}, {"who", "orders/1"}, {"ledger"}} {
		out, code := u.command(thisRelease, args...)
		if code != 1 || !strings.Contains(out, fmt.Sprintf("sequence %d", at)) || !strings.Contains(out, "run a release that does") {
			u.t.Errorf("%s of release %s (%d): %s", args[0], thisRelease, code, out)
		}
		if out, code := u.command(nextRelease, args...); code != 0 {
			u.t.Errorf("%s of release %s (%d): %s", args[0], nextRelease, code, out)
		}
	}
	later := u.raw(events.TypeInstalled)
	out, _ = u.command(thisRelease, "events")
	if want := fmt.Sprintf("event installed at sequence %d has version 2", later[len(later)-1].Seq); !strings.Contains(out, want) {
		u.t.Errorf("events of release %s does not say %q", thisRelease, want)
	}
}

// noWayBack: only this release is there, and the log is finalized.
func (u *upgrade) noWayBack() {
	u.t.Helper()
	u.end("a")
	u.end("b")
	opened := len(u.raw(events.TypeOpened))
	if out, code := u.command(thisRelease, "status"); code != 1 || !strings.Contains(out, "no instance leads") {
		u.t.Errorf("exit code %d: %s", code, out)
	}
	// Started again it is no other than it was.
	u.end("c")
	u.run("c", thisRelease)
	u.says("c", "is behind the log")
	u.end("c")
	if n := len(u.raw(events.TypeOpened)); n != opened {
		u.t.Fatal("the release that is behind opened an epoch")
	}
	// Replaced, it leads with its own state directory.
	u.run("c", nextRelease)
	u.ledBy(nextRelease)
	if st := u.status(); st.Holder != u.holderOf("c") || st.Upgrade != nil || st.Skipped != 0 {
		u.t.Errorf("led by %+v", st)
	}
	// What it leads, from what both releases wrote, is what was left.
	await(u.t, 60*time.Second, "the lease to be active that was committed last", func() bool {
		commits := u.raw(events.TypeInstalled)
		table, err := u.api.Leases(context.Background(), scope)
		return err == nil && len(table.Names) == 1 && table.Names[0].Active == commits[len(commits)-1].Lease
	})
	u.end("c")
}
