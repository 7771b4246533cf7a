package web

import "github.com/leasesvc/leasesvc/leasecore"

// phase is what a lease is to its name, as a bar shows it. The numbers are those
// of the page's assets/shapes.js.
type phase uint8

const (
	phaseNone phase = iota
	phaseRequested
	phaseCandidate
	phaseHandingOver
	phaseRollingBack
	phaseActive
	phaseGrace
	phaseKept
	phaseRetired
	phaseRevoking
	// The last phases end a bar.
	phaseRevoked
	phaseExpired
	phaseFailed
	phaseOrphaned
)

var phaseWords = [...]string{
	"none", "requested", "candidate", "handing-over", "rolling-back", "active", "grace", "kept", "retired", "revoking",
	"revoked", "expired", "came to nothing", "orphaned",
}

// String gives the word for people.
func (p phase) String() string { return phaseWords[p] }

// closed tells whether the phase ends a lease.
func (p phase) closed() bool { return p >= phaseRevoked }

// phaseOf gives the phase of a lease's state in the core.
func phaseOf(s leasecore.LeaseState) phase {
	if s == leasecore.Acquired {
		return phaseCandidate
	}
	return phase(s)
}
