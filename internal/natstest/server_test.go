package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addStream(t *testing.T, js jetstream.JetStream, replicas int) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "LOG", Subjects: []string{"log.>"}, Storage: jetstream.FileStorage, Replicas: replicas,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// publish tries again for as long as no leader answers.
func publish(t *testing.T, js jetstream.JetStream, subject string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, 500*time.Millisecond)
		ack, err := js.Publish(try, subject, nil)
		done()
		if err == nil {
			return ack.Sequence
		}
		if ctx.Err() != nil {
			t.Fatalf("publish on %s: %v", subject, err)
		}
	}
}

func TestRestartKeepsURLAndStreams(t *testing.T) {
	s := natstest.Start(t, natstest.SyncAlways())
	js := s.JS(t)
	addStream(t, js, 1)
	publish(t, js, "log.a")
	url := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Fatalf("the URL was %s and is %s", url, s.URL())
	}
	if seq := publish(t, js, "log.b"); seq != 2 {
		t.Fatalf("after the restart the second message has sequence %d", seq)
	}
	if varz, err := s.Embedded().Varz(nil); err != nil || !varz.JetStream.Config.SyncAlways {
		t.Fatalf("SyncAlways was not applied: %+v, %v", varz.JetStream.Config, err)
	}
}

func TestStoppedServerRefuses(t *testing.T) {
	s := natstest.Start(t)
	s.Stop()
	s.Stop()
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Fatal("a stopped server answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Fatal("a running server was started again")
	}
	s.Conn(t)
}

func TestClusterSurvivesTheStreamLeader(t *testing.T) {
	c := natstest.Cluster(t, 3)
	js := c.JS(t)
	addStream(t, js, 3)
	publish(t, js, "log.a")
	first := c.AwaitStreamLeader(t, "LOG")
	c.Stop(first)
	// An attempt without an answer may have landed too, so 2 or more.
	if seq := publish(t, js, "log.b"); seq < 2 {
		t.Fatalf("without the first leader the second message has sequence %d", seq)
	}
	if second := c.StreamLeader("LOG"); second == first || second < 0 {
		t.Fatalf("server %d leads, and it was %d that was stopped", second, first)
	}
	if err := c.Start(first); err != nil {
		t.Fatal(err)
	}
	c.AwaitReady(t)
	if c.StreamLeader("NONE") != -1 {
		t.Fatal("a stream that does not exist has a leader")
	}
}
