package service_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

// TestMain lets more tests run at a time than there are cores, unless told how
// many: they wait for a lease's second far more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	// Storing a snapshot starts a goroutine of the client's that reads a channel
	// which the end of a quick store has taken away already (nats.go 1.55).
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

func TestLifeOfALease(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	s := &shop{rig: r}
	r.run("state-a")
	r.serve(s)
	r.await("the first commit", func() bool { return s.lease() == 1 })

	client := api.NewClient(r.nats.Conn(t))
	scopes, err := client.Scopes(context.Background(), 300*time.Millisecond)
	if err != nil || len(scopes) != 1 || scopes[0] != "prod" {
		t.Fatalf("led: %v, %v", scopes, err)
	}
	if _, err := client.Rotate(context.Background(), "prod", "app"); err != nil {
		t.Fatal(err)
	}
	r.await("the rotation", func() bool { return s.lease() == 2 })
	r.await("the old lease's revocation", func() bool { return len(r.events(events.TypeRevoked)) == 1 })
	users, err := r.accts.List(context.Background())
	if err != nil || len(users) != 1 {
		t.Fatalf("accounts at the end: %v, %v", users, err)
	}

	// A consumer that says no keeps what it has.
	s.answer(fmt.Errorf("not today"))
	if _, err := client.Rotate(context.Background(), "prod", "app"); err != nil {
		t.Fatal(err)
	}
	r.await("the roll back", func() bool { return len(r.events(events.TypeRolledBack)) == 1 })
	r.await("the candidate's revocation", func() bool { return len(r.events(events.TypeRevoked)) == 2 })
	if s.lease() != 2 {
		t.Fatalf("the consumer is on lease %d", s.lease())
	}
	st, err := client.Status(context.Background(), "prod")
	if err != nil || st.Usable != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	table, err := client.Leases(context.Background(), "prod")
	if err != nil || len(table.Names) != 1 || table.Names[0].Active != 2 || len(table.Names[0].Consumers) != 1 || !table.Names[0].Consumers[0].Follows {
		t.Fatalf("%+v, %v", table, err)
	}
}
