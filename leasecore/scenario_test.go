package leasecore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// world is a core with a log in memory: what the service does, without I/O.
type world struct {
	t     testing.TB
	state *leasecore.State
	now   time.Time
	seq   uint64
	cmd   int
	log   []events.Event
	// draining: the holder is about to give the scope back.
	draining bool
}

func newWorld(t testing.TB) *world {
	return &world{t: t, state: leasecore.NewState("prod"), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// append gives events their sequences and applies them.
func (w *world) append(evs ...events.Event) {
	w.t.Helper()
	for i := range evs {
		w.seq++
		evs[i].Seq = w.seq
		if err := w.state.Apply(&evs[i]); err != nil {
			w.t.Fatalf("applying: %v\n%s", err, w.state.Print())
		}
		w.log = append(w.log, evs[i])
	}
}

// decide decides and appends; when something changed it looks at the name again
// with the real sequences, as the service does.
func (w *world) decide(c leasecore.Command) ([]events.Event, error) {
	w.t.Helper()
	w.cmd++
	evs, err := leasecore.Decide(leasecore.NewDraft(w.state), leasecore.At{Now: w.now, ID: "c" + strconv.Itoa(w.cmd), Draining: w.draining}, c)
	if err != nil {
		return nil, err
	}
	w.append(evs...)
	return evs, nil
}

func (w *world) open(epoch uint64, holder string) {
	w.append(events.Event{ID: fmt.Sprint("open", epoch), Scope: "prod", Name: events.EpochName, Epoch: epoch, Time: w.now,
		Data: &events.Opened{Holder: holder, How: events.HowFresh}})
}

// settle ticks every name until nothing more is decided.
func (w *world) settle() (all []events.Event) {
	w.t.Helper()
	for _, name := range w.state.SortedNames() {
		for {
			evs, err := w.decide(leasecore.Tick{Name: name})
			if err != nil {
				w.t.Fatal(err)
			}
			if len(evs) == 0 {
				break
			}
			all = append(all, evs...)
		}
	}
	return all
}

func (w *world) describe(e *events.Event) string {
	b, err := events.Encode(e)
	if err != nil {
		w.t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(b), `"data":`)
	return fmt.Sprintf("%d %s/%d %s %s", e.Seq, e.Name, e.Lease, e.Type(), strings.TrimSuffix(data, "}"))
}

// TestScenarios runs the text scenarios; -rewrite rewrites what they print.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d)
		})
	})
}

// run is the language of the scenarios: a command, its arguments, and what it
// printed: the events, then what is owed and when the next look is due.
func (w *world) run(d *datadriven.TestData) string {
	var out strings.Builder
	before := len(w.log)
	arg := func(key, def string) string {
		if d.HasArg(key) {
			var s string
			d.ScanArgs(w.t, key, &s)
			return s
		}
		return def
	}
	name := arg("name", "orders")
	num := func(key string) uint64 {
		switch n := w.state.Name(name); arg(key, "") {
		case "asked": // the n of the hand-over in flight
			if n == nil || n.Handover == nil {
				d.Fatalf(w.t, "no hand-over of %s is in flight", name)
			}
			return n.Handover.N
		case "told": // the n of the last commit or roll back
			if n == nil {
				d.Fatalf(w.t, "there is no name %s", name)
			}
			return n.N
		}
		v, err := strconv.ParseUint(arg(key, "0"), 10, 64)
		if err != nil {
			d.Fatalf(w.t, "%s: %v", key, err)
		}
		return v
	}
	var failed *leasecore.Failed
	if d.HasArg("err") {
		failed = &leasecore.Failed{
			Failure: events.Failure{Kind: arg("err", ""), Message: "it went wrong"},
			Refused: d.HasArg("refused"), Gone: d.HasArg("gone"), RetryAfter: events.MustSeconds(arg("retry-after", "0")).Duration(),
		}
	}
	var cmd leasecore.Command
	switch d.Cmd {
	case "state":
		return w.state.Print()
	case "open":
		w.open(num("epoch"), arg("holder", "a"))
	case "wait":
		dur, err := time.ParseDuration(arg("for", ""))
		if err != nil {
			d.Fatalf(w.t, "%v", err)
		}
		w.now = w.now.Add(dur)
	case "define":
		cmd = w.define(d, num("revision"), arg)
	case "acquired":
		grant := &events.Acquired{
			LeaseID: arg("id", ""), TTL: events.MustSeconds(arg("ttl", "0")), Renewable: d.HasArg("renewable"), SentAt: w.now,
			Guard: arg("guard", ""), Keys: strings.Split(arg("keys", "password+username"), "+"), Fingerprint: arg("fp", "f"+arg("id", "")),
			RereadIn: events.MustSeconds(arg("reread-in", "0")),
		}
		if grant.Guard != "" {
			grant.GuardTTL = events.WholeSeconds(60)
		}
		cmd = leasecore.AcquireDone{Name: name, Lease: num("lease"), Grant: grant, Err: failed, LeaseID: arg("id", ""), Guard: arg("guard", "")}
	case "extended":
		cmd = leasecore.ExtendDone{Name: name, Lease: num("lease"), Granted: events.MustSeconds(arg("ttl", "3600")), SentAt: w.now, Err: failed}
	case "verified":
		cmd = leasecore.VerifyDone{Name: name, Lease: num("lease"), Verifier: "postgresql", Err: failed}
	case "register":
		cmd = leasecore.Register{Name: name, Registration: events.Registered{
			Consumer: arg("consumer", "api"), Instance: arg("instance", "i1"), Incarnation: arg("inc", "A"), Replaces: arg("replaces", ""), Key: arg("key", "UAPI"),
		}, Insecure: d.HasArg("insecure")}
	case "leave":
		cmd = leasecore.Leave{Name: name, Incarnation: arg("inc", "A"), Reason: events.LeftByItself}
	case "answer":
		cmd = leasecore.Answered{Name: name, N: num("n"), Incarnation: arg("inc", "A"), Yes: d.HasArg("yes"), Reason: arg("reason", "")}
	case "confirm":
		w.state.Confirm(name, arg("inc", "A"), num("n"))
	case "renewed":
		cmd = leasecore.RenewDone{Name: name, Lease: num("lease"), Anew: d.HasArg("anew"), Renewed: &events.Renewed{
			TTL: events.MustSeconds(arg("ttl", "60")), Renewable: !d.HasArg("not-renewable"), SentAt: w.now, GuardTTL: events.MustSeconds(arg("guard-ttl", "0")),
		}, Err: failed}
	case "revoked":
		cmd = leasecore.RevokeDone{Name: name, Lease: num("lease"), Gone: d.HasArg("gone"), Err: failed}
	case "story":
		return fmt.Sprintf("%s, in flight: %t\n", w.state.Story(name, w.now), w.state.Name(name) != nil && w.state.Name(name).InFlight())
	case "draining":
		w.draining = !d.HasArg("off")
	case "polled": // what the secret's own clock says
		w.state.Polled(name, w.now, d.HasArg("failed"), events.MustSeconds(arg("reread-in", "0")).Duration())
	case "changed":
		w.state.Polled(name, w.now, false, events.MustSeconds(arg("reread-in", "0")).Duration())
		cmd = leasecore.PollDone{Name: name, Lease: num("lease"), Fingerprint: arg("fp", "")}
	case "installed":
		w.state.Installed(name, w.now)
	case "adopt":
		cmd = leasecore.Adopt{Name: name, Lease: num("lease"), Adopted: events.Adopted{Vault: "main", Acquired: events.Acquired{
			LeaseID: arg("id", ""), TTL: events.MustSeconds(arg("ttl", "0")), Renewable: d.HasArg("renewable"), SentAt: w.now,
			Keys: strings.Split(arg("keys", "password+username"), "+"), Fingerprint: arg("fp", "f"+arg("id", "")),
		}}}
	case "reissue":
		cmd = leasecore.Reissue{}
	case "shutdown":
		cmd = leasecore.Shutdown{}
	case "rotate":
		cmd = leasecore.Rotate{Name: name}
	case "revoke":
		cmd = leasecore.RevokeActive{Name: name}
	case "release":
		cmd = leasecore.Release{Holder: arg("holder", "a"), Shutdown: d.HasArg("shutdown")}
	default:
		d.Fatalf(w.t, "unknown command %s", d.Cmd)
	}
	if cmd != nil {
		if _, err := w.decide(cmd); err != nil {
			fmt.Fprintf(&out, "refused: %v\n", err)
		}
	}
	atOnce := len(w.log)
	w.settle()
	for i := before; i < len(w.log); i++ {
		if i == atOnce && cmd != nil {
			out.WriteString("and at the next look:\n") // not decided with the command itself
		}
		fmt.Fprintln(&out, w.describe(&w.log[i]))
	}
	for _, n := range w.state.SortedNames() {
		for _, e := range w.state.Owed(n, w.now) {
			fmt.Fprintf(&out, "owed: %s\n", e)
		}
		if at, ok := w.state.Wake(n, w.now); ok {
			fmt.Fprintf(&out, "next look at %s: +%s\n", n, at.Sub(w.now))
		}
	}
	return out.String()
}

func (w *world) define(d *datadriven.TestData, revision uint64, arg func(string, string) string) leasecore.Command {
	defs := map[string]events.Definition{}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		def := events.DefaultDefinition()
		def.Vault, def.Kind, def.Path = "main", events.KindPostgreSQL, "database/creds/"+fields[0]
		def.GoodFor = events.WholeSeconds(5)
		def.PrepareTimeout = events.WholeSeconds(10)
		for _, f := range fields[1:] {
			switch key, value, _ := strings.Cut(f, "="); key {
			case "path":
				def.Path = value
			case "kind":
				def.Kind = events.Kind(value)
			case "verifier":
				def.Verifier = &events.Verifier{Kind: "postgresql", DSN: "x", Timeout: events.WholeSeconds(5)}
			case "consumer":
				def.Consumers = append(def.Consumers, events.Consumer{Name: "api", Key: "UAPI"})
			case "good-for":
				def.GoodFor = events.MustSeconds(value)
			case "poll":
				def.Poll = events.MustSeconds(value)
			case "per-hour":
				if _, err := fmt.Sscan(value, &def.AcquisitionsPerHour); err != nil {
					d.Fatalf(w.t, "%v", err)
				}
			case "vault":
				def.Vault = value
			case "retire-after":
				def.RetireAfter = events.MustSeconds(value)
			default:
				d.Fatalf(w.t, "unknown setting %s", f)
			}
		}
		defs[fields[0]] = def
	}
	return leasecore.ApplyDefinitions{Insecure: d.HasArg("insecure"), Revision: revision, Digest: arg("digest", fmt.Sprint("d", revision)), Definitions: defs}
}
