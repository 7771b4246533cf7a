package events

import "time"

// fields is one walk over the fields of an event, in the order in which they
// stand on the wire: a [*writer] writes them, a [*scanner] reads them. Each type
// lists its fields once, for both ways, in its fields method (wire.go), without
// reflection.
//
// A key is given with its quotes and colon. "optional" fields are left out when
// they are zero, the others are always there.
type fields interface {
	text(key string, v *string, optional bool)
	flag(key string, v *bool, optional bool)
	number(key string, v *uint64, optional bool)
	count(key string, v *int)
	moment(key string, v *time.Time)
	seconds(key string, v *Seconds, optional bool)
	texts(key string, v *[]string, optional bool)
	table(key string, v *map[string]string, optional bool)
	versions(key string, v *map[Type]int)
	consumers(key string, v *[]Consumer)
	// enter begins an object; if it gives true, leave ends it. set tells a
	// writer whether there is one.
	enter(key string, set, optional bool) bool
	leave()
	// since tells whether the event's version has the fields that came with a
	// version: they are walked over only then.
	since(version int) bool
}

// wired is a payload that lists its fields; all of the catalogue do.
type wired interface {
	Data
	fields(f fields)
}
