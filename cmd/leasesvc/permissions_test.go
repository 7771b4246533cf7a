package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/service"
)

// withPermissions gives a script a NATS server with the users and permissions
// that `leasesvc permissions` prints: $AS_SERVICE and so on are its URLs for
// each role. The server's violations are kept for the command violations.
func withPermissions(t *testing.T, env *testscript.Env) (*natstest.Server, error) {
	var roles []service.Permissions
	for _, role := range service.Roles() {
		roles = append(roles, service.PermissionsOf(role, service.PermissionOptions{Scopes: []string{"prod"}, Create: true}))
		t.Setenv("LEASESVC_"+strings.ToUpper(string(role))+"_PASSWORD", "pw-"+string(role))
	}
	text := service.PermissionsConf(roles, nil)
	file := filepath.Join(env.WorkDir, "accounts.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	configured, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w in\n%s", err, text)
	}
	ns := natstest.Start(t, func(o *server.Options) { o.Accounts, o.Users = configured.Accounts, configured.Users })
	seen := &violations{}
	ns.Embedded().SetLoggerV2(seen, false, false, false)
	env.Values[violationsKey] = seen
	for _, role := range service.Roles() {
		env.Setenv("AS_"+strings.ToUpper(string(role)), strings.Replace(ns.URL(), "nats://", "nats://"+string(role)+":pw-"+string(role)+"@", 1))
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "password"), []byte("pw-service"), 0o600); err != nil {
		return nil, err
	}
	return ns, nil
}

const violationsKey = "violations"

// violations is a NATS server's log of which what was refused is kept.
type violations struct {
	mu  sync.Mutex
	all []string
}

func (v *violations) Errorf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "Violation") {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all = append(v.all, line)
	}
}
func (*violations) Noticef(string, ...any) {}
func (*violations) Warnf(string, ...any)   {}
func (*violations) Fatalf(string, ...any)  {}
func (*violations) Debugf(string, ...any)  {}
func (*violations) Tracef(string, ...any)  {}

// await waits until the server has said of so many refusals: who is refused hears of
// it first.
func (v *violations) await(ts *testscript.TestScript, count int) (all []string) {
	for late := time.Now().Add(30 * time.Second); ; <-time.After(5 * time.Millisecond) {
		v.mu.Lock()
		all = v.all
		if len(all) >= count {
			v.all = nil
			v.mu.Unlock()
			return all
		}
		v.mu.Unlock()
		if time.Now().After(late) {
			ts.Fatalf("NATS refused %d times, not %d:\n%s", len(all), count, strings.Join(all, "\n"))
		}
	}
}

// violationsAre checks what the server refused since it was last asked: nothing,
// or no more than what each of the texts names.
func violationsAre(ts *testscript.TestScript, _ bool, want []string) {
	said := ts.Value(violationsKey).(*violations).await(ts, len(want))
	all := strings.Join(said, "\n")
	if len(said) != len(want) {
		ts.Fatalf("NATS refused %d times:\n%s", len(said), all)
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			ts.Fatalf("NATS did not refuse %q, only:\n%s", w, all)
		}
	}
}

// refused publishes as somebody, and checks that NATS refuses it: refused URL
// SUBJECT ...
func refused(ts *testscript.TestScript, _ bool, args []string) {
	said := make(chan string, 16)
	nc, err := nats.Connect(args[0], nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said <- err.Error() }))
	ts.Check(err)
	defer nc.Close()
	subjects := args[1:]
	for _, subject := range subjects {
		ts.Check(nc.Publish(subject, []byte("{}")))
		select {
		case err := <-said:
			if !strings.Contains(err, "Permissions Violation for Publish to \""+subject) && !strings.Contains(strings.ToLower(err), strings.ToLower(subject)) {
				ts.Fatalf("%s: %s", subject, err)
			}
		case <-time.After(30 * time.Second):
			ts.Fatalf("publishing to %s is not refused", subject)
		}
	}
	ts.Value(violationsKey).(*violations).await(ts, len(subjects))
}

// takePart is an application that follows: takepart URL NAME. It registers, and
// takes part until the script ends.
func takePart(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := consumer.Connect(ctx, consumer.Options{URL: args[0], Scope: "prod", Consumer: "app", Instance: "app-0", Insecure: true})
	ts.Check(err)
	done := make(chan error, 1)
	app := &yesApp{taken: make(chan uint64, 16)}
	go func() { done <- client.Serve(ctx, args[1], app) }()
	ts.Defer(func() {
		cancel()
		<-done
		client.Close()
	})
	select {
	case <-app.taken:
	case err := <-done:
		ts.Fatalf("the application ended: %v", err)
	case <-time.After(40 * time.Second):
		ts.Fatalf("the application was never given %s", args[1])
	}
}

// yesApp says yes to everything.
type yesApp struct{ taken chan uint64 }

// Prepare implements consumer.Handler.
func (*yesApp) Prepare(context.Context, consumer.Credential) error { return nil }

// Commit implements consumer.Handler.
func (a *yesApp) Commit(_ context.Context, c consumer.Credential) error {
	select {
	case a.taken <- c.Lease:
	default:
	}
	return nil
}

// Revert implements consumer.Handler.
func (*yesApp) Revert(context.Context, consumer.Credential) error { return nil }
