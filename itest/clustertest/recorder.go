package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// Seen is an event as the recorder was given it.
type Seen struct {
	events.Event
	// At is when it came here, Stored when the server stored it.
	At, Stored time.Time
}

// Recorder follows the log of all scopes on a connection of its own.
type Recorder struct {
	d   *Deployment
	log *journal.Log

	mu    sync.Mutex
	seen  []Seen        // in the order of the log
	more  chan struct{} // closed at the next event, then made anew
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// Record begins to follow the log; the stream must exist, or come within a
// minute.
func (d *Deployment) Record() *Recorder {
	d.t.Helper()
	r := &Recorder{d: d, log: OpenLog(d.t, d.JS(d.t), journal.Config{}), more: make(chan struct{})}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.ended.Go(func() {
		next := uint64(1)
		for ctx.Err() == nil {
			err := r.log.Follow(ctx, "", next, func(m journal.Message) error {
				next = m.Seq + 1
				r.note(m)
				return nil
			})
			if ctx.Err() == nil {
				d.t.Logf("recorder: %v", err)
				<-time.After(200 * time.Millisecond)
			}
		}
	})
	d.t.Cleanup(func() {
		r.stop()
		r.ended.Wait()
	})
	return r
}

// OpenLog opens the log, waiting for its stream, until t's end.
func OpenLog(t testing.TB, js jetstream.JetStream, cfg journal.Config) (log *journal.Log) {
	t.Helper()
	var err error
	Await(t, readyWithin, "the log's stream", func() bool {
		ctx, cancel := bounded(2 * time.Second)
		defer cancel()
		log, err = journal.Open(ctx, js, cfg)
		if errors.Is(err, journal.ErrSettings) {
			t.Fatalf("clustertest: %v", err)
		}
		return err == nil
	})
	t.Cleanup(log.Close)
	return log
}

func (r *Recorder) note(m journal.Message) {
	at := time.Now()
	e, err := events.Decode(m.Payload, m.Seq)
	if err != nil {
		r.d.t.Errorf("recorder: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, Seen{Event: e, At: at, Stored: m.Stored})
	close(r.more)
	r.more = make(chan struct{})
}

// Select gives the events that match, in order.
func (r *Recorder) Select(match func(*Seen) bool) (out []Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.seen {
		if match(&r.seen[i]) {
			out = append(out, r.seen[i])
		}
	}
	return out
}

// Takeovers gives the opened events above a sequence by which somebody took a
// scope: all but those that settle an outcome.
func (r *Recorder) Takeovers(above uint64) []Seen {
	return r.Select(func(s *Seen) bool {
		d, ok := s.Data.(*events.Opened)
		return ok && s.Seq > above && d.How != events.HowReopened
	})
}

// Last is the highest sequence that was seen.
func (r *Recorder) Last() (last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) > 0 {
		last = r.seen[len(r.seen)-1].Seq
	}
	return last
}

// AwaitMatch waits for an event above a sequence that matches, and gives the
// first.
func (r *Recorder) AwaitMatch(what string, above uint64, within time.Duration, match func(*Seen) bool) (found Seen) {
	r.d.t.Helper()
	r.AwaitEach(what, above, within, func(s *Seen) bool {
		if match(s) {
			found = *s
			return true
		}
		return false
	})
	return found
}

// AwaitEach calls done with each event above a sequence, in order, until it
// says so.
func (r *Recorder) AwaitEach(what string, above uint64, within time.Duration, done func(*Seen) bool) {
	r.d.t.Helper()
	timeout := time.After(within)
	for next := r.from(above); ; {
		r.mu.Lock()
		fresh, more := r.seen[next:], r.more
		r.mu.Unlock()
		for i := range fresh {
			if done(&fresh[i]) {
				return
			}
		}
		next += len(fresh)
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-more:
		case <-timeout:
			r.d.t.Fatalf("clustertest: waited %v for %s", within, what)
		}
	}
}

// from gives the place of the first event above a sequence.
func (r *Recorder) from(above uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.seen, above+1, func(s Seen, seq uint64) int { return cmp.Compare(s.Seq, seq) })
	return i
}

// told finds the events that an instance said were in the log.
var told = regexp.MustCompile(`(?m)msg=event scope=(\S+)(?: epoch=\d+)? seq=(\d+) epoch=(\d+) .*?type=(\S+)`)

// Checked is what [Recorder.Check] found.
type Checked struct {
	Events, Told, Takeovers, Reopened int
	Epochs                            map[string][]uint64
}

// Check reads the log as it is now and compares: what was followed and what the
// instances said was in the log still stands there, no event stands twice, each
// scope's log folds from the beginning to the end without a skipped event and
// without a break in its MAC chain, and epochs grow (I1).
func (r *Recorder) Check(instances ...*Instance) Checked {
	t := r.d.t
	t.Helper()
	out := Checked{Epochs: map[string][]uint64{}}
	// What was said before the log is read: it grows on.
	followed := r.Select(func(*Seen) bool { return true })
	said := map[string]string{}
	for _, in := range instances {
		said[in.Name] = in.Output()
	}
	log := OpenLog(t, r.d.JS(t), journal.Config{})
	ctx, cancel := bounded(2 * time.Minute)
	defer cancel()
	stored := map[uint64]events.Event{}
	ids := map[string]uint64{}
	folds := map[string]*projector.Projection{}
	err := log.Replay(ctx, "", 1, ^uint64(0), func(m journal.Message) error {
		scope, _, _, err := events.ParseSubject(m.Subject)
		if err != nil {
			return err
		}
		p := folds[scope]
		if p == nil {
			p = projector.New(scope, r.d.Keys.MACKey())
			folds[scope] = p
		}
		seq, payload := m.Seq, m.Payload
		e, err := p.Apply(seq, payload)
		if err != nil {
			return err
		}
		if e == nil {
			_, why := p.Skipped()
			t.Errorf("sequence %d does not count: %v", m.Seq, why)
			return nil
		}
		if at, twice := ids[e.ID]; twice {
			t.Errorf("event %s stands at %d and at %d", e.ID, at, m.Seq)
		}
		ids[e.ID], stored[m.Seq] = m.Seq, *e
		out.Events++
		d, opened := e.Data.(*events.Opened)
		switch {
		case opened && d.How == events.HowReopened:
			out.Reopened++
		case opened:
			out.Takeovers++
			out.Epochs[scope] = append(out.Epochs[scope], e.Epoch)
		}
		return nil
	})
	if err != nil {
		t.Errorf("reading the whole log: %v", err)
	}
	for scope, epochs := range out.Epochs {
		for i := 1; i < len(epochs); i++ {
			if epochs[i] <= epochs[i-1] {
				t.Errorf("I1: scope %s: epoch %d opened after %d", scope, epochs[i], epochs[i-1])
			}
		}
	}
	for _, s := range followed {
		if e, ok := stored[s.Seq]; !ok || e.ID != s.ID {
			t.Errorf("%s %s was followed at %d; there stands %s %q", s.Type(), s.ID, s.Seq, typeOf(ok, e), e.ID)
		}
	}
	for name, output := range said {
		for _, m := range told.FindAllStringSubmatch(output, -1) {
			seq, err := strconv.ParseUint(m[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			e, ok := stored[seq]
			if !ok || e.Scope != m[1] || string(e.Type()) != m[4] || strconv.FormatUint(e.Epoch, 10) != m[3] {
				t.Errorf("%s said that %s of epoch %s stands at %d; there stands %s of epoch %d", name, m[4], m[3], seq, typeOf(ok, e), e.Epoch)
			}
			out.Told++
		}
	}
	return out
}

func typeOf(there bool, e events.Event) string {
	if !there {
		return "nothing"
	}
	return string(e.Type())
}

// holderIn reads the holder id of a state directory; empty when there is none
// yet.
func holderIn(t testing.TB, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "incarnation.json"))
	if err != nil {
		return ""
	}
	var v struct {
		Holder string `json:"holder"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	return v.Holder
}
