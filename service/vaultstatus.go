package service

import (
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/service/api"
)

// status tells how the connection is, and what of it needs a person's eye.
func (v *vaultConn) status() (row api.Vault, notes []string) {
	token, circuit, unguarded := v.client.Token(), v.client.Circuit(), v.withoutGuards()
	note := func(format string, args ...any) {
		notes = append(notes, "vault "+v.name+fmt.Sprintf(format, args...))
	}
	row = api.Vault{
		Name: v.name, Address: v.cfg.Address, LoggedIn: token.LoggedIn, Guarded: unguarded == "", Unguarded: unguarded,
		Waiting: circuit.Waiting, InFlight: circuit.InFlight,
	}
	v.count(&row)
	if token.LastError != nil {
		row.Problem = token.LastError.Error()
	}
	if !token.RefusedSince.IsZero() {
		row.PausedSince = token.RefusedSince.UTC()
		note(" refuses our credentials since %s; what is active is served, and it is tried again", row.PausedSince.Format(time.RFC3339))
	}
	if unguarded != "" {
		note(" works without guards (%s): a crash can leave a credential behind until its TTL ends", unguarded)
	}
	for _, fault := range v.guardFaults() {
		note(": %s", fault)
	}
	if circuit.Out {
		row.OutSince = circuit.Since.UTC()
		note(" is out since %s (%s); next probe at %s", row.OutSince.Format(time.RFC3339), circuit.Kind, circuit.NextProbe.UTC().Format(time.RFC3339))
	}
	if until := circuit.PausedUntil; !until.IsZero() {
		note(" asked for a pause until %s; raise its quota, or set limits.rate", until.UTC().Format(time.RFC3339))
	}
	return row, notes
}

// count fills in the counters.
func (v *vaultConn) count(row *api.Vault) {
	is := v.client.Stats()
	row.Requests, row.Held, row.Outages, row.Probes = is.Requests, is.Held, is.Outages, is.Probes
	row.Suspect, row.Warnings = is.Suspect, is.Warnings
	for call, n := range is.Calls {
		if n == 0 {
			continue
		}
		if row.Calls == nil {
			row.Calls = map[string]map[string]uint64{}
		}
		if row.Calls[call.Op] == nil {
			row.Calls[call.Op] = map[string]uint64{}
		}
		row.Calls[call.Op][call.Kind.String()] = n
	}
}
