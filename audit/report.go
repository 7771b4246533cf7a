package audit

import (
	"slices"
	"sort"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Report is what an audit came to.
type Report struct {
	// Intact: nothing is wrong, as far as was checked.
	Intact bool `json:"intact"`
	// MACs tells whether the MACs were checked.
	MACs     bool   `json:"macs_checked"`
	Messages uint64 `json:"messages"`
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	// Found counts the findings, Findings has the first [MaxFindings] of them.
	Found    uint64    `json:"found"`
	Findings []Finding `json:"findings"`
	Scopes   []Scope   `json:"scopes"`
}

// Scope is what the audit of one scope came to.
type Scope struct {
	Head
	// Events counts those that count, Types by their type.
	Events uint64                 `json:"events"`
	Types  map[events.Type]uint64 `json:"types"`
	Epochs uint64                 `json:"epochs"`
	// Leases were begun, Closed of them are at an end.
	Leases uint64 `json:"leases"`
	Closed uint64 `json:"closed"`
	Open   []Open `json:"open"`
}

// Head is where a scope's log ends. Who keeps it can tell later that nothing was
// cut off.
type Head struct {
	Scope string `json:"scope"`
	Seq   uint64 `json:"last_seq"`
	MAC   string `json:"last_mac"`
	Epoch uint64 `json:"epoch"`
}

// Open is a lease whose story is not at its end.
type Open struct {
	Name  string `json:"name"`
	Lease uint64 `json:"lease"`
	State string `json:"state"`
	// Ends is when it expires; zero: never.
	Ends time.Time `json:"ends,omitzero"`
}

// Report says what was found. It ends the audit: call it once.
func (a *Auditor) Report() Report {
	r := Report{MACs: len(a.opts.Keys) > 0, Messages: a.messages, FirstSeq: a.first, LastSeq: a.last, Scopes: []Scope{}}
	for _, h := range a.opts.Anchors {
		if a.opts.Scope == "" || a.opts.Scope == h.Scope {
			s := a.scope(h.Scope)
			if _, unseen := s.anchors[h.Seq]; unseen {
				s.find(Finding{Seq: h.Seq, Kind: Truncated, Says: "an earlier audit saw an event here: the log was cut off"})
			}
		}
	}
	for _, s := range a.scopes {
		r.Scopes = append(r.Scopes, s.report())
	}
	slices.SortFunc(r.Scopes, func(x, y Scope) int {
		if x.Scope < y.Scope {
			return -1
		}
		return 1
	})
	r.Found, r.Intact = a.found, a.found == 0
	r.Findings = append([]Finding{}, a.findings...)
	sort.SliceStable(r.Findings, func(i, j int) bool { return r.Findings[i].Seq < r.Findings[j].Seq })
	return r
}

func (s *scope) report() Scope {
	out := Scope{
		Head:   Head{Scope: s.name, Seq: s.lastSeq, MAC: s.links.chain.Last(), Epoch: s.state.Epoch},
		Events: s.events, Types: s.types, Epochs: s.epochs, Leases: s.begun, Closed: s.closed, Open: []Open{},
	}
	for _, name := range s.state.SortedNames() {
		n := s.state.Name(name)
		for i := range n.Leases {
			l := &n.Leases[i]
			o := Open{Name: name, Lease: l.No, State: l.State.String()}
			o.Ends, _ = l.Expires()
			out.Open = append(out.Open, o)
		}
	}
	return out
}
