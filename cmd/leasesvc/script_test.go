package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"leasesvc": main})
}

var update = flag.Bool("update", false, "write what the commands print now into the scripts")

// TestScripts runs the program as a person would: what it prints, and what it
// exits with. Scripts that begin with "service-" find NATS and a Vault, those
// that begin with "permitted-" a NATS with permissions as well, those that begin
// with "log-" the export of a log, log.jsonl.
func TestScripts(t *testing.T) {
	key, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
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
			switch script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"); {
			case strings.HasPrefix(script, "service-"):
				return withServers(env, natstest.Start(t))
			case strings.HasPrefix(script, "permitted-"):
				ns, err := withPermissions(t, env)
				if err != nil {
					return err
				}
				return withServers(env, ns)
			case strings.HasPrefix(script, "log-"):
				return newHistory(t).live().write(env.WorkDir)
			default:
				return nil
			}
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCodeIs,
			"onterminal": onTerminal,
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
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
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
