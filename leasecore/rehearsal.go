//go:build !nextrelease

package leasecore

import "github.com/leasesvc/leasesvc/events"

// rehearse fills in what only the next release writes: nothing in this one.
func rehearse(events.Data) {}
