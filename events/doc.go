// Package events is the catalogue: every fact that leasesvc records, its name
// and version, its envelope, its subject and how it is encoded.
//
// An event is written in the version that its Version says, the lowest unless a
// [Format] in the log allows a later one ([Formats]); a release reads every
// version up to its own.
//
// Who adds a field to an event raises the type's version: EventVersion, the tag
// since:"N" and omitempty or omitzero on the field, and the field behind since(N) in
// the type's fields method (wire.go). Who adds a type puts it into later. Then the
// golden file of that version; the ones before stay (docs/adr/0007).
//
// Call [Encode] (or [Chain.Seal], which adds the MAC) to write one and
// [Decode] to read one. [Types] lists what exists; testdata/golden has one
// file per type and version, which later releases go on decoding for ever.
//
// Guarantees: an event type's name and version are written down here and never
// follow a Go name. Decoding an event of a later version, or of a type that
// this release does not know, is refused with a [*FutureError]; nothing is
// dropped silently. Durations are exact decimals ([Seconds]). No field of any
// event holds a secret, a token or a value derived from one; which fields of a
// credential are public is listed per [Kind].
//
// Not here: what the events mean together (leasecore), where they are stored
// (events/journal). The package is pure: no clock, no randomness, no I/O. Its
// values may be shared between goroutines as long as nobody writes to them; a
// [Chain] belongs to one goroutine.
//
// Tested by golden files, a fuzz test of the decoder and properties.
package events
