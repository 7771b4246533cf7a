package sessions

import (
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
)

func TestSessionsCloseAfterTheLastWhoEntered(t *testing.T) {
	shut := make(chan string, 1)
	k := newKept(consumer.Credential{Lease: 1}, "sessions", func(s string) { shut <- s })
	var work sync.WaitGroup
	for range 2 {
		if !k.enter() {
			t.Fatal("open sessions turn work away")
		}
	}
	k.drain(&work)
	k.drain(&work) // once is enough
	if k.enter() || k.open() {
		t.Error("closing sessions take work")
	}
	k.leave()
	select {
	case <-k.drained:
		t.Error("closed with somebody inside")
	default:
	}
	k.leave()
	select {
	case <-k.drained:
	case <-time.After(30 * time.Second):
		t.Error("not closed 30 s after the last left")
	}
	work.Wait()
	if <-shut != "sessions" {
		t.Error("something else was closed")
	}
}
