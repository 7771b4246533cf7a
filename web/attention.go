package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Concern is what a person should look at, and what to do.
type Concern struct {
	// Level is "high" where applications are or soon will be without a
	// credential, or nobody leads; else "warn".
	Level string `json:"level"`
	Scope string `json:"scope"`
	Name  string `json:"name,omitempty"`
	Lease uint64 `json:"lease,omitempty"`
	Since int64  `json:"since,omitempty"`
	What  string `json:"what"`
	Do    string `json:"do"`
}

const (
	levelHigh = "high"
	levelWarn = "warn"
	// maxConcerns bounds a list; the rest is counted.
	maxConcerns = 200
	// recent is how long a thing that is over is still a concern.
	recent = 24 * time.Hour
	// patience is how long something may take before it is a concern.
	patience = 10 * time.Second
	// lookBack bounds how many events of a name are looked at for what failed.
	lookBack = 64
)

// remedies say what to do about a kind of failure.
var remedies = map[string]string{
	"permission":    "check the policy and the login of the Vault connection: leasesvc doctor, leasesvc vault-policy",
	"not-found":     "check the path in the definition, and that its role is there in Vault",
	"sealed":        "unseal Vault; what is due is done at once then",
	"unreachable":   "see why Vault can't be reached: leasesvc doctor",
	"timeout":       "see why Vault is slow: leasesvc doctor",
	"missing-keys":  "check the definition's kind and require, and the role in Vault",
	"no":            "ask the application that said no; its reason is in the story",
	"login":         "check that the database knows the accounts that Vault makes, and the verifier's address",
	"uninitialised": "initialise Vault",
	"quota":         "raise Vault's rate limit, or lower the number of rotations",
}

func remedy(kind string) string {
	if r := remedies[kind]; r != "" {
		return r
	}
	return "read the story for what failed; leasesvc doctor checks Vault, NATS and the clocks"
}

// concerns gives those of a scope at a moment, of which clock is the time for
// people: at itself, or now.
func (h *history) concerns(at, clock int64) []Concern {
	var all []Concern
	add := func(level string, since int64, do, format string, args ...any) {
		all = append(all, Concern{Level: level, Scope: h.scope, Since: since, What: fmt.Sprintf(format, args...), Do: do})
	}
	switch {
	case h.behind:
		add(levelHigh, h.at, "replace this instance by the release that the others run", "this instance's release is behind the log, and what is shown ends there: %s", h.stopped)
	case h.stopped != "":
		add(levelHigh, h.at, "run leasesvc verify-log, then leasesvc recover", "the log can't be followed: %s", h.stopped)
	}
	if n, latest := h.projection.Skipped(); n > 0 {
		why := ""
		if len(latest) > 0 {
			why = ": " + latest[len(latest)-1].Why
		}
		add(levelWarn, 0, "run leasesvc verify-log: somebody else may write into the stream", "%d messages in the log do not count%s", n, why)
	}
	switch i := h.epochAt(at); {
	case i < 0:
		add(levelHigh, 0, "start leasesvc serve with this scope", "nobody has led the scope yet")
	case h.epochs[i].released != 0 && h.epochs[i].released <= at && h.epochs[i].shutdown:
		add(levelWarn, h.epochs[i].released, "start an instance anew if the scope is to be led again", "the scope was shut down by hand")
	case h.epochs[i].released != 0 && h.epochs[i].released <= at:
		add(levelHigh, h.epochs[i].released, "start leasesvc serve, or see why no standby takes over", "nobody leads the scope")
	}
	for _, p := range h.pauses {
		if p.from <= at && (p.end == 0 || p.end > at) {
			add(levelHigh, p.from, "renew the credentials of the Vault connection; see leasesvc doctor", "paused: Vault %s refuses our credentials (%s)", p.vault, p.kind)
		}
	}
	for _, o := range h.outages {
		if o.from <= at && (o.end == 0 || o.end > at) {
			add(levelHigh, o.from, remedy(o.why), "%s does not work (%s)", o.what, o.why)
		}
	}
	for _, l := range h.lanes {
		all = l.concerns(h, at, clock, all)
	}
	slices.SortStableFunc(all, func(a, b Concern) int { return rank(a.Level) - rank(b.Level) })
	return all
}

func rank(level string) int {
	if level == levelHigh {
		return 0
	}
	return 1
}

// concerns adds those of a name.
func (l *lane) concerns(h *history, at, clock int64, all []Concern) []Concern {
	n := l.until(at)
	if n == 0 || l.calm.Load() == int64(n) && n == len(l.moments) {
		return all
	}
	before := len(all)
	add := func(level string, m *moment, do, format string, args ...any) {
		c := Concern{Level: level, Scope: h.scope, Name: l.name, What: fmt.Sprintf(format, args...), Do: do}
		if m != nil {
			c.Since = m.at
			if m.bar >= 0 {
				c.Lease = l.bars[m.bar].lease
			}
		}
		all = append(all, c)
	}
	active, busy := l.standing(at, clock, add)
	var acquired, renewed, revoked, quiet, registered bool
	for i := n - 1; i >= 0 && i >= n-lookBack; i-- {
		m := &l.moments[i]
		fresh := clock-m.at < recent.Milliseconds()
		switch typeWords[m.typ] {
		case events.TypeInstalled, events.TypeAcquired, events.TypeAdopted, events.TypeVerified:
			acquired = acquired || m.is(events.TypeInstalled)
			if m.is(events.TypeInstalled) {
				renewed = true
			}
		case events.TypeAcquireFailed, events.TypeVerifyFailed, events.TypeRollbackStarted:
			if !acquired {
				acquired = true
				f := h.notes[m.seq]
				add(levelOf(!active), m, remedy(f.kind), "a new credential %s (%s): %s", failedHow[typeWords[m.typ]], f.kind, f.message)
			}
		case events.TypeRenewed:
			renewed = true
		case events.TypeRenewFailed:
			if !renewed {
				renewed = true
				f := h.notes[m.seq]
				add(levelWarn, m, remedy(f.kind), "a renewal failed (%s): %s", f.kind, f.message)
			}
		case events.TypeRevoked:
			revoked = true
		case events.TypeRevokeFailed:
			if !revoked {
				revoked = true
				f := h.notes[m.seq]
				add(levelWarn, m, remedy(f.kind), "a revocation failed (%s): %s", f.kind, f.message)
			}
		case events.TypeRegistered:
			registered = true
		case events.TypeLeft:
			if m.flags&flagQuiet != 0 && !registered && !quiet && fresh {
				quiet = true
				add(levelWarn, m, "see whether the application runs", "a consumer did not answer any more and counts as gone")
			}
		case events.TypeRetired:
			if m.flags&flagCut != 0 && fresh {
				add(levelWarn, m, "see whether the application follows rotations; its old credential is revoked", "a consumer that had not confirmed was cut off")
			}
		case events.TypeOrphaned:
			if fresh {
				add(levelWarn, m, "nothing, if guards are on: it ends within guard_ttl; else look for the account at this path in Vault", "what came of a request is not known (orphaned)")
			}
		case events.TypeRemoved:
			if len(l.open) == 0 {
				return all
			}
		}
	}
	if active && !busy && len(all) == before {
		l.calm.Store(int64(n))
	}
	if !active && !busy && l.defined(n) && clock-l.moments[n-1].at > patience.Milliseconds() {
		add(levelHigh, &l.moments[n-1], "read the story for why; leasesvc rotate "+l.name+" asks for one now", "there is no usable credential")
	}
	return all
}

var failedHow = map[events.Type]string{
	events.TypeAcquireFailed: "was not granted", events.TypeVerifyFailed: "does not work", events.TypeRollbackStarted: "was rolled back",
}

func levelOf(high bool) string {
	if high {
		return levelHigh
	}
	return levelWarn
}

// standing looks at the leases that are there at a moment.
func (l *lane) standing(at, clock int64, add func(string, *moment, string, string, ...any)) (active, busy bool) {
	for i := len(l.bars) - 1; i >= 0; i-- {
		b := &l.bars[i]
		if b.begin() > at {
			continue
		}
		k := len(b.steps) - 1
		for b.steps[k].at > at {
			k--
		}
		since := moment{at: b.steps[k].at, seq: b.steps[k].seq, bar: int32(i)}
		switch p := b.steps[k].phase; p {
		case phaseActive:
			active = true
		case phaseKept:
			add(levelWarn, &since, "see why the consumers do not confirm; until then nothing new is handed over", "a credential that was rolled back is kept: not everybody has said that they are back")
		case phaseHandingOver, phaseRollingBack:
			busy = true
			if clock-since.at > patience.Milliseconds() {
				add(levelWarn, &since, "see whether the consumers run and are connected", "consumers have not answered yet (%s)", p)
			}
		case phaseCandidate:
			busy = true
		case phaseRequested:
			busy = true
			if clock-since.at > 6*patience.Milliseconds() {
				add(levelWarn, &since, "see whether Vault answers: leasesvc doctor", "a request to Vault has no outcome yet")
			}
		}
	}
	for _, o := range l.overspent {
		if o.from <= at && at < o.end {
			add(levelWarn, &moment{at: o.from, bar: -1}, "mend what makes the new credentials fail; the next one is asked for when the budget allows it", "over budget: too many credentials came to nothing (acquisitions_per_hour)")
			break
		}
	}
	return active, busy
}

// defined tells whether a definition is in force after the first n moments.
func (l *lane) defined(n int) bool {
	for i := len(l.defs) - 1; i >= 0; i-- {
		if k := l.defs[i]; int(k) < n {
			return l.moments[k].is(events.TypeApplied)
		}
	}
	return false
}
