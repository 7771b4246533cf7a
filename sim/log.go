package sim

import (
	"bytes"

	"github.com/leasesvc/leasesvc/events"
)

// stream is the simulated log: it stores what comes under the fence in force,
// whole batches or nothing.
type stream struct {
	w       *world
	records []record
	opened  uint64 // sequence of the last opened: the fence
}

// record is a stored event. With the real codec it has its bytes and the chain
// after it.
type record struct {
	event   *events.Event
	payload []byte
	chain   events.Chain
}

// last gives the sequence of the last record.
func (s *stream) last() uint64 { return uint64(len(s.records)) }

func (s *stream) at(seq uint64) *record { return &s.records[seq-1] }

// payloads gives what is stored, in its order.
func (s *stream) payloads() [][]byte {
	out := make([][]byte, len(s.records))
	for i := range s.records {
		out[i] = s.records[i].payload
	}
	return out
}

// lastOpened gives the fence and the epoch in force, 0 and 0 at the start.
func (s *stream) lastOpened() (seq, epoch uint64) {
	if s.opened == 0 {
		return 0, 0
	}
	return s.opened, s.at(s.opened).event.Epoch
}

// store appends events on the expectation of a fence; false: refused, and
// nothing is stored.
func (s *stream) store(expect uint64, evs []events.Event, payloads [][]byte) bool {
	if expect != s.opened && s.w.opts.Mutant != NoFence {
		return false
	}
	for i := range evs {
		e := evs[i]
		e.Seq = s.last() + 1
		r := record{event: &e}
		if s.w.codec {
			r.payload = payloads[i]
		}
		s.records = append(s.records, r)
		if e.Type() == events.TypeOpened {
			s.opened = e.Seq
		}
		s.w.stored(s.at(e.Seq))
	}
	return true
}

// holds gives the last of an append's events if they are in the log behind after.
func (s *stream) holds(id string, after uint64) (seq uint64, ok bool) {
	for i := s.last(); i > after; i-- {
		if s.at(i).event.ID == id {
			return i, true
		}
	}
	return 0, false
}

// secretMark begins every secret value of the simulated Vault.
const secretMark = "S3CR3T"

// stored folds a record into the truth and checks what an event can break.
func (w *world) stored(r *record) {
	e := r.event
	if w.opts.Trace {
		w.notef("%d %s/%d %s: %s", e.Seq, e.Name, e.Lease, e.Type(), events.Sentence(e))
	}
	w.checkEpoch(e)
	before := w.before(e)
	if w.codec {
		if bytes.Contains(r.payload, []byte(secretMark)) {
			w.failf("I7", "sequence %d holds a secret value", e.Seq)
		}
		got, err := w.truth.Apply(e.Seq, r.payload)
		if err != nil || got == nil {
			_, why := w.truth.Skipped()
			w.failf("I6", "sequence %d (%s) does not count: %v %v", e.Seq, e.Type(), err, why)
		}
		r.event = got
		r.chain = w.truth.Chain()
	} else if err := w.truth.Adopt(e); err != nil {
		w.failf("I6", "sequence %d does not fit: %v", e.Seq, err)
	}
	w.checkEvent(r.event, before)
}
