package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
)

// TestE18_StoppedWhileSteppingDown: who is told to stop while it gives a scope to a
// standby, or is just through with that, ends as one who was told to stop.
func TestE18_StoppedWhileSteppingDown(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, plainDefinition)
	stop := r.run("state")
	r.await("a lease", func() bool { return r.active("app") > 0 })
	// Something is in flight, so that the stop comes in between.
	g := r.hold("GET", "database/creds/app")
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("an acquisition", func() bool { return g.Hits() > 0 })
	r.done(r.api().StepDown(context.Background(), "prod"))
	r.await("it to be leaving", func() bool { return strings.Contains(r.out.String(), "bringing what is in flight to its end") })
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	g.pass()
	if err := <-ended; err != nil {
		t.Errorf("stopped in good order, it ended with: %v", err)
	}
	if r.count(events.TypeReleased) == 0 {
		t.Error("the scope was not released")
	}
}
