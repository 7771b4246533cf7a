package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// between is the least time between two batches of a stream, so that a burst
	// is told at once and not event by event.
	between = 200 * time.Millisecond
	// beat is how often a stream says something though nothing is new: the
	// clocks and heartbeats go on, and a broken connection shows.
	beat = 2 * time.Second
	// writeWithin is how long a reader may take to take a batch.
	writeWithin = 30 * time.Second
)

// batch is what a stream tells at a time.
type batch struct {
	Seq     uint64 `json:"seq"`
	Now     int64  `json:"now"`
	Version string `json:"version"`
	// Complete: the events are all since the last batch, or since the sequence
	// that was asked for. Otherwise read everything again.
	Complete bool     `json:"complete"`
	Events   []Said   `json:"events"`
	Overview Overview `json:"overview"`
}

// live streams what is new as server-sent events. Each batch has the sequence
// that it reaches as its id, which a browser sends back after a reconnect.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	if h.streams.Add(1) > maxStreams {
		h.streams.Add(-1)
		respond(w, http.StatusServiceUnavailable, problem{Error: fmt.Sprintf("%d pages are open already", maxStreams)})
		return
	}
	defer h.streams.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ending, cancel)()
	s := stream{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if s.send("retry: 500\n\n") != nil {
		return
	}
	if !h.awaitReady(ctx, &s) {
		return
	}
	seq, known := lastEventID(r)
	for {
		events, complete, more := h.history.feed.after(seq)
		b := batch{Now: time.Now().UnixMilli(), Version: h.opts.Version, Complete: complete && known, Events: events, Overview: h.glance.of(h.history)}
		b.Seq = h.history.next() - 1 // the overview may be a little older
		if b.Seq < seq {             // another log than the one that was read before
			b.Complete = false
		}
		if !known {
			b.Events = events[max(0, len(events)-100):]
		}
		if events == nil {
			b.Events = []Said{}
		}
		// The overview may know more than the events that were taken before it: the
		// next batch begins where the events end.
		if n := len(events); n > 0 {
			seq = events[n-1].Seq
		} else if !b.Complete {
			seq = h.history.feed.floor()
		}
		known = true
		body, err := json.Marshal(b)
		if err != nil || s.send("id: %d\nevent: batch\ndata: %s\n\n", seq, body) != nil {
			return
		}
		if !wait(ctx, between, nil) {
			return
		}
		if b.Overview.Seq >= b.Seq && !wait(ctx, beat, more) { // an older overview is followed by its successor
			return
		}
	}
}

// lastEventID gives where a reader was; a browser's reconnect has it in a header,
// a page that makes its stream anew in the address.
func lastEventID(r *http.Request) (seq uint64, known bool) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil
}

// awaitReady says how far the log is read until it is.
func (h *Handler) awaitReady(ctx context.Context, s *stream) bool {
	for {
		ready, read := h.history.readiness()
		if ready {
			return true
		}
		if s.send("event: reading\ndata: {\"read\":%d}\n\n", read) != nil || !wait(ctx, between, nil) {
			return false
		}
	}
}

// wait waits for a time, or until a channel is closed; false: ctx ended.
func wait(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-early:
		return true
	case <-ctx.Done():
		return false
	}
}

// floor gives the sequence after which all events are kept.
func (f *feed) floor() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.kept); n > 0 {
		return f.kept[n-1].Seq
	}
	return f.since
}

type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *stream) send(format string, args ...any) error {
	// A writer that knows no deadlines (a test's) does without.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil { //nolint:gosec // JSON in an event stream: no browser takes it for markup
		return err
	}
	return s.control.Flush()
}

// glance is the overview of the present, made once for all who look.
type glance struct {
	mu   sync.Mutex
	made time.Time
	last Overview
}

// fresh is how long an overview is given again though something is new.
const fresh = between

func (g *glance) of(h *History) Overview {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.made) < fresh && g.last.Ready {
		return g.last
	}
	o := h.Overview(Now)
	h.presence.into(&o)
	g.made, g.last = time.Now(), o
	return o
}
