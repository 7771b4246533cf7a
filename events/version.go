package events

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Formats are versions of event types by type, where they are above the lowest.
// A release reads some ([Release]), a log allows some (those of its last
// [Format]); nil reads and allows the lowest of each. They are not changed, only
// replaced.
type Formats map[Type]int

// later are the types that came after the first release: without a [Format] they
// may not be written at all.
var later = map[Type]bool{}

// lowest is the version of a type that may be written into any log; 0: none may,
// since there are releases that do not know the type.
func lowest(t Type) int {
	if _, known := typesByName[string(t)]; !known || later[t] {
		return 0
	}
	return 1
}

// latest is the highest version of a type that this release reads; 0: it does not
// know the type.
func latest(t Type) int {
	if d := newData(t); d != nil {
		return d.EventVersion()
	}
	return 0
}

// Release gives what this release reads, and may write where a log allows it.
func Release() Formats {
	out := Formats{}
	for _, t := range Types() {
		if v := latest(t); v > lowest(t) {
			out[t] = v
		}
	}
	return out
}

// Of gives the version of a type; 0: the type is not known or not allowed.
func (f Formats) Of(t Type) int { return max(f[t], lowest(t)) }

// Above gives what of f is above than; empty: than has all of it.
func (f Formats) Above(than Formats) Formats {
	out := Formats{}
	for t, v := range f {
		if v > than.Of(t) {
			out[t] = v
		}
	}
	return out
}

// With gives f with what is higher in more.
func (f Formats) With(more Formats) Formats {
	out := maps.Clone(f)
	for t, v := range more.Above(f) {
		if out == nil {
			out = Formats{}
		}
		out[t] = v
	}
	return out
}

// String lists them as "installed 2, renewed 3", sorted; "none" where there are
// none.
func (f Formats) String() string {
	if len(f) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(f))
	for _, t := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, string(t)+" "+strconv.Itoa(f[t]))
	}
	return strings.Join(parts, ", ")
}

// Raised gives the formats that an event allows; a [*FutureError] says that this
// release can't read what may be written from there on.
func (d *Format) Raised(seq uint64) (Formats, error) {
	f := Formats(d.Versions)
	for _, t := range slices.Sorted(maps.Keys(f.Above(Release()))) {
		if known := latest(t); f[t] > known {
			return nil, &FutureError{Seq: seq, Type: t, Version: f[t], Known: known, Format: true}
		}
	}
	return f, nil
}

// Fit gives a payload as it reads when it was written in a version: without the
// fields that came after it. The payload itself is left alone.
//
// A field that a later version adds has the tag since:"N", is left out when it is
// zero, and is listed in the type's fields method behind since(N).
func Fit(d Data, version int) Data {
	if version >= d.EventVersion() || reflect.TypeOf(d).Kind() != reflect.Pointer {
		return d
	}
	v := reflect.New(reflect.TypeOf(d).Elem())
	v.Elem().Set(reflect.ValueOf(d).Elem())
	clearSince(v.Elem(), version)
	return v.Interface().(Data)
}

// clearSince clears the fields that came after a version, in copies of what they
// stand in.
func clearSince(v reflect.Value, version int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			clearSince(c.Elem(), version)
			v.Set(c)
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			for i := range c.Len() {
				clearSince(c.Index(i), version)
			}
			v.Set(c)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[Seconds]() {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			if since, err := strconv.Atoi(f.Tag.Get("since")); err == nil && since > version {
				v.Field(i).SetZero()
				continue
			}
			clearSince(v.Field(i), version)
		}
	}
}

// fits tells whether a payload has no field that came after a version.
func fits(d Data, version int) bool {
	return version >= d.EventVersion() || reflect.DeepEqual(Fit(d, version), d)
}

// versionOf gives the version that an event is written in.
func versionOf(e *Event) (int, error) {
	v := max(e.Version, 1)
	if highest := e.Data.EventVersion(); v > highest {
		return 0, fmt.Errorf("encoding a %s event: version %d, this release writes up to %d", e.Type(), v, highest)
	}
	return v, nil
}
