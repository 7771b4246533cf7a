package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// The simulated Vault connections: one where guards can be made, one where the
// policy forbids them.
const (
	mainVault = "main"
	bareVault = "bare"
)

// guardTTL is the life of a guard that nobody extends.
const guardTTL = 60 * time.Second

// vaultServer is the truth about leases and guards.
type vaultServer struct {
	w      *world
	grants []*grant
	guards map[string]*guard
	count  int
	kv     map[string]int // versions of the secrets without lease, by name
	// clocks are how often such a secret gets other values by itself, as a static
	// role's do; 0: only somebody changes it.
	clocks map[string]time.Duration
}

// kvPrint tells one version of a secret without lease from another.
func (v *vaultServer) kvPrint(name string) string {
	s := "kv" + strconv.Itoa(v.kv[name])
	if every := v.clocks[name]; every > 0 {
		at := v.w.now
		if v.w.peaceful { // the clocks stand still, so that there is rest
			at = v.w.peaceAt
		}
		s += "." + strconv.FormatInt(int64(at.Sub(epochStart)/every), 10)
	}
	return s
}

// rereadIn is when a secret's own clock gives it other values; 0: it has none.
func (v *vaultServer) rereadIn(name string) time.Duration {
	every := v.clocks[name]
	switch {
	case every == 0:
		return 0
	case v.w.peaceful:
		return 1000 * time.Hour
	}
	return every - v.w.now.Sub(epochStart)%every
}

// guard is a token that leases hang on.
type guard struct {
	accessor string
	ends     time.Time
	extended bool
	revoked  bool
	limit    time.Duration // the most that an extension grants
	grants   []*grant
}

func (g *guard) alive(now time.Time) bool { return !g.revoked && now.Before(g.ends) }

// grant is a lease, or a secret without one (id empty).
type grant struct {
	id string
	// owners are our leases under the id, by their numbers, which Vault does not
	// know: the one that it was read for, and those that adopted it.
	owners    []owner
	elsewhere bool   // it was not read by us, and nobody has to know of it
	vault     string // the connection that it is known by
	guard     *guard
	ttl       time.Duration
	ends      time.Time // zero: never
	last      time.Time // max TTL
	renewable bool
	revoked   bool
	told      bool // its answer reached a holder
	lied      bool // its holder was told another duration
	secret    string
}

type owner struct {
	name string
	no   uint64
}

// under tells whether one of our leases may be under the grant.
func (g *grant) under(no uint64) bool {
	return slices.ContainsFunc(g.owners, func(o owner) bool { return o.no == no })
}

func (g *grant) alive(now time.Time) bool {
	return !g.revoked && (g.ends.IsZero() || now.Before(g.ends)) && (g.guard == nil || g.guard.alive(now))
}

// callFault is how a call goes wrong.
type callFault uint8

const (
	ok2 callFault = iota
	refused
	slow // nothing happened, and no answer
	answerLost
)

// callFault chooses how a call of a name's goes.
func (w *world) callFault(name string, revocation bool) callFault {
	if w.peaceful {
		return ok2
	}
	f, each := ok2, 4
	if w.committing(name) {
		each = 12 // it is seldom that anything is called then
	}
	switch v := w.choice.below(100); {
	case v >= 100-each:
		f = refused
		w.hit(VaultRefuses, name)
	case v >= 100-2*each:
		f = slow
		w.hit(VaultSlow, name)
	case v >= 100-3*each:
		f = answerLost
		w.hit(VaultAnswerLost, name)
	}
	if f != ok2 && revocation {
		w.hit(RevokeFails, name)
	}
	return f
}

// lie gives a duration that Vault did not grant.
func (w *world) lie(name string, g *grant) events.Seconds {
	w.hit(VaultLies, name)
	g.lied = true
	switch w.choice.below(5) {
	case 0:
		return events.WholeSeconds(1)
	case 1:
		return events.WholeSeconds(0)
	case 2:
		return events.WholeSeconds(10 * 365 * 86400)
	case 3:
		return events.MustSeconds("0.333")
	default:
		return events.MustSeconds("17.5")
	}
}

func (v *vaultServer) createGuard() *guard {
	v.count++
	g := &guard{accessor: "A" + strconv.Itoa(v.count), ends: v.w.now.Add(guardTTL), limit: 24 * time.Hour}
	if v.w.choice.chance(80) { // a role with a limit of its own
		g.limit = time.Duration(20+v.w.choice.below(60)) * time.Second
	}
	v.guards[g.accessor] = g
	return g
}

// read grants a lease, under the job's guard if it has one.
func (v *vaultServer) read(j *job) *grant {
	w := v.w
	v.count++
	g := &grant{owners: []owner{{j.effect.Name, j.lease.No}}, vault: j.lease.Vault, guard: j.guard, secret: secretMark + strconv.Itoa(v.count)}
	v.grants = append(v.grants, g)
	if j.lease.Path[0] == 'k' {
		g.guard = nil // nothing hangs on it
		return g
	}
	if g.guard != nil {
		g.guard.grants = append(g.guard.grants, g)
	}
	g.id = "L" + strconv.Itoa(v.count)
	if w.peaceful {
		g.ttl, g.renewable = time.Hour, true
		g.ends, g.last = w.now.Add(g.ttl), w.now.Add(1000*time.Hour)
		return g
	}
	g.ttl = time.Duration(w.choice.between(8, 90)) * time.Second
	if w.choice.chance(100) {
		w.hit(VaultShort, j.effect.Name)
		g.ttl = time.Duration(1+w.choice.below(15)) * time.Second
	}
	g.renewable = !w.choice.chance(200)
	g.ends, g.last = w.now.Add(g.ttl), w.now.Add(g.ttl*time.Duration(1+w.choice.below(5)))
	return g
}

// elsewhere grants a lease to somebody else than us, under no guard of ours.
func (v *vaultServer) elsewhere() *grant {
	v.count++
	g := &grant{id: "L" + strconv.Itoa(v.count), elsewhere: true, told: true, secret: secretMark + strconv.Itoa(v.count)}
	g.ttl = time.Duration(v.w.choice.between(8, 90)) * time.Second
	g.renewable = !v.w.choice.chance(200)
	g.ends, g.last = v.w.now.Add(g.ttl), v.w.now.Add(g.ttl*time.Duration(1+v.w.choice.below(5)))
	v.grants = append(v.grants, g)
	return g
}

// adoptable gives a lease to adopt: one of somebody else's, or, so that two of
// ours share it (L26), one that we own.
func (v *vaultServer) adoptable() *grant {
	if v.w.choice.chance(500) {
		for _, g := range slices.Backward(v.grants) {
			if g.id != "" && g.told && g.alive(v.w.now) && v.w.owned(g) && v.w.choice.chance(500) {
				return g
			}
		}
	}
	return v.elsewhere()
}

// extend gives a guard more to live; false: it is gone.
func (v *vaultServer) extend(g *guard, increment time.Duration) (time.Duration, bool) {
	if !g.alive(v.w.now) {
		return 0, false
	}
	for _, l := range g.grants {
		if l.alive(v.w.now) && !v.w.owned(l) {
			v.w.failf("I3", "the guard %s is extended, and with it lease %s of %v, which the log does not own", g.accessor, l.id, l.owners)
		}
	}
	if !v.w.peaceful {
		increment = min(increment, g.limit)
	}
	g.extended = true
	g.ends = v.w.now.Add(increment)
	return increment, true
}

// renew gives a lease more to live; false: it is gone.
func (v *vaultServer) renew(g *grant, increment time.Duration) (time.Duration, bool) {
	if g == nil || !g.alive(v.w.now) {
		return 0, false
	}
	left := max(g.last.Sub(v.w.now), 0)
	granted := min(increment, left)
	if v.w.choice.chance(pick(v.w.committing(g.owners[0].name), 850, 60)) {
		granted = max(min(granted, increment/2), g.ends.Sub(v.w.now)) // it never takes back
	}
	if granted <= 0 {
		return 0, false
	}
	g.ends = v.w.now.Add(granted)
	return granted, true
}

// byNo finds the grant with a lease id.
func (v *vaultServer) byNo(no uint64, id string) *grant {
	for _, g := range v.grants {
		if g.id == id && g.under(no) {
			return g
		}
	}
	return nil
}

// works tells whether a login with the lease's credential succeeds.
func (v *vaultServer) works(no uint64) bool {
	for _, g := range v.grants {
		if g.told && g.under(no) && g.alive(v.w.now) {
			return true
		}
	}
	return false
}

func (v *vaultServer) revokeLease(j *job) {
	g := v.byNo(j.lease.No, j.lease.LeaseID)
	if g == nil {
		return
	}
	if g.alive(v.w.now) {
		v.w.checkRevocation(g)
	}
	g.revoked = true
}

func (v *vaultServer) revokeGuard(j *job) {
	g := v.guards[j.lease.Guard]
	for _, l := range g.grants {
		if l.alive(v.w.now) {
			v.w.checkRevocation(l)
		}
	}
	g.revoked = true
}
