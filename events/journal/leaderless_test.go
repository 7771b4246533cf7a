package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/internal/natstest"
)

// While the stream has no leader nobody answers what it is, so an opening that
// asked after each attempt would be late by a whole wait once there is one.
func TestC59_OpeningWithoutALeaderKeepsItsPace(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t, 3)
	p := &place{replicas: 3, url: c.URL()}
	claim(t, p.open(t, "", nil), "s", "a", 1)
	leader := c.AwaitStreamLeader(t, DefaultStream)
	// A server that does not lead: one that does believes so for a while longer.
	px := newProxy(t, c.Server((leader+1)%3).URL())
	l := p.open(t, px.url(), func(c *Config) { c.GiveUp = time.Second })
	last, err := l.LastOpened(background(t), "s")
	if err != nil {
		t.Fatal(err)
	}

	stopped := []int{leader, (leader + 2) % 3} // one of three leads nothing
	for _, i := range stopped {
		c.Stop(i)
	}
	for deadline := time.Now().Add(time.Minute); c.StreamLeader(DefaultStream) >= 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) { // it may have been handed the lead, and takes a while to notice that it is alone
			t.Fatal("one server of three leads the stream")
		}
	}
	var attempts, questions int
	enough := make(chan struct{})
	px.set(nil, func(subject, reply string) verdict {
		switch {
		case acks(reply):
			if attempts++; attempts == 40 {
				close(enough)
			}
		case strings.Contains(subject, ".STREAM.INFO."):
			questions++
		}
		return pass
	})
	opening := make(chan error, 1)
	go func() {
		ev, payload := opened(t, "s", "b", 2)
		_, err := l.AppendOpened(background(t), payload, ev, last.Seq)
		opening <- err
	}()
	select {
	case <-enough:
	case err := <-opening:
		t.Fatalf("with one server of three: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("not 40 attempts in a minute")
	}
	px.mu.Lock()
	if questions == 0 || questions > attempts/5 {
		t.Errorf("%d questions what the stream is, %d attempts", questions, attempts)
	}
	px.mu.Unlock()
	for _, i := range stopped {
		if err := c.Start(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-opening; err != nil {
		t.Fatal(err)
	}
}
