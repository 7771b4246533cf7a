package pgxlease

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestAPoolClosesAfterTheLastWhoEntered(t *testing.T) {
	cfg, err := pgxpool.ParseConfig("host=127.0.0.1") // never connected to
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &leased{pool: pool, lastLeft: make(chan struct{}), drained: make(chan struct{})}
	var work sync.WaitGroup
	for range 2 {
		if !l.enter() {
			t.Fatal("an open pool turns work away")
		}
	}
	l.drain(&work)
	l.drain(&work) // once is enough
	if l.enter() {
		t.Error("a closing pool takes work")
	}
	l.leave()
	select {
	case <-l.drained:
		t.Error("closed with somebody inside")
	default:
	}
	l.leave()
	select {
	case <-l.drained:
	case <-time.After(10 * time.Second):
		t.Error("not closed 10 s after the last left")
	}
	work.Wait()
}
