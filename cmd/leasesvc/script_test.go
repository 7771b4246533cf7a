package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

// plainProgram builds the program without the race detector, and gives its
// directory: the scripts start it a thousand times, and each start costs ten times as
// much with it. What runs for longer is raced in the tests of its packages.
func plainProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", dir, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"leasesvc": main})
}

var update = flag.Bool("update", false, "write what the commands print now into the scripts")

// TestScripts runs the program as a person would: what it prints, and what it
// exits with. Scripts that begin with "service-" find NATS and a Vault, those
// that begin with "permitted-" a NATS with permissions as well, those that begin
// with "log-" the export of a log, log.jsonl, and those that begin with "stored-" such
// an export and a NATS to store it in.
func TestScripts(t *testing.T) {
	key, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	programs := os.Getenv("PATH")
	if raced {
		programs = plainProgram(t) + string(os.PathListSeparator) + programs
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			if err := os.WriteFile(filepath.Join(env.WorkDir, "seal.key"), []byte(key.Reveal()), 0o600); err != nil {
				return err
			}
			env.Setenv("TZ", "UTC")
			env.Setenv("PATH", programs)
			root, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			switch script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"); {
			case strings.HasPrefix(script, "service-"):
				return withServers(env, natstest.Start(t))
			case strings.HasPrefix(script, "permitted-"):
				ns, err := withPermissions(t, env)
				if err != nil {
					return err
				}
				return withServers(env, ns)
			case strings.HasPrefix(script, "log-"), strings.HasPrefix(script, "stored-"):
				if err := newHistory(t).wide().export(filepath.Join(env.WorkDir, "wide.jsonl")); err != nil {
					return err
				}
				h := newHistory(t).live()
				if err := h.write(env.WorkDir); err != nil {
					return err
				}
				if err := h.later().export(filepath.Join(env.WorkDir, "future.jsonl")); err != nil || strings.HasPrefix(script, "log-") {
					return err
				}
				env.Setenv("NATS", natstest.Start(t).URL())
				env.Setenv("LEASESVC_SERVER", env.Getenv("NATS"))
				return nil
			default:
				return nil
			}
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCodeIs,
			"onterminal": onTerminal,
			"masked":     masked,
			"alike":      alike,
			"silent":     silent,
			"accepted":   accepted,
			"publish":    publish,
			"refused":    refused,
			"takepart":   takePart,
			"deletestream": func(ts *testscript.TestScript, _ bool, args []string) {
				nc, err := nats.Connect(ts.Getenv("NATS"))
				ts.Check(err)
				defer nc.Close()
				js, err := jetstream.New(nc)
				ts.Check(err)
				ts.Check(js.DeleteStream(context.Background(), args[0]))
			},
			"violations": violationsAre,
			"store":      store,
			"lose":       lose,
			"eventually": func(ts *testscript.TestScript, neg bool, args []string) {
				eventually(ts, args)
			},
		},
	})
}

// exitCodeIs runs a command and checks its exit code: exitcode 2 leasesvc ...
func exitCodeIs(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if code, ok := err.(interface{ ExitCode() int }); ok {
		got = fmt.Sprint(code.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s (%v)", got, args[0], err)
	}
}

// silent is a server that takes connections and says nothing: $SILENT.
func silent(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	taken := make(chan net.Conn, 64)
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken <- conn
		}
	})
	ts.Defer(func() {
		_ = l.Close()
		ended.Wait()
		for len(taken) > 0 {
			_ = (<-taken).Close()
		}
	})
	ts.Setenv("SILENT", "nats://"+l.Addr().String())
	silents.Store(ts.Getenv("WORK"), taken)
}

// silents are the connections that a script's silent server has, by its directory.
var silents sync.Map

// accepted waits until the last of them is there: the one before is gone.
func accepted(ts *testscript.TestScript, _ bool, _ []string) {
	taken, _ := silents.Load(ts.Getenv("WORK"))
	for range 2 {
		select {
		case conn := <-taken.(chan net.Conn):
			ts.Defer(func() { _ = conn.Close() })
		case <-time.After(30 * time.Second):
			ts.Fatalf("nobody connects")
		}
	}
}

// store makes the stream of an export, whatever stands in it: store FILE
func store(ts *testscript.TestScript, _ bool, args []string) {
	log, err := readExport(ts.MkAbs(args[0]))
	ts.Check(err)
	nc, err := nats.Connect(ts.Getenv("NATS"))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := js.DeleteStream(ctx, journal.DefaultStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		ts.Fatalf("%v", err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: journal.DefaultStream, Subjects: []string{events.SubjectRoot + ".>"}})
	ts.Check(err)
	for _, m := range log {
		ack, err := js.Publish(ctx, m.Subject, m.Payload)
		ts.Check(err)
		if ack.Sequence != m.Seq {
			ts.Fatalf("sequence %d is stored as %d", m.Seq, ack.Sequence)
		}
	}
}

// lose deletes a message of the stream: lose SEQUENCE
func lose(ts *testscript.TestScript, _ bool, args []string) {
	seq, err := strconv.ParseUint(args[0], 10, 64)
	ts.Check(err)
	nc, err := nats.Connect(ts.Getenv("NATS"))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, journal.DefaultStream)
	ts.Check(err)
	ts.Check(s.SecureDeleteMsg(ctx, seq))
}

// publish puts a message into the stream, past every rule: publish SUBJECT TEXT
func publish(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(ts.Getenv("NATS"))
	ts.Check(err)
	defer nc.Close()
	_, err = nc.Request(args[0], []byte(args[1]), 10*time.Second) // the stream acknowledges it
	ts.Check(err)
}

// eventually runs a command until it succeeds.
func eventually(ts *testscript.TestScript, args []string) {
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			if b, err := os.ReadFile(ts.MkAbs("screen.txt")); err == nil {
				ts.Logf("the screen:\n%s", b)
			}
			ts.Fatalf("%v never succeeded: %v", args, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

var terminals atomic.Int64

// withServers gives a script NATS ($NATS) and a Vault ($VAULT, $TOKEN) with two
// secrets in it.
func withServers(env *testscript.Env, ns *natstest.Server) error {
	v, err := devvault.New(devvault.Config{})
	if err != nil {
		return err
	}
	if err := v.Start("127.0.0.1:0"); err != nil {
		return err
	}
	env.Defer(v.Close)
	for path, body := range map[string]any{
		"auth/token/roles/leasesvc": map[string]any{"orphan": true, "renewable": true},
		"secret/data/mail":          map[string]any{"data": map[string]any{"user": "postmaster", "password": "s3cret-of-mail", "port": 0, "tls": false}},
	} {
		if _, err := v.Do(context.Background(), "POST", path, body); err != nil {
			return err
		}
	}
	// The terminals of a script are a server's of their own, which it leaves empty.
	name := fmt.Sprintf("leasesvc-test-%d-%d", os.Getpid(), terminals.Add(1))
	env.Setenv("TMUXNAME", name)
	env.Defer(func() { _ = exec.Command("tmux", "-L", name, "kill-server").Run() })
	env.Setenv("NATS", ns.URL())
	env.Setenv("LEASESVC_SERVER", ns.URL())
	env.Setenv("VAULT", v.URL())
	env.Setenv("TOKEN", v.RootToken().Reveal())
	return nil
}
