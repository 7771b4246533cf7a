package events

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// writer appends fields to b, byte for byte as encoding/json does.
type writer struct {
	b []byte
	// next: a field has been written in the present object.
	next bool
	// version is the event's.
	version int
	err     error
}

// write gives the JSON of an event without a MAC, without reflection; false: it
// is one that encoding/json has to judge.
func write(e *Event, prev, segment string) ([]byte, bool) {
	data, ok := e.Data.(wired)
	if !ok {
		return nil, false
	}
	version, err := versionOf(e)
	if err != nil {
		return nil, false
	}
	t, at := data.EventType(), e.Time.UTC()
	w := &writer{b: make([]byte, 0, 1024), version: version}
	w.open()
	w.text(`"id":`, &e.ID, false)
	w.text(`"type":`, (*string)(&t), false)
	w.key(`"version":`)
	w.b = strconv.AppendInt(w.b, int64(version), 10)
	w.text(`"scope":`, &e.Scope, false)
	w.text(`"name":`, &e.Name, false)
	w.number(`"lease":`, &e.Lease, true)
	w.number(`"epoch":`, &e.Epoch, false)
	w.moment(`"time":`, &at)
	w.text(`"cause":`, &e.Cause, true)
	if w.enter(`"actor":`, e.Actor != Actor{}, true) {
		e.Actor.fields(w)
		w.leave()
	}
	w.text(`"prev":`, &prev, true)
	w.text(`"segment":`, &segment, true)
	w.enter(`"data":`, true, false)
	data.fields(w)
	w.leave()
	w.leave()
	return w.b, w.err == nil
}

func (w *writer) open() { w.b, w.next = append(w.b, '{'), false }

func (w *writer) leave() { w.b, w.next = append(w.b, '}'), true }

func (w *writer) since(version int) bool { return w.version >= version }

func (w *writer) key(key string) {
	if w.next {
		w.b = append(w.b, ',')
	}
	w.b, w.next = append(w.b, key...), true
}

func (w *writer) enter(key string, set, optional bool) bool {
	if optional && !set {
		return false
	}
	w.key(key)
	w.open()
	return true
}

func (w *writer) text(key string, v *string, optional bool) {
	if optional && *v == "" {
		return
	}
	w.key(key)
	w.string(*v)
}

// string writes a string; what is not plain ASCII is left to encoding/json.
func (w *writer) string(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, err := json.Marshal(s)
			if err != nil {
				w.err = err
			}
			w.b = append(w.b, b...)
			return
		}
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

func (w *writer) flag(key string, v *bool, optional bool) {
	if optional && !*v {
		return
	}
	w.key(key)
	w.b = strconv.AppendBool(w.b, *v)
}

func (w *writer) number(key string, v *uint64, optional bool) {
	if optional && *v == 0 {
		return
	}
	w.key(key)
	w.b = strconv.AppendUint(w.b, *v, 10)
}

func (w *writer) count(key string, v *int) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, int64(*v), 10)
}

func (w *writer) moment(key string, v *time.Time) {
	w.key(key)
	w.b = append(w.b, '"')
	b, err := v.AppendText(w.b)
	if err != nil { // a year of five digits
		w.err = err
		return
	}
	w.b = append(b, '"')
}

func (w *writer) seconds(key string, v *Seconds, optional bool) {
	if optional && v.IsZero() {
		return
	}
	w.key(key)
	w.b = v.d.Append(w.b, 'f')
}

func (w *writer) texts(key string, v *[]string, optional bool) {
	if optional && len(*v) == 0 {
		return
	}
	w.key(key)
	if *v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '[')
	for i, s := range *v {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.string(s)
	}
	w.b = append(w.b, ']')
}

func (w *writer) table(key string, v *map[string]string, optional bool) {
	if optional && len(*v) == 0 {
		return
	}
	w.key(key)
	if *v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.open()
	for _, k := range slices.Sorted(maps.Keys(*v)) {
		w.entry(k)
		w.string((*v)[k])
	}
	w.leave()
}

// entry begins an entry of a map.
func (w *writer) entry(key string) {
	if w.next {
		w.b = append(w.b, ',')
	}
	w.string(key)
	w.b, w.next = append(w.b, ':'), true
}

func (w *writer) versions(key string, v *map[Type]int) {
	w.key(key)
	if *v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.open()
	for _, t := range slices.Sorted(maps.Keys(*v)) {
		w.entry(string(t))
		w.b = strconv.AppendInt(w.b, int64((*v)[t]), 10)
	}
	w.leave()
}

func (w *writer) consumers(key string, v *[]Consumer) {
	if len(*v) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '[')
	for i := range *v {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.open()
		(*v)[i].fields(w)
		w.leave()
	}
	w.b = append(w.b, ']')
}
