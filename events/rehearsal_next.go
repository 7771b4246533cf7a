//go:build nextrelease

package events

// A next release, as the tests of upgrades need one: installed is at version 2,
// which has a field more.

const installedVersion = 2

// Rehearsal is the field.
type Rehearsal struct {
	Rehearsed string `json:"rehearsed,omitempty" since:"2"`
}

func (r *Rehearsal) fields(f fields) {
	if f.since(2) {
		f.text(`"rehearsed":`, &r.Rehearsed, true)
	}
}
