package sim

import "time"

// flightKind is what is on its way.
type flightKind uint8

const (
	flyAppend   flightKind = iota // an append, to the log
	flyOpened                     // an opened event, to the log
	flyEffect                     // an effect, to Vault
	flyMessage                    // prepare, follow or revert, to an incarnation
	flyReply                      // an incarnation's reply, to a job
	flyRegister                   // a registration, to whoever leads
	flyAnswer                     // the answer to a registration
	flyLeave                      // a good-bye
	flyMove                       // an application's move comes to its end
	flyHeld                       // a registration that a mutant holds back
)

// flight is something under way: it arrives at any later time, in any order, or
// never; messages may arrive twice.
type flight struct {
	kind flightKind
	late bool // arrives only when it is picked for being late
	op   *op
	job  *job
	app  *application
	msg  message
	reg  registration
	ans  answer
	to   *instance
	term int
	move *task
}

// fly puts something under way. What travels between services and consumers may
// be lost, late or doubled.
func (w *world) fly(f *flight) {
	w.flights = append(w.flights, f)
	var name string
	switch f.kind {
	case flyMessage, flyReply:
		name = f.job.effect.Name
	case flyRegister, flyAnswer, flyLeave:
		name = f.app.name
	default:
		return
	}
	if w.peaceful {
		return
	}
	each := 3
	if f.kind == flyRegister || f.kind == flyAnswer {
		each = 8 // rare, and what is late of them is what P9 and P10 are about
	}
	switch v := w.choice.below(100); {
	case v >= 100-each:
		w.hit(MessageLost, name)
		w.flights = w.flights[:len(w.flights)-1]
	case v >= 100-2*each:
		w.hit(MessageLate, name)
		f.late = true
	case v >= 100-3*each:
		w.hit(MessageTwice, name)
		again := *f
		again.late = true
		w.flights = append(w.flights, &again)
	}
}

// pickFlight takes what arrives next off the list: mostly what left first.
func (w *world) pickFlight(late bool) *flight {
	skip := 0
	if w.choice.chance(300) {
		n := 0
		for _, f := range w.flights {
			if f.late == late {
				n++
			}
		}
		skip = w.choice.below(n)
	}
	for i, f := range w.flights {
		if f.late != late {
			continue
		}
		if skip == 0 {
			w.flights = append(w.flights[:i], w.flights[i+1:]...)
			return f
		}
		skip--
	}
	return nil
}

// deliver has something arrive.
func (w *world) deliver(f *flight) {
	switch f.kind {
	case flyAppend:
		f.op.arrive(f)
	case flyOpened:
		f.op.arriveOpened(f)
	case flyEffect:
		w.perform(f)
	case flyMessage:
		w.toConsumer(f)
	case flyReply:
		f.job.hear(f.msg)
	case flyRegister:
		w.toHolder(f)
	case flyHeld:
		f.to.registerHeld(f)
	case flyAnswer:
		w.answerArrives(f)
	case flyLeave:
		w.leaveArrives(f)
	case flyMove:
		f.app.moved(f.move)
	}
}

// messageKind is what a message between holder and incarnation says.
type messageKind uint8

const (
	prepare messageKind = iota + 1
	follow
	revert
)

func (k messageKind) String() string { return [...]string{"none", "prepare", "follow", "revert"}[k] }

// verdict is what a reply says.
type verdict uint8

const (
	yes verdict = iota + 1
	no
	confirmed
	stale
	vague
)

func (v verdict) String() string {
	return [...]string{"none", "yes", "no", "confirmed", "stale", "vague"}[v]
}

// message is one to an incarnation, or its reply.
type message struct {
	kind     messageKind
	epoch, n uint64
	lease    uint64
	inc      string
	deadline time.Time
	verdict  verdict
	reason   string
}

type registration struct {
	inc, replaces string
}

type answer struct {
	inc        string
	epoch, n   uint64
	lease      uint64
	refused    bool
	registered string // of a refusal: who is
}
