package ledger_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"sort"
	"strings"
	"testing"
	"time"
)

// naive adds up a ledger from the raw events, with nothing of the package or of
// the catalogue: it decodes JSON into maps, writes down who was what from when to
// when, and sums with rational numbers at the end.
type naive struct {
	since, clock int64 // nanoseconds; since 0: everything counts
	leases       map[string]*naiveLease
	order        []*naiveLease
	registered   map[string][]map[string]any // by name
	counts       map[string]map[string]int   // "name/orders" -> "rotations" -> n
	granted      map[string]*big.Rat
}

type naiveLease struct {
	name, path, key    string
	phase              string
	began, at          int64
	end                *big.Rat
	spans              []naiveSpan
	have               map[string]int64 // incarnation -> since
	had                []naiveHad
	consumers          map[string]string
	over, everAcquired bool
	finished           int64
}

type naiveSpan struct {
	phase    string
	from, to int64
}

type naiveHad struct {
	consumer string
	from, to int64
}

func newNaive(since int64) *naive {
	return &naive{since: since, leases: map[string]*naiveLease{}, registered: map[string][]map[string]any{}, counts: map[string]map[string]int{}, granted: map[string]*big.Rat{}}
}

func nanos(t *testing.T, v any) int64 {
	at, err := time.Parse(time.RFC3339Nano, v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

func rat(t *testing.T, v any) *big.Rat {
	if v == nil {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(string(v.(json.Number)))
	if !ok {
		t.Fatalf("%v is no number", v)
	}
	return r
}

func (n *naive) count(of, what string) {
	if n.clock < n.since {
		return
	}
	if n.counts[of] == nil {
		n.counts[of] = map[string]int{}
	}
	n.counts[of][what]++
}

func (n *naive) both(l *naiveLease, what string) {
	n.count("name/"+l.name, what)
	n.count("path/"+l.path, what)
}

func (n *naive) to(l *naiveLease, phase string) {
	if l.phase != "" {
		l.spans = append(l.spans, naiveSpan{l.phase, l.at, n.clock})
	}
	l.phase, l.at = phase, n.clock
}

func (n *naive) give(l *naiveLease, id string) {
	for _, r := range n.registered[l.name] {
		if r["incarnation"] == id && l.phase != "exposed" {
			if _, has := l.have[id]; !has {
				l.have[id] = n.clock
				l.consumers[id] = r["consumer"].(string)
			}
		}
	}
}

func (n *naive) take(l *naiveLease, id string) {
	if from, has := l.have[id]; has {
		l.had = append(l.had, naiveHad{l.consumers[id], from, n.clock})
		delete(l.have, id)
	}
}

func (n *naive) takeAll(l *naiveLease) {
	for id := range l.have {
		n.take(l, id)
	}
}

func (n *naive) grant(t *testing.T, l *naiveLease, sent, ttl any) {
	start := big.NewRat(nanos(t, sent), 1e9)
	end := new(big.Rat).Add(start, rat(t, ttl))
	if l.end != nil && l.end.Cmp(start) > 0 {
		start = l.end
	}
	added := new(big.Rat).Sub(end, start)
	if added.Sign() <= 0 {
		return
	}
	l.end = end
	if n.clock < n.since {
		return
	}
	for _, of := range []string{"name/" + l.name, "path/" + l.path} {
		if n.granted[of] == nil {
			n.granted[of] = new(big.Rat)
		}
		n.granted[of].Add(n.granted[of], added)
	}
}

func (n *naive) finish(l *naiveLease) {
	n.takeAll(l)
	n.to(l, "")
	l.over, l.finished = true, n.clock
}

func (n *naive) see(t *testing.T, payload []byte) {
	var e map[string]any
	d := json.NewDecoder(strings.NewReader(string(payload)))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		t.Fatal(err)
	}
	n.clock = max(n.clock, nanos(t, e["time"]))
	name, typ, data := e["name"].(string), e["type"].(string), e["data"].(map[string]any)
	if strings.HasPrefix(name, "_") {
		return
	}
	key := fmt.Sprint(name, "/", e["lease"])
	l := n.leases[key]
	switch typ {
	case "registered":
		kept := []map[string]any{}
		for _, r := range n.registered[name] {
			if r["consumer"] == data["consumer"] && r["instance"] == data["instance"] {
				n.takeFromAll(name, r["incarnation"].(string))
			} else {
				kept = append(kept, r)
			}
		}
		n.registered[name] = append(kept, data)
		for _, o := range n.order {
			if o.name == name && o.phase == "in-use" {
				n.give(o, data["incarnation"].(string))
			}
		}
		return
	case "left":
		kept := []map[string]any{}
		for _, r := range n.registered[name] {
			if r["incarnation"] != data["incarnation"] {
				kept = append(kept, r)
			}
		}
		n.registered[name] = kept
		n.takeFromAll(name, data["incarnation"].(string))
		return
	case "requested", "adopted":
		l = &naiveLease{name: name, key: key, path: fmt.Sprint(data["vault"], "/", data["path"]), have: map[string]int64{}, consumers: map[string]string{}}
		n.leases[key] = l
		n.order = append(n.order, l)
		if typ == "requested" {
			return
		}
		typ = "acquired"
	}
	if l == nil || l.over {
		return
	}
	switch typ {
	case "acquired":
		n.to(l, "staged")
		l.began, l.everAcquired = n.clock, true
		n.both(l, "acquired")
		n.grant(t, l, data["sent_at"], data["ttl_s"])
	case "acquire-failed":
		n.both(l, "failed_acquisitions")
		if data["lease_id"] == nil && data["guard"] == nil {
			l.over = true
			return
		}
		n.to(l, "exposed")
		l.began, l.everAcquired = n.clock, true
	case "renewed":
		n.grant(t, l, data["sent_at"], data["ttl_s"])
	case "verify-failed":
		n.both(l, "failed_handovers")
		n.takeAll(l)
		n.to(l, "exposed")
	case "handover-started":
		asked, _ := data["asked"].([]any)
		for _, id := range asked {
			n.give(l, id.(string))
		}
	case "prepared":
		n.give(l, data["incarnation"].(string))
		if yes, _ := data["yes"].(bool); !yes {
			for _, r := range n.registered[name] {
				if r["incarnation"] == data["incarnation"] {
					n.count("consumer/"+r["consumer"].(string), "failed_handovers")
				}
			}
		}
	case "installed":
		for _, o := range n.order {
			if o != l && o.name == name && o.phase == "in-use" {
				n.to(o, "overlapped")
			}
		}
		n.to(l, "in-use")
		for _, r := range n.registered[name] {
			n.give(l, r["incarnation"].(string))
		}
		if data["previous"] != nil {
			n.both(l, "rotations")
			n.perConsumer(l, "rotations")
		}
	case "rollback-started":
		n.both(l, "roll_backs")
		n.both(l, "failed_handovers")
		n.perConsumer(l, "roll_backs")
	case "rolled-back":
		if safe, _ := data["safe"].(bool); safe {
			n.takeAll(l)
			n.to(l, "exposed")
			return
		}
		unconfirmed := fmt.Sprint(data["unconfirmed"])
		for id := range l.have {
			if !strings.Contains(unconfirmed, id) {
				n.take(l, id)
			}
		}
		n.to(l, "overlapped")
	case "retired", "expired":
		n.takeAll(l)
		n.to(l, "exposed")
		if data["by"] == "vault" {
			n.finish(l)
		}
	case "revoked":
		n.finish(l)
	case "orphaned":
		l.over = true
	}
}

func (n *naive) takeFromAll(name, id string) {
	for _, l := range n.order {
		if l.name == name {
			n.take(l, id)
		}
	}
}

func (n *naive) perConsumer(l *naiveLease, what string) {
	done := map[string]bool{}
	for id := range l.have {
		if c := l.consumers[id]; !done[c] {
			done[c] = true
			n.count("consumer/"+c, what)
		}
	}
}

// rows gives "of what=digits ..." lines, as the ledger's are printed.
func (n *naive) rows(until int64) []string {
	sums := map[string]map[string]*big.Rat{}
	add := func(of, what string, from, to int64) {
		if from = max(from, n.since); to <= from {
			return
		}
		if sums[of] == nil {
			sums[of] = map[string]*big.Rat{}
		}
		if sums[of][what] == nil {
			sums[of][what] = new(big.Rat)
		}
		sums[of][what].Add(sums[of][what], big.NewRat(to-from, 1e9))
	}
	longest := map[string]int64{}
	long := func(of string, from, to int64) {
		if to >= n.since && to-from > longest[of] {
			longest[of] = to - from
		}
	}
	open := map[string]int{}
	for _, l := range n.order {
		spans, had := l.spans, l.had
		if l.phase != "" && !l.over {
			spans = append(spans[:len(spans):len(spans)], naiveSpan{l.phase, l.at, until})
			open["name/"+l.name]++
			open["path/"+l.path]++
			for id, from := range l.have {
				had = append(had[:len(had):len(had)], naiveHad{l.consumers[id], from, until})
				open["consumer/"+l.consumers[id]]++
			}
		}
		for _, s := range spans {
			add("name/"+l.name, s.phase, s.from, s.to)
			add("path/"+l.path, s.phase, s.from, s.to)
			for _, h := range had {
				add("consumer/"+h.consumer, s.phase, max(s.from, h.from), min(s.to, h.to))
			}
		}
		if l.everAcquired {
			end := until
			if l.over {
				end = l.finished
			}
			long("name/"+l.name, l.began, end)
			long("path/"+l.path, l.began, end)
		}
		for _, h := range had {
			long("consumer/"+h.consumer, h.from, h.to)
		}
	}
	all := map[string]bool{}
	for of := range sums {
		all[of] = true
	}
	for of := range n.counts {
		all[of] = true
	}
	for of := range n.granted {
		all[of] = true
	}
	for of := range open {
		all[of] = true
	}
	var out []string
	for of := range all {
		s := sums[of]
		if s == nil {
			s = map[string]*big.Rat{}
		}
		lived := new(big.Rat)
		for _, p := range []string{"staged", "in-use", "overlapped", "exposed"} {
			if s[p] != nil {
				lived.Add(lived, s[p])
			}
		}
		c := n.counts[of]
		out = append(out, fmt.Sprintf("%s granted=%s staged=%s in-use=%s overlapped=%s exposed=%s lived=%s longest=%s acquired=%d failed=%d rotations=%d rollbacks=%d handovers=%d open=%d",
			of, digits(n.granted[of]), digits(s["staged"]), digits(s["in-use"]), digits(s["overlapped"]), digits(s["exposed"]), digits(lived), digits(big.NewRat(longest[of], 1e9)),
			c["acquired"], c["failed_acquisitions"], c["rotations"], c["roll_backs"], c["failed_handovers"], open[of]))
	}
	sort.Strings(out)
	return out
}

// digits prints a rational number that is a decimal one, exactly and shortest.
func digits(r *big.Rat) string {
	if r == nil || r.Sign() == 0 {
		return "0"
	}
	s := r.FloatString(40) // the TTLs have fewer places
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
