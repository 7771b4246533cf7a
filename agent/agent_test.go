package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/agent"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
)

// seen gives the password in a JSON file of a lease or document.
func (r *rig) seen(name string) string {
	var v struct {
		Username, Password string
	}
	if json.Unmarshal([]byte(r.file(name)), &v) != nil {
		return ""
	}
	return v.Password
}

// TestAFileFollowsItsLease, written before the agent says yes, and the application
// told by its hook.
func TestAFileFollowsItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	reload := r.write("reload", "#!/bin/sh\ncat \"$LEASESVC_FILE\" && echo \"$LEASESVC_EVENT\" >> "+r.path("told")+"\n")
	r.run("  app: {lease: db, file: out.json, mode: 0640, hook: {command: [" + reload + "]}}\n")
	r.await("the file", func() bool { return r.seen("out.json") != "" && r.seen("out.json") == r.committed("db", "password") })
	first := r.seen("out.json")
	info, err := os.Stat(r.path("out.json"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	r.rotate("db")
	r.await("the successor", func() bool {
		return r.committed("db", "password") != first && r.seen("out.json") == r.committed("db", "password")
	})
	second := r.seen("out.json")
	if got := strings.Fields(r.file("told")); fmt.Sprint(got) != "[prepare prepare]" {
		t.Errorf("the application was told %v", got)
	}
	r.await("the old lease's end", func() bool { return len(r.events(events.TypeRevoked, "db")) == 1 })
	r.noSecretsShow(first, second)
}

// TestC44_AFailingHookSaysNo: the old file comes back, the application is told
// again, the old lease stays; other targets and leases go on.
func TestC44_AFailingHookSaysNo(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db")+lease("other"))
	// It says no to whatever is not the password that it saw first.
	check := r.write("check", `#!/bin/sh
echo "$LEASESVC_EVENT" >> `+r.path("told")+`
test -e `+r.path("first")+` || cp "$LEASESVC_FILE" `+r.path("first")+`
cat "$LEASESVC_FILE"
test -e `+r.path("fine")+` || cmp -s "$LEASESVC_FILE" `+r.path("first")+`
`)
	r.run("  app: {lease: db, file: out.json, hook: {command: [" + check + "]}}\n  other: {lease: other, file: other.json}\n")
	r.await("both files", func() bool { return r.seen("out.json") != "" && r.seen("other.json") != "" })
	first, other := r.seen("out.json"), r.seen("other.json")
	r.await("the commit", func() bool { return len(r.events(events.TypeInstalled, "db")) == 1 })
	r.rotate("db")
	r.await("the roll back", func() bool { return len(r.events(events.TypeRolledBack, "db")) == 1 })
	if r.seen("out.json") != first || r.committed("db", "password") != first {
		t.Error("the old file is not back")
	}
	if got := strings.Fields(r.file("told")); fmt.Sprint(got) != "[prepare prepare revert]" {
		t.Errorf("the application was told %v", got)
	}
	if d := r.events(events.TypeRolledBack, "db")[0].Data.(*events.RolledBack); !d.Safe {
		t.Error("the agent did not confirm that it is back")
	}
	r.rotate("other")
	r.await("the other target", func() bool { return r.seen("other.json") != other })
	r.write("fine", "")
	r.await("the end of the wait", func() bool { _, err := r.api().Rotate(t.Context(), "prod", "db"); return err == nil })
	r.await("a later attempt", func() bool {
		return r.seen("out.json") != first && len(r.events(events.TypeInstalled, "db")) == 2
	})
	r.noSecretsShow(first, r.seen("out.json"), other)
}

// TestC44_AHangingHookCostsItsNameOnly: while it hangs others are rendered and
// handed over; its time ends it, and that is its no.
func TestC44_AHangingHookCostsItsNameOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(lease("db"), "prepare_timeout: 20s", "prepare_timeout: 30s", 1)+lease("other"))
	hang := r.write("hang", "#!/bin/sh\ntest -e "+r.path("hang-now")+" || exit 0\necho $$ > "+r.path("pid")+"\nsleep 600\n")
	r.run("  app: {lease: db, file: out.json, hook: {command: [" + hang + "], timeout: 8s}}\n  other: {lease: other, file: other.json}\n")
	r.await("both", func() bool {
		return len(r.events(events.TypeInstalled, "db")) == 1 && len(r.events(events.TypeInstalled, "other")) == 1 && r.seen("other.json") != ""
	})
	first, other := r.seen("out.json"), r.seen("other.json")
	r.write("hang-now", "")
	r.rotate("db")
	r.await("the hook", func() bool { return r.file("pid") != "" })
	r.rotate("other")
	r.await("the other's rotation", func() bool {
		return len(r.events(events.TypeInstalled, "other")) == 2 && r.seen("other.json") != other
	})
	if len(r.events(events.TypeRollbackStarted, "db")) != 0 {
		t.Error("the hook did not hang: the test shows nothing")
	}
	if err := os.Remove(r.path("hang-now")); err != nil {
		t.Fatal(err)
	}
	r.await("the roll back", func() bool { return len(r.events(events.TypeRolledBack, "db")) == 1 })
	if r.seen("out.json") != first {
		t.Error("the old file is not back")
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(r.file("pid")))
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the hook was left running")
	}
}

// TestADocumentIsRenderedWithTheCandidate: two leases in one document, each handed
// over; the document's own changes too. What is the same tells nobody.
func TestADocumentIsRenderedWithTheCandidate(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db")+lease("mq"))
	r.put("app", 0, `{"db":{"user":"lease://db#username","password":"lease://db#password"},"mq":["lease://mq#password","env://NONE"],"x":1,"secret":"Pl4in-S3cret"}`)
	r.write("t.tmpl", `{{ .db.user }}:{{ .db.password }}@{{ .mq }} {{ .x }} {{ .secret }}`)
	told := r.write("told-by", "#!/bin/sh\ncat \"$LEASESVC_FILE\" >> "+r.path("told")+"; echo >> "+r.path("told")+"\n")
	r.run("  app: {document: app, format: template, template_file: t.tmpl, file: out.txt, hook: {command: [" + told + "]}}\n" +
		"  yaml: {document: app, format: yaml, file: out.yaml}\n")
	want := func(x string) string {
		return r.committed("db", "username") + ":" + r.committed("db", "password") + "@" + r.committed("mq", "password") + " " + x + " Pl4in-S3cret"
	}
	r.await("the file", func() bool { return r.file("out.txt") == want("1") })
	r.await("both leases", func() bool { return r.committed("db", "password") != "" && r.committed("mq", "password") != "" })
	before := want("1")
	r.rotate("db")
	r.await("the rotation of db", func() bool { return r.file("out.txt") == want("1") && want("1") != before })
	r.rotate("mq")
	r.await("the rotation of mq", func() bool { return r.file("out.txt") == want("1") && len(r.events(events.TypeInstalled, "mq")) == 2 })
	r.put("app", 1, strings.Replace(`{"db":{"user":"lease://db#username","password":"lease://db#password"},"mq":["lease://mq#password","env://NONE"],"x":1,"secret":"Pl4in-S3cret"}`, `"x":1`, `"x":2`, 1))
	r.await("the next revision", func() bool { return r.file("out.txt") == want("2") && strings.Contains(r.file("out.yaml"), "x: 2") })
	// The hook runs once the file is there, and takes its time.
	r.await("the application to be told", func() bool { return strings.HasSuffix(r.file("told"), want("2")+"\n") })
	// A roll of what nothing shows, and of what is the same.
	n := len(strings.Split(r.file("told"), "\n"))
	if info, err := os.Stat(r.path("out.txt")); err != nil {
		t.Fatal(err)
	} else {
		<-time.After(700 * time.Millisecond) // some refreshes: nothing must happen
		again, err := os.Stat(r.path("out.txt"))
		if err != nil || !os.SameFile(info, again) || len(strings.Split(r.file("told"), "\n")) != n {
			t.Errorf("written or told again: %v", err)
		}
	}
	for i, line := range strings.Split(strings.TrimSpace(r.file("told")), "\n") {
		if strings.Contains(line, "<no value>") || strings.Count(line, " ") != 2 {
			t.Errorf("line %d was told in part", i)
		}
	}
	r.noSecretsShow("Pl4in-S3cret", r.committed("db", "password"), r.committed("mq", "password"))
}

// TestC44_ADocumentThatItsHookRefuses goes back to the revision before, with the
// application told again.
func TestC44_ADocumentThatItsHookRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, "  {}\n")
	r.put("app", 0, `{"x":1}`)
	check := r.write("check", "#!/bin/sh\necho \"$LEASESVC_EVENT\" >> "+r.path("told")+"\n! grep -q 2 \"$LEASESVC_FILE\"\n")
	r.run("  app: {document: app, file: out.json, hook: {command: [" + check + "]}}\n")
	r.await("the file", func() bool { return strings.Contains(r.file("out.json"), "1") })
	r.put("app", 1, `{"x":2}`)
	r.await("the refusal", func() bool { return strings.Contains(r.file("told"), "revert") })
	r.await("the old file", func() bool { return strings.Contains(r.file("out.json"), "1") })
	r.put("app", 2, `{"x":3}`)
	r.await("a revision that works", func() bool { return strings.Contains(r.file("out.json"), "3") })
}

// TestC31_ADeletedFileIsWrittenAgain, with no new lease and nobody told; a restart
// of the agent writes and tells nothing.
func TestC31_ADeletedFileIsWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	told := r.write("told-by", "#!/bin/sh\necho x >> "+r.path("told")+"\n")
	targets := "  app: {lease: db, file: out.json, hook: {command: [" + told + "]}}\n"
	stop := r.run(targets)
	r.await("the commit", func() bool { return len(r.events(events.TypeInstalled, "db")) == 1 && r.seen("out.json") != "" })
	first := r.file("out.json")
	if err := os.Remove(r.path("out.json")); err != nil {
		t.Fatal(err)
	}
	r.await("the file", func() bool { return r.file("out.json") == first })
	info, err := os.Stat(r.path("out.json"))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	r.run(targets)
	r.await("the agent's next incarnation", func() bool { return len(r.events(events.TypeRegistered, "db")) == 2 })
	r.await("its confirmation", func() bool {
		table, err := r.api().Leases(t.Context(), "prod")
		return err == nil && len(table.Names) == 1 && len(table.Names[0].Consumers) == 1 && table.Names[0].Consumers[0].Follows
	})
	again, err := os.Stat(r.path("out.json"))
	if err != nil || !os.SameFile(info, again) || r.file("told") != "x\n" {
		t.Errorf("written or told again: %v, told %q", err, r.file("told"))
	}
	if n := len(r.events(events.TypeRequested, "db")); n != 1 {
		t.Errorf("%d leases were asked for", n)
	}
	if n := len(r.events(events.TypeLeft, "db")); n != 0 {
		t.Error("the agent left, though the application lives on the file")
	}
}

// TestACrashBeforeTheApplicationWasTold is made good for at the next start.
func TestACrashBeforeTheApplicationWasTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	told := r.write("told-by", "#!/bin/sh\necho x >> "+r.path("told")+"\n")
	targets := "  app: {lease: db, file: out.json, hook: {command: [" + told + "]}}\n"
	stop := r.run(targets)
	r.await("the commit", func() bool { return len(r.events(events.TypeInstalled, "db")) == 1 && r.file("told") == "x\n" })
	stop()
	r.write(".out.json.hook-owed", "") // as a crash between the file and the hook leaves it
	r.write(".out.json12345", "half")  // and one while the file was written
	r.run(targets)
	r.await("the application to be told", func() bool { return r.file("told") == "x\nx\n" })
	r.await("no leftover", func() bool { return r.file(".out.json12345") == "" })
	r.await("no marker", func() bool { _, err := os.Stat(r.path(".out.json.hook-owed")); return err != nil })
}

// TestC43_TheOldLeaseGoesAfterTheDrain, not when the application was told.
func TestC43_TheOldLeaseGoesAfterTheDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	r.run("  app: {lease: db, file: out.json, drain: 2s}\n")
	r.await("the commit", func() bool { return len(r.events(events.TypeInstalled, "db")) == 1 && r.seen("out.json") != "" })
	first := r.seen("out.json")
	r.rotate("db")
	r.await("the file", func() bool { return r.seen("out.json") != first })
	written := time.Now()
	r.await("the old lease's retirement", func() bool { return len(r.events(events.TypeRetired, "db")) == 1 })
	if waited := time.Since(written); waited < 1500*time.Millisecond {
		t.Errorf("after %s", waited)
	}
}

// TestAnApplicationIsRestartedWithTheCandidate, in its environment; one that does
// not start with it goes back to the old one.
func TestAnApplicationIsRestartedWithTheCandidate(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	app := r.write("app", `#!/bin/sh
echo "$APP_PASSWORD" >> `+r.path("runs")+`
test ! -e `+r.path("refuse")+` || test "$APP_PASSWORD" = "$(cat `+r.path("refuse")+`)" || exit 3
exec sleep 600
`)
	stop := r.run("  app: {lease: db, prefix: APP_, exec: {command: [" + app + "], ready_after: 200ms}}\n")
	last := func() string {
		lines := strings.Fields(r.file("runs"))
		if len(lines) == 0 {
			return ""
		}
		return lines[len(lines)-1]
	}
	r.await("the application", func() bool { return last() != "" && last() == r.committed("db", "password") })
	first := last()
	r.rotate("db")
	r.await("its restart", func() bool { return last() != first && last() == r.committed("db", "password") })
	second := last()
	r.write("refuse", second)
	r.rotate("db")
	r.await("the roll back", func() bool { return len(r.events(events.TypeRolledBack, "db")) == 1 })
	if last() != second || r.committed("db", "password") != second {
		t.Error("it does not run with the old credential")
	}
	stop()
	r.await("the agent's leave", func() bool { return len(r.events(events.TypeLeft, "db")) == 1 })
	r.noSecretsShow(first, second)
}

// TestOneTargetDoesNotStopAnother: a directory that is not there, a template that
// misses a key, an unknown document.
func TestOneTargetDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db")+lease("other")+lease("third"))
	r.run("  bad: {lease: db, file: none/out.json}\n  worse: {lease: third, format: template, template: \"{{ .nothing }}\", file: worse}\n" +
		"  unknown: {document: unknown, file: unknown.json}\n  good: {lease: other, file: good.json}\n")
	r.await("the good one", func() bool { return r.seen("good.json") != "" && len(r.events(events.TypeInstalled, "other")) == 1 })
	r.await("the noes", func() bool {
		return len(r.events(events.TypeRolledBack, "db")) > 0 && len(r.events(events.TypeRolledBack, "third")) > 0
	})
	for _, name := range []string{"db", "third"} {
		d := r.events(events.TypePrepared, name)[0].Data.(*events.Prepared)
		if d.Yes || !strings.Contains(d.Reason, "target") {
			t.Errorf("%+v", d)
		}
	}
	if r.file("worse") != "" {
		t.Error("a file that could not be rendered is there")
	}
}

// TestC45_APathThatAnswers500 holds no other lease up, and no document that it is
// not in.
func TestC45_APathThatAnswers500(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db")+"  bad: {path: kv/bad, consumers: [{name: app}]}\n")
	fault := r.vault.Inject(devvault.Fault{Method: "GET", Path: "kv/bad", Status: 500, Body: `{"errors":["no"]}`})
	r.put("good", 0, `{"password":"lease://db#password"}`)
	r.put("both", 0, `{"password":"lease://db#password","bad":"lease://bad#key"}`)
	r.run("  bad: {lease: bad, file: bad.json}\n  both: {document: both, file: both.json}\n  good: {document: good, file: good.json}\n")
	r.await("the good one", func() bool { return r.seen("good.json") != "" && r.seen("good.json") == r.committed("db", "password") })
	first := r.seen("good.json")
	r.await("the fault", func() bool { return fault.Hits() > 0 })
	r.rotate("db")
	r.await("its rotation", func() bool {
		return r.seen("good.json") != first && r.seen("good.json") == r.committed("db", "password")
	})
	if r.file("bad.json") != "" || r.file("both.json") != "" {
		t.Error("a file is there without its values")
	}
	r.do("kv/bad", map[string]any{"key": "k3y-at-last"})
	fault.Remove()
	r.await("the others", func() bool {
		return strings.Contains(r.file("bad.json"), "k3y-at-last") && strings.Contains(r.file("both.json"), "k3y-at-last") && r.seen("both.json") == r.committed("db", "password")
	})
}

// TestC48_NothingReachesTheApplicationBeforeItIsProven: a new account that works
// only after a while is tried by the verifier within its budget, and until then the
// file and the application know nothing of it.
func TestC48_NothingReachesTheApplicationBeforeItIsProven(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	works := filepath.Join(dir, "works")
	check := filepath.Join(dir, "check")
	if err := os.WriteFile(check, []byte("#!/bin/sh\necho x >> "+dir+"/tries\ntest -e "+works+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(works, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, lease("db")+"    verifier: {kind: command, command: ["+check+"], pass: stdin, timeout: 30s}\n", "verifier_commands: ["+check+"]\n")
	told := r.write("told-by", "#!/bin/sh\necho x >> "+r.path("told")+"\n")
	r.run("  app: {lease: db, file: out.json, hook: {command: [" + told + "]}}\n")
	r.await("the commit", func() bool { return len(r.events(events.TypeInstalled, "db")) == 1 && r.file("told") == "x\n" })
	first := r.seen("out.json")
	if err := os.Remove(works); err != nil {
		t.Fatal(err)
	}
	tries := func() int { b, _ := os.ReadFile(filepath.Join(dir, "tries")); return strings.Count(string(b), "x") }
	before := tries()
	r.rotate("db")
	r.await("some tries", func() bool { return tries() >= before+3 })
	if r.seen("out.json") != first || r.file("told") != "x\n" || len(r.events(events.TypeHandoverStarted, "db")) != 1 {
		t.Error("the application was asked about an account that does not work")
	}
	if err := os.WriteFile(works, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.await("the rotation", func() bool { return r.seen("out.json") != first && len(r.events(events.TypeInstalled, "db")) == 2 })
}

// TestOnceWritesAndTellsNobody.
func TestOnceWritesAndTellsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "  token: {path: kv/token, good_for: 200ms}\n")
	r.put("app", 0, `{"token":"lease://token#key","x":[1,2]}`)
	a, client := r.agent("  app: {document: app, format: env, file: app.env, hook: {command: [\"false\"]}}\n  token: {lease: token, file: token.json}\n")
	defer client.Close()
	done := make(chan error, 1)
	go func() { done <- a.Once(t.Context()) }()
	r.do("kv/token", map[string]any{"key": "S3cret-key"}) // it waits for what is not there yet
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := r.file("app.env"); got != "TOKEN=S3cret-key\nX_0=1\nX_1=2\n" {
		t.Errorf("%q", got)
	}
	if !strings.Contains(r.file("token.json"), "S3cret-key") || r.count(events.TypeRegistered) != 0 {
		t.Error("no file, or it registered")
	}
	r.noSecretsShow("S3cret-key")
}

// TestConfigurationMistakesHaveTheirPlace, those too that only show on this machine.
func TestConfigurationMistakesHaveTheirPlace(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), out: &text{}}
	_, err := agent.New(agent.Options{Config: r.configOf("  a: {lease: db, file: x, owner: no-such-user}\n" +
		"  b:\n    lease: db\n    file: y\n    format: template\n    template: \"{{ .a\"\n  c: {lease: db, file: z, format: template, template_file: none}\n")})
	for _, want := range []string{"agent.yaml:6:27: targets.a.owner: there is no user", "agent.yaml:11:5: targets.b.template: parsing the template", "template_file: it can't be read: no such file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func (r *rig) configOf(targets string) *config.Agent {
	r.t.Helper()
	cfg, err := config.ParseAgent("agent.yaml", []byte("nats: {url: \"nats://127.0.0.1\"}\nscope: prod\nconsumer: app\ninsecure: true\ntargets:\n"+targets))
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}
