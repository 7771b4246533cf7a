package web

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// Window is what part of the timeline is asked for.
type Window struct {
	From, To int64 // milliseconds since 1970
	At       int64 // the moment up to which the log counts, or Now
	Width    int   // how many pixels From to To are
	Row      int   // the first row
	Rows     int
	Scope    string // "": all
	Query    string // "": all names
	Order    string // "name", "recent" or "trouble"
}

// Bounds of a window.
const (
	maxWidth = 8192
	maxRows  = 512
	maxHits  = 20
	// cell is the width of an aggregated cell in pixels, markCell that in which
	// marks are told together.
	cell     = 2
	markCell = 7
	// denseBar is the average width of a bar, in pixels, below which bars are
	// aggregated.
	denseBar = 5
)

// Marks, as bits: what happened in a cell of the timeline.
const (
	markHandover = 1 << iota
	markInstalled
	markRollback
	markFailure
	markRenewed
	markNo
	markCut
	markOrphaned
	markExpired
	markConsumer
	markDefinition
)

// Timeline is a window of the timeline. Times are milliseconds after From.
type Timeline struct {
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	At      int64    `json:"at"`
	Seq     uint64   `json:"seq"`
	Row     int      `json:"row"`
	Total   int      `json:"total"` // rows that there are
	Rows    []Row    `json:"rows"`
	Epochs  []Epoch  `json:"epochs"`
	Outages []Shadow `json:"outages"`
}

// Row is one name's lane.
type Row struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"`
	Path  string `json:"path,omitempty"`
	// State is the phase of what is in use at the window's moment, Lease the
	// active lease, Last what happened last that is marked.
	State  string `json:"state"`
	Lease  uint64 `json:"lease,omitempty"`
	Last   string `json:"last,omitempty"`
	LastAt int64  `json:"last_at,omitempty"`
	// Bars: lease, then time and phase in turn; the last phase says whether it
	// is closed.
	Bars [][]int64 `json:"bars,omitempty"`
	// Cells, in place of bars where those would be too narrow: first cell, number
	// of cells, phases as bits, leases.
	Cells [][4]int64 `json:"cells,omitempty"`
	// Marks: time, kinds as bits, how many, lease of the first.
	Marks [][4]int64 `json:"marks,omitempty"`
	// Hits are the leases that a search found.
	Hits []uint64 `json:"hits,omitempty"`
}

// Epoch is a band of the timeline.
type Epoch struct {
	Scope  string `json:"scope"`
	Epoch  uint64 `json:"epoch"`
	Holder string `json:"holder"`
	How    string `json:"how"`
	From   int64  `json:"from"`
	To     int64  `json:"to"` // -1: it goes on
}

// Shadow is a time in which something outside did not work.
type Shadow struct {
	Scope string `json:"scope"`
	What  string `json:"what"`
	Why   string `json:"why"`
	From  int64  `json:"from"`
	To    int64  `json:"to"` // -1: it goes on
}

// bounded makes a window one that can be answered.
func (w *Window) bounded() {
	w.Width = min(max(w.Width, 16), maxWidth)
	w.Rows = min(max(w.Rows, 0), maxRows)
	w.Row = max(w.Row, 0)
	if w.To <= w.From {
		w.To = w.From + 1
	}
}

// Timeline gives a window.
func (h *History) Timeline(w Window) Timeline {
	w.bounded()
	h.mu.RLock()
	defer h.mu.RUnlock()
	t := Timeline{From: w.From, To: w.To, At: w.At, Seq: h.seq, Row: w.Row, Rows: []Row{}, Epochs: []Epoch{}, Outages: []Shadow{}}
	found := h.find(w)
	t.Total = len(found)
	for i := w.Row; i < min(w.Row+w.Rows, len(found)); i++ {
		row := found[i].row(w)
		row.Hits = found[i].hits(w.Query)
		t.Rows = append(t.Rows, row)
	}
	for _, s := range h.scopes {
		if w.Scope == "" || w.Scope == s.scope {
			s.shadows(w, &t)
		}
	}
	return t
}

// find gives the lanes of a window in their order, all of them.
func (h *History) find(w Window) []*lane {
	var found []*lane
	query := strings.ToLower(strings.TrimSpace(w.Query))
	for _, s := range h.scopes {
		if w.Scope != "" && w.Scope != s.scope {
			continue
		}
		for _, l := range s.lanes {
			if len(l.moments) == 0 || l.moments[0].at > w.At {
				continue
			}
			if query == "" || strings.Contains(l.hay, query) || l.hit(strings.TrimSpace(w.Query)) {
				found = append(found, l)
			}
		}
	}
	switch w.Order {
	case "recent":
		latest := func(l *lane) int64 { return l.moments[l.until(w.At)-1].at }
		slices.SortStableFunc(found, func(a, b *lane) int { return int(min(max(latest(b)-latest(a), -1), 1)) })
	case "trouble":
		bad := map[*lane]int{}
		for _, s := range h.scopes {
			for _, c := range s.concerns(w.At, min(w.At, s.at)) {
				if l := s.byName[c.Name]; l != nil {
					bad[l] += 1 + 2*(1-rank(c.Level))
				}
			}
		}
		slices.SortStableFunc(found, func(a, b *lane) int { return bad[b] - bad[a] })
	}
	return found
}

// matches tells whether a lease is what a query asks for: by its number (#7 or
// name/7), by the beginning of its lease id or of the last part of that, or of
// what identifies the account.
func (b *bar) matches(name, query string) bool {
	if number, ok := strings.CutPrefix(query, "#"); ok {
		return number == strconv.FormatUint(b.lease, 10)
	}
	if head, number, ok := strings.Cut(query, "/"); ok && head == name && number == strconv.FormatUint(b.lease, 10) {
		return true
	}
	if b.public != "" && strings.HasPrefix(b.public, query) {
		return true
	}
	return b.id != "" && (strings.HasPrefix(b.id, query) || strings.HasPrefix(b.id[strings.LastIndexByte(b.id, '/')+1:], query))
}

func (l *lane) hit(query string) bool {
	for i := range l.bars {
		if l.bars[i].matches(l.name, query) {
			return true
		}
	}
	return false
}

func (l *lane) hits(query string) []uint64 {
	query = strings.TrimSpace(query)
	if query == "" {
		return nil
	}
	var all []uint64
	for i := len(l.bars) - 1; i >= 0 && len(all) < maxHits; i-- {
		if l.bars[i].matches(l.name, query) {
			all = append(all, l.bars[i].lease)
		}
	}
	return all
}

// row draws a lane into a window.
func (l *lane) row(w Window) Row {
	r := Row{Scope: l.scope, Name: l.name, Kind: string(l.kind), Path: l.path, State: l.state(w.At), Lease: l.active(w.At)}
	r.Last, r.LastAt = l.last(w.At)
	to := min(w.To, w.At)
	var visible []*bar
	for i := range l.bars {
		b := &l.bars[i]
		if b.begin() > to {
			break // bars begin in the order of the log
		}
		if end, closed := b.end(); !closed || end >= w.From || end > w.At {
			visible = append(visible, b)
		}
	}
	if len(visible)*denseBar > w.Width {
		r.Cells = cells(visible, w, to)
	} else {
		for _, b := range visible {
			r.Bars = append(r.Bars, b.steps64(w, to))
		}
	}
	r.Marks = l.marks(w, to)
	return r
}

// state gives the phase that matters most to who uses the name.
func (l *lane) state(at int64) string {
	best := phaseNone
	for i := range l.bars {
		switch p := l.bars[i].phaseAt(at); {
		case p == phaseActive:
			return p.String()
		case p != phaseNone && !p.closed() && (best == phaseNone || p < best):
			best = p
		}
	}
	if best == phaseNone && l.until(at) > 0 && l.defined(l.until(at)) {
		return "no credential"
	}
	if best == phaseNone {
		return "removed"
	}
	return best.String()
}

// active gives the lease that is in use; 0: none.
func (l *lane) active(at int64) uint64 {
	for i := len(l.bars) - 1; i >= 0; i-- {
		if l.bars[i].phaseAt(at) == phaseActive {
			return l.bars[i].lease
		}
	}
	return 0
}

// last gives the last event that is marked, renewals apart where there is
// another one not far before.
func (l *lane) last(at int64) (typ string, when int64) {
	n := l.until(at)
	for i := n - 1; i >= 0 && i >= n-lookBack; i-- {
		kind := markOf(&l.moments[i])
		if kind != 0 && kind != markRenewed {
			return string(typeWords[l.moments[i].typ]), l.moments[i].at
		}
	}
	if n == 0 {
		return "", 0
	}
	return string(typeWords[l.moments[n-1].typ]), l.moments[n-1].at
}

// steps64 gives a bar's steps that bear on the window.
func (b *bar) steps64(w Window, to int64) []int64 {
	out := []int64{int64(b.lease)}
	for i, s := range b.steps {
		if s.at > to {
			break
		}
		if i+1 < len(b.steps) && b.steps[i+1].at <= w.From && b.steps[i+1].at <= to {
			continue // over before the window
		}
		out = append(out, s.at-w.From, int64(s.phase))
	}
	return out
}

// cells aggregates bars to cells of some pixels.
func cells(bars []*bar, w Window, to int64) [][4]int64 {
	n := w.Width/cell + 1
	per := float64(w.To-w.From) / float64(w.Width) * cell
	at := func(t int64) int { return min(max(int(float64(t-w.From)/per), 0), n-1) }
	masks, counts := make([]int64, n), make([]int64, n)
	for _, b := range bars {
		counts[at(max(b.begin(), w.From))]++
		for i, s := range b.steps {
			if s.at > to {
				break
			}
			if s.phase.closed() {
				masks[at(s.at)] |= 1 << s.phase
				break
			}
			end := to
			if i+1 < len(b.steps) {
				end = min(end, b.steps[i+1].at)
			}
			if end < w.From {
				continue
			}
			for x := at(s.at); x <= at(end); x++ {
				masks[x] |= 1 << s.phase
			}
		}
	}
	var out [][4]int64
	for x := 0; x < n; x++ {
		if masks[x] == 0 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k][0]+out[k][1] == int64(x) && out[k][2] == masks[x] {
			out[k][1]++
			out[k][3] += counts[x]
			continue
		}
		out = append(out, [4]int64{int64(x), 1, masks[x], counts[x]})
	}
	return out
}

// markOf tells what an event is marked as; 0: it is not.
func markOf(m *moment) int64 {
	switch typeWords[m.typ] {
	case events.TypeHandoverStarted:
		return markHandover
	case events.TypeInstalled:
		return markInstalled
	case events.TypeRollbackStarted:
		return markRollback
	case events.TypeAcquireFailed, events.TypeVerifyFailed, events.TypeRenewFailed, events.TypeRevokeFailed:
		return markFailure
	case events.TypeRenewed:
		return markRenewed
	case events.TypePrepared, events.TypeRolledBack:
		if m.flags&flagNo != 0 {
			return markNo
		}
	case events.TypeRetired:
		if m.flags&(flagCut|flagByHand) != 0 {
			return markCut
		}
	case events.TypeOrphaned:
		return markOrphaned
	case events.TypeExpired:
		return markExpired
	case events.TypeRegistered, events.TypeLeft:
		return markConsumer
	case events.TypeApplied, events.TypeRemoved:
		return markDefinition
	}
	return 0
}

// marks gives the marks of a window, those together that are too near to be told
// apart.
func (l *lane) marks(w Window, to int64) [][4]int64 {
	per := float64(w.To-w.From) / float64(w.Width) * markCell
	i := sort.Search(len(l.moments), func(i int) bool { return l.moments[i].at >= w.From })
	var out [][4]int64
	last := -1
	for ; i < len(l.moments) && l.moments[i].at <= to; i++ {
		m := &l.moments[i]
		kind := markOf(m)
		if kind == 0 {
			continue
		}
		x := int(float64(m.at-w.From) / per)
		if x == last {
			k := len(out) - 1
			out[k][1] |= kind
			out[k][2]++
			continue
		}
		last = x
		lease := int64(0)
		if m.bar >= 0 {
			lease = int64(l.bars[m.bar].lease)
		}
		out = append(out, [4]int64{m.at - w.From, kind, 1, lease})
	}
	return out
}

// maxBands bounds the bands and shadows of a window; narrower ones than a pixel
// are left out first.
const maxBands = 2000

func (h *history) shadows(w Window, t *Timeline) {
	to := min(w.To, w.At)
	pixel := (w.To - w.From) / int64(w.Width)
	for i, e := range h.epochs {
		end := int64(-1)
		if i+1 < len(h.epochs) {
			end = h.epochs[i+1].from
		}
		if e.released != 0 {
			end = e.released
		}
		if e.from > to || end >= 0 && end < w.From || len(t.Epochs) >= maxBands || end >= 0 && end-e.from < pixel && len(h.epochs) > maxBands {
			continue
		}
		t.Epochs = append(t.Epochs, Epoch{Scope: h.scope, Epoch: e.epoch, Holder: e.holder, How: e.how, From: e.from - w.From, To: offset(end, w)})
	}
	add := func(what, why string, from, end int64) {
		if end == 0 {
			end = -1
		}
		if from > to || end >= 0 && end < w.From || len(t.Outages) >= maxBands {
			return
		}
		t.Outages = append(t.Outages, Shadow{Scope: h.scope, What: what, Why: why, From: from - w.From, To: offset(end, w)})
	}
	for _, o := range h.outages {
		add(o.what, o.why, o.from, o.end)
	}
	for _, p := range h.pauses {
		add("Vault "+p.vault, "it refuses our credentials ("+p.kind+")", p.from, p.end)
	}
}

// offset gives an end after the window's beginning; -1 where it was still open.
func offset(end int64, w Window) int64 {
	if end < 0 || end > w.At {
		return -1
	}
	return end - w.From
}
