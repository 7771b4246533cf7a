package instance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/internal/garbage"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

// configFile names, in the child, the service file that it runs with.
const configFile = "LEASESVC_BENCH_INSTANCE"

// Main gives what TestMain is to run: the tests or, in a child, an instance.
func Main(m *testing.M) interface{ Run() int } {
	if file := os.Getenv(configFile); file != "" {
		return child(file)
	}
	return m
}

// child is this process as an instance: the name of its service file.
type child string

func (c child) Run() int {
	garbage.Floor() // as the program has it
	if err := c.run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// question is one of the parent's.
type question struct {
	Collect bool          `json:"collect,omitempty"` // the garbage, before the answer
	Type    events.Type   `json:"type,omitempty"`    // answer once there are so many of these,
	Count   int           `json:"count,omitempty"`
	Within  time.Duration `json:"within,omitempty"` // or after this
}

// run runs an instance until in ends, and answers what is asked there.
func (c child) run(in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return err
	}
	cfg, err := config.Parse(string(c), text)
	if err != nil {
		return err
	}
	seen := &tally{counts: map[events.Type]int{}, changed: make(chan struct{})}
	svc, err := service.New(cfg, service.Options{Version: "bench", Logger: slog.New(slog.DiscardHandler), OnEvent: seen.add})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	asked, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var q question
		if err := asked.Decode(&q); errors.Is(err, io.EOF) {
			cancel()
			return <-done
		} else if err != nil {
			return err
		}
		if q.Type != "" {
			seen.await(q.Type, q.Count, q.Within)
		}
		f, err := figures(q.Collect)
		if err != nil {
			return err
		}
		for scope := range cfg.Scopes {
			if _, err := svc.Get(ctx, scope, "nobody"); errors.Is(err, leasecore.ErrUnknownName) {
				f.Led++
			}
		}
		f.Events = seen.copy()
		if err := answers.Encode(f); err != nil {
			return err
		}
	}
}

// figures gives those of the process.
func figures(collect bool) (f Figures, err error) {
	if collect {
		runtime.GC()
		runtime.GC() // what the first one made free of finalizers
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.Heap = m.HeapAlloc - garbage.FloorSize
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return f, err
	}
	f.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	return f, nil
}

// tally counts the events of the log.
type tally struct {
	mu      sync.Mutex
	counts  map[events.Type]int
	changed chan struct{} // closed and replaced with each event
}

func (s *tally) add(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[e.Type()]++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *tally) copy() map[events.Type]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[events.Type]int, len(s.counts))
	for typ, n := range s.counts {
		out[typ] = n
	}
	return out
}

// await returns once there were so many events of a type, or the time is up.
func (s *tally) await(typ events.Type, count int, within time.Duration) {
	limit := time.After(within)
	for {
		s.mu.Lock()
		have, changed := s.counts[typ], s.changed
		s.mu.Unlock()
		if have >= count {
			return
		}
		select {
		case <-changed:
		case <-limit:
			return
		}
	}
}
