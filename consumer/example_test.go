package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
)

// exampleT stands in for the test that an example is not.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (*exampleT) Helper()            {}
func (e *exampleT) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }
func (*exampleT) Fatal(args ...any)  { panic(fmt.Sprint(args...)) }
func (e *exampleT) end()             { e.each(func(f func()) { f() }) }
func (e *exampleT) each(do func(func())) {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		do(e.cleanups[i])
	}
}

// exampleScope starts a NATS server and a scripted holder of the scope "demo"
// with the name "orders-db". An application has the real ones.
func exampleScope() (*exampleT, *nats.Conn, *consumertest.Holder) {
	t := &exampleT{}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("no NATS server")
	}
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	holder := consumertest.Start(t, nc, "demo")
	holder.Define("orders-db")
	holder.Install("orders-db", holder.Candidate("v-orders-1", `{"username":"v-orders-1","password":"s3cret"}`))
	return t, nc, holder
}

func ExampleClient_Get() {
	t, nc, holder := exampleScope()
	defer t.end()
	ctx := context.Background()

	client, err := consumer.Connect(ctx, consumer.Options{
		Conn: nc, Scope: "demo", Consumer: "report",
		ServiceKey: holder.ServiceKey(), // pinned, from `leasesvc status`
		Insecure:   true,                // without a Seed of its own
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	cred, err := client.Get(ctx, "orders-db")
	if err != nil {
		fmt.Println(err)
		return
	}
	password, _ := cred.Get("password")
	fmt.Println(cred)
	fmt.Println(password, len(password.Reveal()))
	// Output:
	// demo/orders-db lease 1 (v-orders-1)
	// [redacted] 6
}

func ExampleClient_Serve() {
	t, nc, holder := exampleScope()
	defer t.end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	client, err := consumer.Connect(ctx, consumer.Options{
		Conn: nc, Scope: "demo", Consumer: "orders-api", Instance: "orders-api-0",
		ServiceKey: holder.ServiceKey(), Insecure: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	moved := make(chan struct{}, 8)
	served := make(chan error)
	go func() {
		served <- client.Serve(ctx, "orders-db", consumer.Reconnect(func(_ context.Context, c consumer.Credential) error {
			// Log in with c, and return nil only when that has worked.
			fmt.Println("moved to", c)
			moved <- struct{}{}
			return nil
		}))
	}()
	<-moved

	// The service rotates.
	next := holder.Candidate("v-orders-2", `{"username":"v-orders-2","password":"s3cret"}`)
	if _, err := holder.Rotate(ctx, "orders-db", next, 5*time.Second); err != nil {
		fmt.Println(err)
	}

	stop()
	fmt.Println("left:", <-served)
	// Output:
	// moved to demo/orders-db lease 1 (v-orders-1)
	// moved to demo/orders-db lease 2 (v-orders-2)
	// left: <nil>
}
