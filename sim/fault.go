package sim

import "github.com/leasesvc/leasesvc/leasecore"

// Fault is a kind of what goes wrong.
type Fault uint8

// The kinds of faults.
const (
	CrashBeforeAppend Fault = iota
	CrashAfterAppend
	CrashBeforeEffect
	CrashAfterEffect
	AppendAnswerLost
	AppendLate
	AppendLost
	AppendedInPart
	SecondLeader
	ClockJump
	VaultRefuses
	VaultSlow
	VaultAnswerLost
	VaultShort
	VaultLies
	RevokeFails
	StoreFails
	ConsumerHangs
	ConsumerSaysNo
	ConsumerLies
	ConsumerDies
	ConsumerBack
	ConsumerCutOff
	MessageLost
	MessageLate
	MessageTwice
	Faults // how many there are
)

var faultNames = [Faults]string{
	"crash before append", "crash after append", "crash before effect", "crash after effect",
	"append's answer lost", "append late", "append lost", "appended in part", "second leader", "clock jump",
	"vault refuses", "vault slow", "vault's answer lost", "vault grants short", "vault lies", "revocation fails",
	"store fails", "consumer hangs", "consumer says no", "consumer lies", "consumer dies", "consumer comes back",
	"consumer cut off", "message lost", "message late", "message twice",
}

// String gives the fault in words.
func (f Fault) String() string { return faultNames[f] }

// Phase is how far a name's hand-over is.
type Phase uint8

// The phases of a hand-over.
const (
	Acquiring Phase = iota
	Guarding
	Verifying
	Preparing
	Committing
	RollingBack
	Retiring
	Revoking
	Idle
	Phases // how many there are
)

var phaseNames = [Phases]string{"acquiring", "guarding", "verifying", "preparing", "committing", "rolling back", "retiring", "revoking", "idle"}

// String gives the phase in a word.
func (p Phase) String() string { return phaseNames[p] }

// Coverage counts the faults by the phase that the name they hit was in.
type Coverage [Faults][Phases]uint64

// impossible lists the pairs that can't be, with the reason.
var impossible = map[Fault]map[Phase]string{
	ConsumerSaysNo: {Committing: "everybody who is asked has said yes by then, and takes no yes back"},
	RevokeFails:    {Idle: "a name with a revocation under way is revoking, not idle"},
	StoreFails: {
		Guarding: storeReason, Verifying: storeReason, Preparing: storeReason, Committing: storeReason,
		RollingBack: storeReason, Retiring: storeReason, Revoking: storeReason, Idle: storeReason,
	},
}

const storeReason = "values are sealed away while their lease is being acquired, and never else"

// Missing gives the possible pairs that were counted less than least times.
func (c *Coverage) Missing(least uint64) []string {
	var out []string
	for f := range Faults {
		for p := range Phases {
			if impossible[f][p] == "" && c[f][p] < least {
				out = append(out, f.String()+" while "+p.String())
			}
		}
	}
	return out
}

func (c *Coverage) add(o *Coverage) {
	for f := range c {
		for p := range c[f] {
			c[f][p] += o[f][p]
		}
	}
}

// hit counts a fault that concerns one name; "" counts it for every name.
func (w *world) hit(f Fault, name string) {
	if w.peaceful {
		return
	}
	w.notef("FAULT %s %s", f, name)
	for i := range w.names {
		if name == "" || w.names[i] == name {
			w.coverage[f][w.phase(w.names[i])]++
		}
	}
}

// phase tells how far the hand-over of a name is, by the log.
func (w *world) phase(name string) Phase {
	if w.committing(name) {
		return Committing
	}
	n := w.truth.State().Name(name)
	if n == nil {
		return Idle
	}
	if h := n.Handover; h != nil {
		if h.RollingBack {
			return RollingBack
		}
		return Preparing
	}
	if c := n.Lease(n.Candidate); c != nil {
		switch {
		case c.State == leasecore.Requested:
			return Acquiring
		case c.Guard != "" && !c.GuardExtended:
			return Guarding
		default:
			return Verifying
		}
	}
	phase := Idle
	for i := range n.Leases {
		switch n.Leases[i].State {
		case leasecore.Grace, leasecore.Kept, leasecore.Retired:
			return Retiring
		case leasecore.Revoking:
			phase = Revoking
		}
	}
	return phase
}

// committing tells whether an append that installs a lease of the name is on
// its way.
func (w *world) committing(name string) bool {
	for _, t := range w.instances {
		if t.op != nil && t.op.installs(name) {
			return true
		}
	}
	return false
}
