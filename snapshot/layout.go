package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// A layout writes and reads the values of one Go type, field after field, in
// their order, without names: numbers as varints, so that what is zero takes a
// byte, and strings that a field has again and again as a number. It is made of
// the type by reflection, so no field can be forgotten; its fingerprint says
// which fields it was made of.
type layout struct {
	root        node
	fields      int // how many fields have a dictionary
	fingerprint [8]byte
}

// node is one field.
type node struct {
	write func(*writer, reflect.Value)
	read  func(*reader, reflect.Value)
}

// maxWords bounds a field's dictionary: what nearly every value of it differs in
// has no use for one.
const maxWords = 256

// layoutOf makes the layout of a type. It panics for a kind that the state does
// not have so far, which the tests find.
func layoutOf(t reflect.Type) *layout {
	l := &layout{}
	var told strings.Builder
	l.root = l.node(t, &told)
	sum := sha256.Sum256([]byte(told.String()))
	copy(l.fingerprint[:], sum[:])
	return l
}

func (l *layout) node(t reflect.Type, told *strings.Builder) node {
	switch t {
	case reflect.TypeFor[time.Time]():
		told.WriteString("time ")
		return node{
			func(w *writer, v reflect.Value) { w.time(*v.Addr().Interface().(*time.Time)) },
			func(r *reader, v reflect.Value) { *v.Addr().Interface().(*time.Time) = r.time() },
		}
	case reflect.TypeFor[events.Seconds]():
		told.WriteString("seconds ")
		return l.seconds()
	}
	switch t.Kind() {
	case reflect.String:
		told.WriteString("string ")
		id := l.fields
		l.fields++
		return node{
			func(w *writer, v reflect.Value) { w.word(id, v.String()) },
			func(r *reader, v reflect.Value) { v.SetString(r.word(id)) },
		}
	case reflect.Bool:
		told.WriteString("bool ")
		return node{
			func(w *writer, v reflect.Value) { w.bool(v.Bool()) },
			func(r *reader, v reflect.Value) { v.SetBool(r.byte() == 1) },
		}
	case reflect.Int, reflect.Int64:
		told.WriteString("int ")
		return node{
			func(w *writer, v reflect.Value) { w.b = binary.AppendVarint(w.b, v.Int()) },
			func(r *reader, v reflect.Value) { v.SetInt(r.varint()) },
		}
	case reflect.Uint8, reflect.Uint64:
		told.WriteString("uint ")
		return node{
			func(w *writer, v reflect.Value) { w.uint(v.Uint()) },
			func(r *reader, v reflect.Value) { v.SetUint(r.uint()) },
		}
	case reflect.Pointer:
		told.WriteString("* ")
		return pointer(t, l.node(t.Elem(), told))
	case reflect.Slice:
		told.WriteString("[] ")
		return list(t, l.node(t.Elem(), told))
	case reflect.Map:
		told.WriteString("map ")
		return table(t, l.node(t.Key(), told), l.node(t.Elem(), told))
	case reflect.Struct:
		return l.object(t, told)
	default:
		panic(fmt.Sprintf("snapshot: a field of type %s has no layout", t))
	}
}

func (l *layout) seconds() node {
	id := l.fields
	l.fields++
	return node{
		func(w *writer, v reflect.Value) {
			var text [64]byte
			w.word(id, string(v.Addr().Interface().(*events.Seconds).Append(text[:0])))
		},
		func(r *reader, v reflect.Value) {
			s, err := events.ParseSeconds(r.word(id))
			r.check(err)
			*v.Addr().Interface().(*events.Seconds) = s
		},
	}
}

func (l *layout) object(t reflect.Type, told *strings.Builder) node {
	fmt.Fprintf(told, "%s { ", t)
	var fields []node
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			panic(fmt.Sprintf("snapshot: field %s of %s can't be seen", f.Name, t))
		}
		fmt.Fprintf(told, "%s ", f.Name)
		fields = append(fields, l.node(f.Type, told))
	}
	told.WriteString("} ")
	return node{
		func(w *writer, v reflect.Value) {
			for i := range fields {
				fields[i].write(w, v.Field(i))
			}
		},
		func(r *reader, v reflect.Value) {
			for i := range fields {
				fields[i].read(r, v.Field(i))
			}
		},
	}
}

func pointer(t reflect.Type, to node) node {
	return node{
		func(w *writer, v reflect.Value) {
			w.bool(!v.IsNil())
			if !v.IsNil() {
				to.write(w, v.Elem())
			}
		},
		func(r *reader, v reflect.Value) {
			if r.byte() == 1 {
				v.Set(reflect.New(t.Elem()))
				to.read(r, v.Elem())
			}
		},
	}
}

// A length is written one higher than it is, so that none and empty differ.

func list(t reflect.Type, of node) node {
	return node{
		func(w *writer, v reflect.Value) {
			if v.IsNil() {
				w.uint(0)
				return
			}
			w.uint(uint64(v.Len()) + 1)
			for i := range v.Len() {
				of.write(w, v.Index(i))
			}
		},
		func(r *reader, v reflect.Value) {
			n, there := r.length()
			if !there {
				return
			}
			v.Set(reflect.MakeSlice(t, n, n))
			for i := 0; i < n && r.err == nil; i++ {
				of.read(r, v.Index(i))
			}
		},
	}
}

func table(t reflect.Type, key, value node) node {
	return node{
		func(w *writer, v reflect.Value) {
			if v.IsNil() {
				w.uint(0)
				return
			}
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
			w.uint(uint64(len(keys)) + 1)
			for _, k := range keys {
				key.write(w, k)
				e := reflect.New(t.Elem()).Elem()
				e.Set(v.MapIndex(k))
				value.write(w, e)
			}
		},
		func(r *reader, v reflect.Value) {
			n, there := r.length()
			if !there {
				return
			}
			v.Set(reflect.MakeMapWithSize(t, n))
			for i := 0; i < n && r.err == nil; i++ {
				k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				key.read(r, k)
				value.read(r, e)
				v.SetMapIndex(k, e)
			}
		},
	}
}

// writer writes values of a layout.
type writer struct {
	b     []byte
	words []map[string]uint64 // by field
}

func newWriter(l *layout) *writer { return &writer{words: make([]map[string]uint64, l.fields)} }

func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// word writes a string: its number in the field's dictionary above 1, or 1 and
// what becomes the next word, or 0 and what does not, the dictionary being full.
func (w *writer) word(field int, s string) {
	known := w.words[field]
	if no, ok := known[s]; ok {
		w.uint(no + 2)
		return
	}
	if known == nil {
		known = map[string]uint64{}
		w.words[field] = known
	}
	if len(known) < maxWords {
		known[s] = uint64(len(known))
		w.uint(1)
	} else {
		w.uint(0)
	}
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

// timesFrom makes the times of our days short.
const timesFrom = 1_780_000_000

// time writes an instant, to the nanosecond and in UTC; 0: there is none.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.uint(0)
		return
	}
	since := t.Unix() - timesFrom
	w.uint(uint64(since)<<1 ^ uint64(since>>63) + 1) // zigzag
	w.uint(uint64(t.Nanosecond()))
}

// reader reads values of a layout. After an error it gives zeros.
type reader struct {
	b     []byte
	words [][]string
	err   error
}

func newReader(l *layout, b []byte) *reader { return &reader{b: b, words: make([][]string, l.fields)} }

var errShort = errors.New("it ends too early, or a number in it is no number")

func (r *reader) check(err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.err != nil {
		r.b = nil
	}
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.check(errShort)
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.check(errShort)
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.check(errShort)
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// length reads how many elements follow; each takes a byte at least, so what is
// made room for is bounded by what was read.
func (r *reader) length() (n int, there bool) {
	m := r.uint()
	if m == 0 {
		return 0, false
	}
	if m-1 > uint64(len(r.b)) {
		r.check(errShort)
		return 0, false
	}
	return int(m - 1), true
}

func (r *reader) word(field int) string {
	no := r.uint()
	if no > 1 {
		if no-2 >= uint64(len(r.words[field])) {
			r.check(errShort)
			return ""
		}
		return r.words[field][no-2]
	}
	size := r.uint()
	if size > uint64(len(r.b)) {
		r.check(errShort)
		return ""
	}
	s := string(r.b[:size])
	r.b = r.b[size:]
	if no == 1 {
		r.words[field] = append(r.words[field], s)
	}
	return s
}

func (r *reader) time() time.Time {
	n := r.uint()
	if n == 0 {
		return time.Time{}
	}
	n--
	since := int64(n>>1) ^ -int64(n&1)
	nanos := r.uint()
	if nanos >= 1e9 {
		r.check(errShort)
		return time.Time{}
	}
	return time.Unix(since+timesFrom, int64(nanos)).UTC()
}
