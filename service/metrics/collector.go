package metrics

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector makes the gauges of a scrape, and the counters that others keep.
type collector struct {
	source  Source
	metrics *Metrics
}

// fed are the metrics that are registered by themselves.
func fed(m *Metric) bool {
	return m.Type == Histogram || slices.Contains([]*Metric{applied, takeovers, refusals, ended, failures, snapshots}, m)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range catalogue {
		if !fed(m) {
			out <- m.desc
		}
	}
}

// emitter hands on what a scrape finds.
type emitter chan<- prometheus.Metric

func (e emitter) put(m *Metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Type == Counter {
		kind = prometheus.CounterValue
	}
	e <- prometheus.MustNewConstMetric(m.desc, kind, value, labels...)
}

func (e emitter) count(m *Metric, n uint64, labels ...string) { e.put(m, float64(n), labels...) }

func (e emitter) flag(m *Metric, is bool, labels ...string) {
	if is {
		e.put(m, 1, labels...)
		return
	}
	e.put(m, 0, labels...)
}

// at is a moment, in seconds since 1970; a zero one is absent.
func (e emitter) at(m *Metric, t time.Time, labels ...string) {
	if !t.IsZero() {
		e.nanos(m, t.UnixNano(), labels...)
	}
}

func (e emitter) nanos(m *Metric, at int64, labels ...string) {
	if at != 0 {
		e.put(m, float64(at)/float64(time.Second), labels...)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	e, f := emitter(out), c.source.Figures()
	e.put(buildInfo, 1, c.metrics.opts.Version, goVersion)
	e.flag(insecure, f.Insecure)
	e.flag(loopStuck, f.Stuck)
	e.put(seriesInline, float64(c.metrics.opts.PerLease))
	e.nats(&f)
	for i := range f.Vaults {
		e.vault(&f.Vaults[i])
	}
	for i := range f.Scopes {
		c.scope(e, &f.Scopes[i], f.Now.UnixNano())
	}
}

func (e emitter) nats(f *Figures) {
	e.flag(natsConnected, f.NATS.Connected)
	e.flag(natsRefused, f.NATS.Refused)
	e.count(natsReconnects, f.NATS.Reconnects)
	e.count(logFollowed, f.NATS.Followed)
	e.count(logUnknown, f.NATS.Unknown)
	if l := f.Log; l != nil {
		e.put(logBytes, float64(l.Bytes))
		if l.Limit > 0 {
			e.put(logLimit, float64(l.Limit))
			e.put(logFill, float64(l.Bytes)/float64(l.Limit))
		}
		e.count(logMessages, l.Messages)
		e.count(logLast, l.Last)
	}
	h := f.Holder
	if h == nil {
		return
	}
	seconds := 0.0
	if !h.Renewed.IsZero() {
		seconds = float64(h.Renewed.UnixNano()) / float64(time.Second)
	}
	e.put(renewed, seconds)
	e.count(renewals, h.Renewals)
	e.count(adopted, h.Adopted)
	e.count(claims, h.Claims)
	e.count(lostRaces, h.LostRaces)
	e.count(deposals, h.Fast, "no-responders")
	e.count(deposals, h.Deposals-min(h.Fast, h.Deposals), "silence")
	e.count(deposed, h.Deposed)
}

func (e emitter) vault(v *Vault) {
	name := v.Name
	e.count(vaultRequests, v.Requests, name)
	e.count(vaultHeld, v.Held, name)
	e.count(vaultOutages, v.Outages, name)
	e.count(vaultProbes, v.Probes, name)
	e.count(vaultSuspect, v.Suspect, name)
	e.count(vaultWarnings, v.Warnings, name)
	e.flag(vaultOut, v.Out, name)
	e.flag(vaultPaused, v.Paused, name)
	e.flag(vaultQuota, v.QuotaPaused, name)
	e.flag(vaultLoggedIn, v.LoggedIn, name)
	e.flag(vaultGuarded, v.Guarded, name)
	e.put(vaultFaults, float64(v.Faults), name)
	e.put(vaultWaiting, float64(v.Waiting), name)
	e.put(vaultInFlight, float64(v.InFlight), name)
	e.at(vaultToken, v.TokenExpires, name)
	type call struct{ operation, result string }
	calls := map[call]uint64{} // words that are not on the lists fall together
	for _, k := range v.Calls {
		result := "ok"
		if k.Result != "none" {
			result = word(kinds, k.Result)
		}
		calls[call{word(operations, k.Operation), result}] += k.Count
	}
	for k, n := range calls {
		e.count(vaultCalls, n, name, k.operation, k.result)
	}
}

func (c *collector) scope(e emitter, s *Scope, now int64) {
	e.flag(leading, s.Led != nil, s.Name)
	e.flag(ready, s.Ready, s.Name)
	e.flag(blocked, s.Blocked, s.Name)
	e.count(epoch, s.Epoch, s.Name)
	e.count(foreign, s.Foreign, s.Name)
	e.count(standbyReads, s.Given, s.Name, "answered")
	e.count(standbyReads, s.Unable, s.Name, "not-yet")
	e.at(snapshotAt, s.SnapshotAt, s.Name)
	if s.Led == nil {
		return
	}
	l := s.Led
	e.at(since, l.Since, s.Name)
	e.put(inFlight, float64(l.Handovers), s.Name)
	e.put(queue, float64(l.Queue), s.Name)
	e.put(waiting, float64(l.Due), s.Name)
	e.count(unsaved, l.Unsaved, s.Name)
	e.flag(stalled, l.Stalled, s.Name)
	for work, n := range l.Work {
		e.put(working, float64(n), s.Name, work)
	}
	if e.sums(s, now) <= c.metrics.opts.PerLease {
		c.names(e, s, now)
	}
}

// sums emits what is added up over the names, and gives how many there are.
func (e emitter) sums(s *Scope, now int64) (all int) {
	var usable, unusable, bad, late, registered, behind, missing int
	var byState [MaxStates]int
	first := int64(math.MaxInt64)
	for _, st := range s.Led.Names {
		all++
		if st == nil {
			continue
		}
		if st.usable(now) {
			usable++
		} else {
			unusable++
		}
		if st.Failed > 0 {
			bad++
		}
		if st.overdue(now) {
			late++
		}
		if st.Committed && st.Expires != 0 {
			first = min(first, st.Expires)
		}
		registered += int(st.Registered)
		behind += int(st.Behind)
		missing += int(st.Absent)
		for i, n := range st.Leases {
			byState[i] += int(n)
		}
	}
	e.put(names, float64(usable), s.Name, "usable")
	e.put(names, float64(unusable), s.Name, "unusable")
	e.put(failing, float64(bad), s.Name)
	e.put(overdue, float64(late), s.Name)
	if first != math.MaxInt64 {
		e.nanos(earliest, first, s.Name)
	}
	e.put(incarnation, float64(registered-behind), s.Name, "following")
	e.put(incarnation, float64(behind), s.Name, "behind")
	e.put(absent, float64(missing), s.Name)
	for i, state := range s.Led.States[:min(len(s.Led.States), MaxStates)] {
		if state != "none" {
			e.put(leases, float64(byState[i]), s.Name, state)
		}
	}
	return all
}

// names emits the series of each name.
func (c *collector) names(e emitter, s *Scope, now int64) {
	there := map[string]bool{}
	for name, st := range s.Led.Names {
		if st == nil || there[name] {
			continue
		}
		if len(there) >= c.metrics.opts.PerLease {
			break // names that came while we counted
		}
		there[name] = true
		e.flag(leaseUsable, st.usable(now), s.Name, name)
		if st.Committed {
			e.nanos(leaseExpiry, st.Expires, s.Name, name)
			e.nanos(leaseSuccess, st.Granted, s.Name, name)
			e.nanos(leaseDue, st.Due, s.Name, name)
		}
		e.nanos(leaseNext, st.Next, s.Name, name)
		e.put(leaseFailed, float64(st.Failed), s.Name, name)
		if st.Absent+st.Registered > 0 {
			e.put(leaseAbsent, float64(st.Absent), s.Name, name)
			e.put(leaseBehind, float64(st.Behind), s.Name, name)
		}
	}
	within(&c.metrics.byName, s.Name).Range(func(name, failed any) bool {
		if there[name.(string)] {
			failed.(*sync.Map).Range(func(k, n any) bool {
				f := k.(failure)
				e.count(leaseFailures, n.(*atomic.Uint64).Load(), s.Name, name.(string), f.action, f.kind)
				return true
			})
		}
		return true
	})
}
