package events

import (
	"encoding/json"
	"math"
	"time"
)

// scanner reads what a [writer] wrote: the fields in their order, no white space,
// nothing twice, nothing unknown. Whatever else is JSON is left to encoding/json,
// which judges it: a scanner never refuses, it gives up. What it reads,
// encoding/json reads too, as the same (FuzzScanner).
type scanner struct {
	b []byte
	i int
	// next: a field has been read in the present object.
	next bool
	// version is the event's.
	version int
	// off: it has given up.
	off bool
}

// typesByName has a type's constant by its name, so that a decoded event holds
// no string of its own for it.
var typesByName = func() map[string]Type {
	out := map[string]Type{}
	for _, t := range Types() {
		out[string(t)] = t
	}
	return out
}()

// scan reads an event and its links; false: it has given up.
func scan(payload []byte, e *Event) (links, bool) {
	s := scanner{b: payload}
	var l links
	var version uint64
	s.open()
	s.text(`"id":`, &e.ID, false)
	s.need(`"type":`)
	t := typesByName[string(s.plain())]
	s.number(`"version":`, &version, false)
	data, _ := newData(t).(wired)
	if data == nil || version < 1 || version > uint64(data.EventVersion()) {
		return l, false
	}
	s.version, e.Version = int(version), int(version)
	s.text(`"scope":`, &e.Scope, false)
	s.text(`"name":`, &e.Name, false)
	s.number(`"lease":`, &e.Lease, true)
	s.number(`"epoch":`, &e.Epoch, false)
	s.moment(`"time":`, &e.Time)
	s.text(`"cause":`, &e.Cause, true)
	if s.enter(`"actor":`, false, true) {
		e.Actor.fields(&s)
		s.leave()
	}
	if s.has(`"prev":`) {
		l.prev = s.plain()
	}
	if s.has(`"segment":`) {
		l.segment = s.plain()
	}
	s.enter(`"data":`, true, false)
	data.fields(&s)
	s.leave()
	if s.has(`"mac":`) {
		l.mac = s.plain()
	}
	s.leave()
	if s.off || s.i != len(payload) || e.ID == "" || e.Scope == "" || e.Name == "" {
		return l, false
	}
	e.Time, e.Data = e.Time.UTC(), data
	return l, true
}

func (s *scanner) giveUp() { s.b, s.i, s.off = nil, 0, true }

// take reads one byte that must be there.
func (s *scanner) take(c byte) {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return
	}
	s.giveUp()
}

// took reads a byte if it is there.
func (s *scanner) took(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) open() {
	s.take('{')
	s.next = false
}

func (s *scanner) since(version int) bool { return s.version >= version }

func (s *scanner) leave() {
	s.take('}')
	s.next = true
}

// has reads a key if it comes next.
func (s *scanner) has(key string) bool {
	i := s.i
	if s.next {
		if i >= len(s.b) || s.b[i] != ',' {
			return false
		}
		i++
	}
	if len(s.b)-i < len(key) || string(s.b[i:i+len(key)]) != key {
		return false
	}
	s.i, s.next = i+len(key), true
	return true
}

func (s *scanner) need(key string) {
	if !s.has(key) {
		s.giveUp()
	}
}

// is tells whether a field is to be read.
func (s *scanner) is(key string, optional bool) bool {
	if optional {
		return s.has(key)
	}
	s.need(key)
	return !s.off
}

func (s *scanner) enter(key string, _, optional bool) bool {
	if !s.is(key, optional) {
		return false
	}
	s.open()
	return !s.off
}

// plain reads a string without escapes; it points into the payload.
func (s *scanner) plain() []byte {
	s.take('"')
	for i := s.i; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			v := s.b[s.i:i]
			s.i = i + 1
			return v
		case c == '\\', c < ' ':
			s.giveUp()
			return nil
		}
	}
	s.giveUp()
	return nil
}

// string reads a string; one with escapes goes through encoding/json.
func (s *scanner) string() string {
	s.take('"')
	escaped := false
	for i := s.i; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			v := s.b[s.i:i]
			quoted := s.b[s.i-1 : i+1]
			s.i = i + 1
			if !escaped {
				return string(v)
			}
			var out string
			if json.Unmarshal(quoted, &out) != nil {
				s.giveUp()
			}
			return out
		case c == '\\':
			escaped = true
			i++ // what it escapes is no end
		case c < ' ':
			s.giveUp()
			return ""
		}
	}
	s.giveUp()
	return ""
}

func (s *scanner) text(key string, v *string, optional bool) {
	if s.is(key, optional) {
		*v = s.string()
	}
}

func (s *scanner) flag(key string, v *bool, optional bool) {
	if !s.is(key, optional) {
		return
	}
	rest := s.b[s.i:]
	switch {
	case len(rest) > 4 && string(rest[:4]) == "true":
		*v, s.i = true, s.i+4
	case len(rest) > 5 && string(rest[:5]) == "false":
		*v, s.i = false, s.i+5
	default:
		s.giveUp()
	}
}

// digits reads an unsigned whole number.
func (s *scanner) digits() uint64 {
	begin, n := s.i, uint64(0)
	for ; s.i < len(s.b); s.i++ {
		c := uint64(s.b[s.i] - '0')
		if c > 9 {
			break
		}
		if n > math.MaxUint64/10 || 10*n > math.MaxUint64-c {
			s.giveUp()
			return 0
		}
		n = 10*n + c
	}
	if s.i == begin || s.b[begin] == '0' && s.i > begin+1 {
		s.giveUp()
	}
	return n
}

func (s *scanner) number(key string, v *uint64, optional bool) {
	if s.is(key, optional) {
		*v = s.digits()
	}
}

func (s *scanner) whole() int {
	n := s.digits()
	if n > math.MaxInt {
		s.giveUp()
		return 0
	}
	return int(n)
}

func (s *scanner) count(key string, v *int) {
	if s.is(key, false) {
		*v = s.whole()
	}
}

func (s *scanner) moment(key string, v *time.Time) {
	if !s.is(key, false) {
		return
	}
	begin := s.i
	if s.plain(); s.off {
		return
	}
	if v.UnmarshalJSON(s.b[begin:s.i]) != nil {
		s.giveUp()
	}
}

func (s *scanner) seconds(key string, v *Seconds, optional bool) {
	if !s.is(key, optional) {
		return
	}
	read, n := plainSeconds(s.b[s.i:])
	if n == 0 {
		s.giveUp()
		return
	}
	*v, s.i = read, s.i+n
}

// null reads null if it comes next.
func (s *scanner) null() bool {
	if rest := s.b[s.i:]; len(rest) > 4 && string(rest[:4]) == "null" {
		s.i += 4
		return true
	}
	return false
}

func (s *scanner) texts(key string, v *[]string, optional bool) {
	if !s.is(key, optional) || s.null() {
		return
	}
	s.take('[')
	out := []string{}
	for !s.off && !s.took(']') {
		if len(out) > 0 {
			s.take(',')
		}
		out = append(out, s.string())
	}
	*v = out
}

// entry reads the key of a map's entry; false: there is no more.
func (s *scanner) entry() (string, bool) {
	if s.off || s.took('}') {
		s.next = true
		return "", false
	}
	if s.next {
		s.take(',')
	}
	s.next = true
	key := s.string()
	s.take(':')
	return key, !s.off
}

func (s *scanner) table(key string, v *map[string]string, optional bool) {
	if !s.is(key, optional) || s.null() {
		return
	}
	out := map[string]string{}
	s.open()
	for k, more := s.entry(); more; k, more = s.entry() {
		out[k] = s.string()
	}
	*v = out
}

func (s *scanner) versions(key string, v *map[Type]int) {
	if !s.is(key, false) || s.null() {
		return
	}
	out := map[Type]int{}
	s.open()
	for k, more := s.entry(); more; k, more = s.entry() {
		out[Type(k)] = s.whole()
	}
	*v = out
}

func (s *scanner) consumers(key string, v *[]Consumer) {
	if !s.is(key, true) {
		return
	}
	s.take('[')
	out := []Consumer{}
	for !s.off && !s.took(']') {
		if len(out) > 0 {
			s.take(',')
		}
		s.open()
		var c Consumer
		c.fields(s)
		s.leave()
		out = append(out, c)
	}
	*v = out
}
