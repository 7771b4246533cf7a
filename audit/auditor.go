package audit

import (
	"fmt"

	"github.com/leasesvc/leasesvc/events"
)

// Options say what is checked.
type Options struct {
	// Scope: only this one; empty: all, and the stream must have no holes.
	Scope string
	// Keys are the MAC keys, by the id of the seal key that each is derived
	// from. None: MACs are not checked.
	Keys map[string][]byte
	// Anchors are the heads that an earlier audit reported.
	Anchors []Head
}

// Message is one message of the stream as it is stored.
type Message struct {
	Seq     uint64
	Subject string
	Payload []byte
}

// MaxFindings bounds how many findings are kept; all are counted.
const MaxFindings = 1000

// Auditor looks at the messages of a stream one by one.
type Auditor struct {
	opts     Options
	scopes   map[string]*scope
	last     uint64
	first    uint64
	messages uint64
	findings []Finding
	found    uint64
}

// New begins an audit at the beginning of a stream.
func New(opts Options) *Auditor { return &Auditor{opts: opts, scopes: map[string]*scope{}} }

// Look takes the next message. A message that is not above the last one is none
// of the stream's and is ignored.
func (a *Auditor) Look(m Message) {
	if m.Seq <= a.last {
		return
	}
	if a.opts.Scope == "" && m.Seq != a.last+1 {
		a.find(Finding{Seq: a.last + 1, Kind: Gap, Says: gap(a.last+1, m.Seq-1, a.last == 0)})
	}
	if a.last = m.Seq; a.first == 0 {
		a.first = m.Seq
	}
	a.messages++
	name, _, _, err := events.ParseSubject(m.Subject)
	if err != nil {
		a.find(Finding{Seq: m.Seq, Kind: Foreign, Says: fmt.Sprintf("its subject %q is none of the log's", m.Subject)})
		return
	}
	a.scope(name).look(m)
}

func gap(from, to uint64, beginning bool) string {
	what := "the stream has no message under it"
	if from != to {
		what = fmt.Sprintf("the stream has no messages under sequences %d to %d", from, to)
	}
	if beginning {
		return what + ": the log's beginning is not there"
	}
	return what + ": somebody removed it"
}

func (a *Auditor) scope(name string) *scope {
	s := a.scopes[name]
	if s == nil {
		s = newScope(a, name)
		a.scopes[name] = s
	}
	return s
}

// find records a finding and gives its place, to be made more precise by what
// comes after it; nil: there are too many already.
func (a *Auditor) find(f Finding) *Finding {
	a.found++
	if len(a.findings) >= MaxFindings {
		return nil
	}
	if a.findings == nil {
		a.findings = make([]Finding, 0, MaxFindings) // never moved: places are kept
	}
	a.findings = append(a.findings, f)
	return &a.findings[len(a.findings)-1]
}
