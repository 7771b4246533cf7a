//go:build !nextrelease

package events

// installedVersion is the highest version of installed that this release reads.
const installedVersion = 1

// Rehearsal is what the tests of upgrades add to installed under the build tag
// nextrelease, as a next release would. Here it is nothing.
type Rehearsal struct{}

func (*Rehearsal) fields(fields) {}
