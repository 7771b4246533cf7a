package projector

import (
	"errors"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Skipped is an event in the stream that does not count.
type Skipped struct {
	Seq uint64
	// Why says it for people; it holds nothing of the event's data.
	Why string
}

// maxRemembered bounds how many skipped events are kept; all are counted.
const maxRemembered = 100

// Projection folds one scope's log.
type Projection struct {
	state   *leasecore.State
	chain   events.Chain
	lastSeq uint64
	skipped uint64
	recent  []Skipped
	stopped error
	unsaved uint64
	trusted uint64
}

// New begins at the start of a scope's log. Without a key (nil) the MACs are
// not checked, which is for auditors who don't have it.
func New(scope string, key []byte) *Projection {
	return &Projection{state: leasecore.NewState(scope), chain: events.NewChain(key)}
}

// NewUnder is New for a log whose epochs may be under any key of a ring.
func NewUnder(scope string, ring *events.Keyring) *Projection {
	return &Projection{state: leasecore.NewState(scope), chain: events.NewChainUnder(ring)}
}

// Rering has the projection go on under another ring of keys.
func (p *Projection) Rering(ring *events.Keyring) { p.chain.Rering(ring) }

// Resume goes on from a snapshot: a state, the chain and the last sequence looked
// at as they stood together, and how many events had been skipped by then.
func Resume(state *leasecore.State, chain events.Chain, lastSeq, skipped uint64) *Projection {
	return &Projection{state: state, chain: chain, lastSeq: lastSeq, skipped: skipped}
}

// Trust has the events up to a sequence count without their MACs, as an operator
// decided whose key is lost: only the links of the chain are looked at, and what
// does not follow is skipped. It is called before the first Apply.
func (p *Projection) Trust(upTo uint64) { p.trusted = upTo }

// admit judges an event's place in the chain, and gives the chain after it.
func (p *Projection) admit(seq uint64, payload []byte) (events.Chain, events.Event, error) {
	chain := p.chain
	if seq > p.trusted {
		e, err := chain.Admit(payload, seq)
		return chain, e, err
	}
	keyless := events.NewChain(nil)
	keyless.Resume(chain.State())
	e, err := keyless.Admit(payload, seq)
	if errors.Is(err, events.ErrBroken) {
		err = events.ErrForged // nobody can tell any more; whoever wrote it, it does not follow
	}
	if err == nil {
		chain.Resume(keyless.State())
		if o, ok := e.Data.(*events.Opened); ok {
			chain.Under(o.SealKey)
		}
	}
	return chain, e, err
}

// Refuse gives a projection that is stopped from the start, because what is
// known of the log contradicts it.
func Refuse(scope string, key []byte, why error) *Projection {
	p := New(scope, key)
	_ = p.stop(why)
	return p
}

// State gives the state; it changes with the next Apply.
func (p *Projection) State() *leasecore.State { return p.state }

// Chain gives a copy of the chain as it stands.
func (p *Projection) Chain() events.Chain { return p.chain }

// SetChain takes over the chain that a writer has moved on, together with
// [Projection.Adopt].
func (p *Projection) SetChain(c events.Chain) { p.chain = c }

// LastSeq gives the sequence of the last event that was looked at, counted or
// not.
func (p *Projection) LastSeq() uint64 { return p.lastSeq }

// Unsaved gives how many events were looked at since the beginning, the snapshot
// that it was resumed from, or the last [Projection.Saved].
func (p *Projection) Unsaved() uint64 { return p.unsaved }

// Saved notes that a snapshot was taken.
func (p *Projection) Saved() { p.unsaved = 0 }

// Skipped gives how many events did not count, and the latest of them.
func (p *Projection) Skipped() (uint64, []Skipped) { return p.skipped, p.recent }

// Stopped gives the error that stopped the projection; nil: it goes on.
func (p *Projection) Stopped() error { return p.stopped }

// ErrStopped is wrapped by every error of a stopped projection: a
// [*events.FutureError], an [*events.UnknownKeyError], [events.ErrBroken] or a
// [*leasecore.InconsistentError] says why.
var ErrStopped = errors.New("the log can't be followed any further")

// Apply looks at the event stored at seq. It gives the event when it counted,
// nil when it was skipped or had been looked at before, and an error that wraps
// [ErrStopped] from the first event on that stops the projection.
func (p *Projection) Apply(seq uint64, payload []byte) (*events.Event, error) {
	if p.stopped != nil {
		return nil, p.stopped
	}
	if seq <= p.lastSeq {
		return nil, nil
	}
	p.unsaved++
	chain, e, err := p.admit(seq, payload)
	var future *events.FutureError
	var unknown *events.UnknownKeyError
	switch {
	case errors.As(err, &future):
		return nil, p.stop(err)
	case errors.As(err, &unknown) && p.current(&e) == "":
		return nil, p.stop(fmt.Errorf("%w: give this instance that key too (seal_key.previous takes further ones), or leave the scope to those that have it", err))
	case errors.Is(err, events.ErrBroken) && p.current(&e) == "":
		return nil, p.stop(fmt.Errorf("%w: an event between sequence %d and it was removed, edited or moved; run leasesvc verify-log, then leasesvc recover", err, p.lastSeq))
	case err != nil:
		p.skip(seq, err.Error())
		return nil, nil
	}
	if why := p.current(&e); why != "" {
		p.skip(seq, fmt.Sprintf("%s at sequence %d: %s", e.Type(), seq, why))
		return nil, nil
	}
	if err := p.state.Apply(&e); err != nil {
		return nil, p.stop(err)
	}
	p.chain, p.lastSeq = chain, seq
	return &e, nil
}

// Adopt folds an event that this process itself has just appended; it came from
// the writer, who knows its place in the chain.
func (p *Projection) Adopt(e *events.Event) error {
	if p.stopped != nil {
		return p.stopped
	}
	if err := p.state.Apply(e); err != nil {
		return p.stop(err)
	}
	p.unsaved++
	p.lastSeq = e.Seq
	return nil
}

// current tells why an event is not one of the epoch in force (I1); "": it is.
func (p *Projection) current(e *events.Event) string {
	head := &p.state.Head
	if e.Scope != head.Scope {
		return fmt.Sprintf("it is of scope %s", e.Scope)
	}
	opened, ok := e.Data.(*events.Opened)
	switch {
	case !ok && e.Epoch != head.Epoch:
		return fmt.Sprintf("it is of epoch %d, in force is %d", e.Epoch, head.Epoch)
	case !ok:
		return ""
	case opened.How == events.HowReopened && e.Epoch == head.Epoch && opened.Holder == head.Holder:
		return ""
	case e.Epoch <= head.Epoch:
		return fmt.Sprintf("it opens epoch %d, in force is %d", e.Epoch, head.Epoch)
	default:
		return ""
	}
}

func (p *Projection) skip(seq uint64, why string) {
	p.lastSeq = seq
	p.skipped++
	p.recent = append(p.recent, Skipped{Seq: seq, Why: why})
	if len(p.recent) > maxRemembered {
		p.recent = p.recent[1:]
	}
}

func (p *Projection) stop(why error) error {
	p.stopped = fmt.Errorf("%w: %w", ErrStopped, why)
	return p.stopped
}
