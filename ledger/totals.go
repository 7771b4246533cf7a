package ledger

import "github.com/leasesvc/leasesvc/events"

// Totals are what a name, a path or a consumer adds up to.
type Totals struct {
	// Granted is what Vault granted, in seconds; see the package's words.
	Granted events.Seconds `json:"granted_s"`
	// Staged, InUse, Overlapped and Exposed are the parts of a lease's life.
	Staged     events.Seconds `json:"staged_s"`
	InUse      events.Seconds `json:"in_use_s"`
	Overlapped events.Seconds `json:"overlapped_s"`
	Exposed    events.Seconds `json:"exposed_s"`
	// Longest is the longest life of one credential, LongestLease whose, as
	// name/number. For a consumer: the longest that one incarnation had one.
	Longest      events.Seconds `json:"longest_s"`
	LongestLease string         `json:"longest_lease,omitempty"`

	Acquired           uint64 `json:"acquired"`
	FailedAcquisitions uint64 `json:"failed_acquisitions"`
	// Rotations are commits that replaced a lease.
	Rotations uint64 `json:"rotations"`
	RollBacks uint64 `json:"roll_backs"`
	// FailedHandovers are candidates that did not get through: a login with them
	// failed, or a hand-over ended in a roll back. For a consumer: its own noes.
	FailedHandovers uint64 `json:"failed_handovers"`
}

// Lived is the whole life of the credentials.
func (t *Totals) Lived() events.Seconds {
	return t.Staged.Add(t.InUse).Add(t.Overlapped).Add(t.Exposed)
}

// phase is what a lease is to its name.
type phase string

const (
	staged     phase = "staged"
	inUse      phase = "in-use"
	overlapped phase = "overlapped"
	exposed    phase = "exposed"
)

// spend adds time in a phase.
func (t *Totals) spend(p phase, s events.Seconds) {
	switch p {
	case staged:
		t.Staged = t.Staged.Add(s)
	case inUse:
		t.InUse = t.InUse.Add(s)
	case overlapped:
		t.Overlapped = t.Overlapped.Add(s)
	case exposed:
		t.Exposed = t.Exposed.Add(s)
	}
}

// longest keeps the longest life; of equal ones the first.
func (t *Totals) longest(s events.Seconds, lease string) {
	if s.Cmp(t.Longest) > 0 {
		t.Longest, t.LongestLease = s, lease
	}
}
