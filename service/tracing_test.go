package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/tracing"
	"github.com/leasesvc/leasesvc/vault"
)

// traces collects the spans of several processes, each with an exporter of its own.
type traces struct {
	*rig
	ops *api.Client
	mu  sync.Mutex
	all map[string]*tracetest.InMemoryExporter
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	tr := &traces{rig: newRig(t, "1h", "2h"), all: map[string]*tracetest.InMemoryExporter{}}
	tr.ops = tr.api()
	tr.rig.spans = func(state string) trace.TracerProvider { return tr.process(state, false) }
	return tr
}

// process gives the tracer provider of a process.
func (tr *traces) process(name string, consumes bool) trace.TracerProvider {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.all[name] == nil {
		tr.all[name] = tracetest.NewInMemoryExporter()
	}
	sampler := sdktrace.TraceIDRatioBased(1)
	if consumes {
		sampler = sdktrace.ParentBased(sampler)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(tr.all[name]), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(tracing.IDs{}))
	return p
}

// spans gives the spans so far that are of a process; of all where there is none.
func (tr *traces) of(process string) (out tracetest.SpanStubs) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for name, e := range tr.all {
		if process == "" || name == process {
			out = append(out, e.GetSpans()...)
		}
	}
	return out
}

// root gives the hand-over of a lease that came out in a way.
func (tr *traces) root(lease int64, outcome tracing.Outcome) (s tracetest.SpanStub) {
	tr.t.Helper()
	tr.await(fmt.Sprintf("the hand-over of lease %d, %s", lease, outcome), func() bool {
		found := tr.pick(tr.of(""), "handover", lease)
		if len(found) == 1 {
			s = found[0]
		}
		return len(found) == 1
	})
	if got := value(s, tracing.OutcomeKey); got != string(outcome) {
		tr.t.Fatalf("lease %d came out as %s, not %s", lease, got, outcome)
	}
	if s.Parent.IsValid() {
		tr.t.Errorf("the hand-over of lease %d has a parent", lease)
	}
	return s
}

func (tr *traces) pick(from tracetest.SpanStubs, name string, lease int64) (out tracetest.SpanStubs) {
	for _, s := range from {
		if s.Name == name && (lease == 0 || value(s, tracing.LeaseKey) == fmt.Sprint(lease)) {
			out = append(out, s)
		}
	}
	return out
}

func value(s tracetest.SpanStub, k attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == k {
			return a.Value.String()
		}
	}
	return ""
}

// tree prints a trace: each span's process, name, who and outcome, children below
// their parents in order of name.
func (tr *traces) tree(id trace.TraceID) string {
	type node struct {
		process string
		tracetest.SpanStub
	}
	below := map[trace.SpanID][]node{}
	known := map[trace.SpanID]bool{}
	tr.mu.Lock()
	for process, e := range tr.all {
		for _, s := range e.GetSpans() {
			if s.SpanContext.TraceID() == id {
				below[s.Parent.SpanID()] = append(below[s.Parent.SpanID()], node{process, s})
				known[s.SpanContext.SpanID()] = true
			}
		}
	}
	tr.mu.Unlock()
	var out strings.Builder
	var show func(id trace.SpanID, depth int)
	show = func(id trace.SpanID, depth int) {
		slices.SortFunc(below[id], func(a, b node) int {
			return strings.Compare(a.Name+value(a.SpanStub, tracing.InstanceKey)+a.process, b.Name+value(b.SpanStub, tracing.InstanceKey)+b.process)
		})
		for _, n := range below[id] {
			fmt.Fprintf(&out, "%s%s", strings.Repeat("  ", depth), n.Name)
			if in := value(n.SpanStub, tracing.InstanceKey); in != "" {
				fmt.Fprintf(&out, " %s", in)
			}
			fmt.Fprintf(&out, " %s", value(n.SpanStub, tracing.OutcomeKey))
			if f := value(n.SpanStub, tracing.FailureKey); f != "" {
				fmt.Fprintf(&out, " (%s)", f)
			}
			fmt.Fprintf(&out, " @%s\n", n.process)
			show(n.SpanContext.SpanID(), depth+1)
		}
	}
	show(trace.SpanID{}, 0)
	for parent, orphans := range below {
		if parent.IsValid() && !known[parent] {
			for _, o := range orphans {
				fmt.Fprintf(&out, "ORPHAN %s @%s\n", o.Name, o.process)
			}
		}
	}
	return out.String()
}

// is checks a trace once it has settled.
func (tr *traces) is(root tracetest.SpanStub, want string) {
	tr.t.Helper()
	want = strings.TrimPrefix(want, "\n")
	got := tr.tree(root.SpanContext.TraceID())
	for end := time.Now().Add(30 * time.Second); got != want && time.Now().Before(end); got = tr.tree(root.SpanContext.TraceID()) {
		<-time.After(10 * time.Millisecond)
	}
	if got != want {
		tr.t.Errorf("the trace is\n%s\nnot\n%s", got, want)
	}
}

// app runs an instance of the consumer in a process of its own; die cuts it off.
func (tr *traces) app(instance string, h consumer.Handler, traced bool) (die func()) {
	tr.t.Helper()
	nc := tr.nats.Conn(tr.t)
	o := consumer.Options{
		Conn: nc, Scope: "prod", Consumer: "shop", Instance: instance, Insecure: true,
		Logger: slog.New(slog.NewTextHandler(testWriter{tr.t}, nil)),
	}
	if traced {
		o.TracerProvider = tr.process(instance, true)
	}
	client, err := consumer.Connect(context.Background(), o)
	if err != nil {
		tr.t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- client.Serve(ctx, "app", h) }()
	tr.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tr.t.Errorf("%s ended with: %v", instance, err)
		}
		client.Close()
	})
	return nc.Close
}

func (tr *traces) rotate() {
	tr.t.Helper()
	tr.await("a rotation", func() bool { // after a failure one has to wait
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, err := tr.ops.Rotate(ctx, "prod", "app")
		var refused *api.Problem
		if err != nil && !errors.As(err, &refused) {
			tr.t.Fatal(err) // it may have begun: asking again would begin another
		}
		return err == nil
	})
}

func (tr *traces) fine(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// noSecretTraced checks that spans have attributes of the closed set only, no
// description, no event, and none of some texts anywhere.
func (tr *traces) noSecretTraced(texts ...string) {
	tr.t.Helper()
	users, err := tr.accts.List(context.Background())
	tr.fine(err)
	texts = append(append(texts, users...), tr.vault.RootToken().Reveal())
	tr.rig.mu.Lock()
	for i := range tr.log {
		if a, ok := tr.log[i].Data.(*events.Acquired); ok {
			texts = append(texts, a.LeaseID, a.Guard, a.Public["username"])
		}
	}
	tr.rig.mu.Unlock()
	checked := 0
	for _, s := range tr.of("") {
		for _, a := range s.Attributes {
			if !slices.Contains(tracing.Keys(), a.Key) {
				tr.t.Errorf("%s has the attribute %s", s.Name, a.Key)
			}
		}
		if s.Status.Description != "" || len(s.Events) != 0 {
			tr.t.Errorf("%s has a description or events: %+v", s.Name, s)
		}
		b, err := json.Marshal(s)
		tr.fine(err)
		for _, text := range texts {
			if text == "" {
				continue
			}
			checked++
			if strings.Contains(string(b), text) {
				tr.t.Errorf("%s holds %.6s...: %s", s.Name, text, b)
			}
		}
	}
	if checked < 20 {
		tr.t.Errorf("only %d texts were looked for: the test shows nothing", checked)
	}
}

// app2 is a definition that asks everybody, and takes a silent one for gone soon.
const app2 = `  app:
    path: database/creds/app
    kind: postgresql
    consumers: [{name: shop}]
    prepare_timeout: 20s
    rollback_timeout: 20s
    good_for: 200ms
    leave_after: 400ms
`

// One trace of each hand-over, through the service and two consumers: a commit,
// and a roll back because one says no.
func TestTracing_OneTraceOfEachHandOver(t *testing.T) {
	t.Parallel()
	tr := newTraces(t)
	tr.definitions(1, app2)
	one, two := &shop{rig: tr.rig}, &shop{rig: tr.rig}
	tr.run("a")
	tr.app("shop-0", one, true)
	tr.app("shop-1", two, true)
	tr.await("the first commit", func() bool { return one.lease() > 0 && two.lease() == one.lease() && tr.followed(2) })
	base := int64(one.lease())

	tr.rotate()
	committed := tr.root(base+1, tracing.Committed)
	tr.is(committed, `
handover committed @a
  acquire ok @a
    guard ok @a
    read ok @a
    seal ok @a
  commit ok @a
  extend ok @a
  follow shop-0 confirmed @a
    follow shop-0 confirmed @shop-0
  follow shop-1 confirmed @a
    follow shop-1 confirmed @shop-1
  prepare shop-0 yes @a
    prepare shop-0 yes @shop-0
  prepare shop-1 yes @a
    prepare shop-1 yes @shop-1
`)
	if links := linked(committed); !slices.Equal(slices.Sorted(maps.Keys(links)), []string{tracing.Replaces}) {
		t.Errorf("links: %v", links)
	}

	const why = "the disk of secret-host-7 is full"
	two.answer(errors.New(why))
	two.hang(true) // until the other has said yes, which it is not asked any more after a no
	before := tr.count(events.TypePrepared)
	tr.rotate()
	tr.await("a yes", func() bool { return tr.count(events.TypePrepared) == before+1 })
	two.hang(false)
	back := tr.root(base+2, tracing.RolledBack)
	tr.is(back, `
handover rolled-back (refused) @a
  acquire ok @a
    guard ok @a
    read ok @a
    seal ok @a
  extend ok @a
  prepare shop-0 yes @a
    prepare shop-0 yes @shop-0
  prepare shop-1 no @a
    prepare shop-1 no @shop-1
  rollback ok (refused) @a
    revert shop-0 confirmed @a
      revert shop-0 confirmed @shop-0
    revert shop-1 confirmed @a
      revert shop-1 confirmed @shop-1
`)
	if back.Status.Code != codes.Error || committed.Status.Code == codes.Error {
		t.Errorf("status: %v, %v", back.Status, committed.Status)
	}
	checkTimes(t, tr.of(""))

	// What follows a failure says so.
	two.answer(nil)
	tr.rotate()
	again := tr.root(base+3, tracing.Committed)
	if links := linked(again); links[tracing.Attempt] != back.SpanContext.SpanID() || links[tracing.Replaces] != committed.SpanContext.SpanID() {
		t.Errorf("links: %v", links)
	}
	tr.noSecretTraced(why, "secret-host-7", "database/creds")

	// Until the lease before is retired a successor would go on with the trace,
	// and who comes be told as part of it.
	tr.await("the end of what was replaced", func() bool {
		return len(tr.rig.of(events.TypeRevoked, "app", uint64(base+1))) == 1
	})
	// Who comes later, and a holder that asks again what it can't know, are no
	// part of a hand-over.
	three := &shop{rig: tr.rig}
	tr.app("shop-2", three, true)
	tr.await("the third to follow", func() bool { return three.lease() > 0 && tr.followed(3) })
	tr.run("b")
	tr.await("a standby", func() bool { return strings.Contains(tr.out.String(), "standing by") })
	was, err := tr.ops.Status(aBit(t), "prod")
	tr.fine(err)
	tr.done(tr.ops.StepDown(aBit(t), "prod"))
	tr.await("a successor", func() bool {
		ctx, cancel := soon()
		defer cancel()
		st, err := tr.ops.Status(ctx, "prod")
		return err == nil && st.Epoch > was.Epoch && tr.followed(3)
	})
	if got := tr.of("b"); len(got) != 0 {
		t.Errorf("a successor that had nothing to go on with has %d spans, the first %s", len(got), got[0].Name)
	}
	for _, s := range tr.of("a") {
		if value(s, tracing.InstanceKey) == "shop-2" {
			t.Errorf("who came later is in a trace: %s", s.Name)
		}
	}
}

// soon bounds a request that may be lost while a scope changes hands.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Second)
}

// followed tells whether nobody is told anything any more.
func (tr *traces) followed(consumers int) bool {
	ctx, cancel := soon()
	defer cancel()
	table, err := tr.ops.Leases(ctx, "prod")
	if err != nil || len(table.Names) != 1 || len(table.Names[0].Consumers) != consumers {
		return false
	}
	for _, c := range table.Names[0].Consumers {
		if !c.Follows {
			return false
		}
	}
	return true
}

func linked(s tracetest.SpanStub) map[string]trace.SpanID {
	out := map[string]trace.SpanID{}
	for _, l := range s.Links {
		for _, a := range l.Attributes {
			out[a.Value.String()] = l.SpanContext.SpanID()
		}
	}
	return out
}

// checkTimes checks that spans end after they begin, and begin after what is
// above them.
func checkTimes(t *testing.T, all tracetest.SpanStubs) {
	t.Helper()
	began := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range all {
		began[s.SpanContext.SpanID()] = s
	}
	for _, s := range all {
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ends before it begins", s.Name)
		}
		if above, ok := began[s.Parent.SpanID()]; ok && s.StartTime.Before(above.StartTime) {
			t.Errorf("%s begins %s before %s", s.Name, above.StartTime.Sub(s.StartTime), above.Name)
		}
	}
}

// A consumer that dies while it is asked, and a consumer that does not trace.
func TestTracing_AConsumerDies(t *testing.T) {
	t.Parallel()
	tr := newTraces(t)
	tr.definitions(1, app2)
	one, two := &shop{rig: tr.rig}, &shop{rig: tr.rig}
	tr.run("a")
	tr.app("shop-0", one, false)
	dies := tr.app("shop-1", two, true)
	tr.await("the first commit", func() bool { return one.lease() > 0 && two.lease() == one.lease() && tr.followed(2) })
	base := int64(one.lease())

	two.hang(true)
	before := tr.count(events.TypePrepared)
	tr.rotate()
	tr.await("one to have answered", func() bool { return tr.count(events.TypePrepared) == before+1 })
	dies()
	defer two.hang(false)
	done := tr.root(base+1, tracing.Committed)
	tr.is(done, `
handover committed @a
  acquire ok @a
    guard ok @a
    read ok @a
    seal ok @a
  commit ok @a
  extend ok @a
  follow shop-0 confirmed @a
  prepare shop-0 yes @a
  prepare shop-1 absent @a
`)
	if got := tr.of("shop-0"); len(got) != 0 {
		t.Errorf("a consumer without a tracer has %d spans", len(got))
	}
}

// A holder dies in the middle: its successor goes on with the same trace.
func TestTracing_ATakeoverGoesOnWithTheTrace(t *testing.T) {
	t.Parallel()
	tr := newTraces(t)
	tr.definitions(1, app2)
	one, two := &shop{rig: tr.rig}, &shop{rig: tr.rig}
	tr.more = "shutdown_timeout: 1s\n"
	a, stop := tr.start("a")
	tr.app("shop-0", one, true)
	tr.app("shop-1", two, true)
	tr.await("the first commit", func() bool { return one.lease() > 0 && two.lease() == one.lease() && tr.followed(2) })
	base := int64(one.lease())
	tr.run("b")
	tr.await("a standby", func() bool { return strings.Contains(tr.out.String(), "standing by") })

	two.hang(true)
	before := tr.count(events.TypePrepared)
	tr.rotate()
	tr.await("one yes", func() bool { return tr.count(events.TypePrepared) == before+1 })
	service.CutOff(a)
	tr.await("the roll back to begin", func() bool { return len(tr.events(events.TypeRollbackStarted)) == 1 })
	_ = stop() // it gave up by itself, if the take-over took long
	if n := tr.count(events.TypeReleased); n != 0 {
		t.Errorf("%d releases: who was cut off could not finish what it began", n)
	}
	two.hang(false)
	back := tr.root(base+1, tracing.RolledBack)
	got := tr.tree(back.SpanContext.TraceID())
	tr.await("both to be back", func() bool {
		got = tr.tree(back.SpanContext.TraceID())
		return strings.Count(got, "confirmed @b") == 2
	})
	for _, want := range []string{
		"handover rolled-back (takeover) @b\n", "  acquire ok @a\n", "    read ok @a\n", "  prepare shop-0 yes @a\n    prepare shop-0 yes @shop-0\n",
		"  prepare shop-1 ended @a\n", "  rollback ok (takeover) @b\n", "    revert shop-0 confirmed @b\n      revert shop-0 confirmed @shop-0\n", "    revert shop-1 confirmed @b\n",
	} {
		tr.await("in the trace: "+want, func() bool {
			got = tr.tree(back.SpanContext.TraceID())
			return strings.Contains(got, want)
		})
	}
	if strings.Contains(got, "ORPHAN") {
		t.Errorf("spans hang on nothing:\n%s", got)
	}
	if value(back, tracing.EpochKey) == "" || back.EndTime.Before(back.StartTime) {
		t.Errorf("%+v", back)
	}
	tr.noSecretTraced()
}

// An attempt that fails is a trace of its own, with the kind of failure and none of
// what Vault said.
func TestTracing_AnAttemptThatFails(t *testing.T) {
	t.Parallel()
	tr := newTraces(t)
	tr.definitions(1, app2)
	const said = "permission denied to hvs.secret-of-vault"
	fault := tr.vault.Inject(devvault.Fault{Path: "database/creds/app", Status: 403, Body: `{"errors":["` + said + `"]}`, Times: 1})
	one, two := &shop{rig: tr.rig}, &shop{rig: tr.rig}
	tr.run("a")
	tr.app("shop-0", one, true)
	tr.app("shop-1", two, true)
	failed := tr.root(1, tracing.AcquireFailed)
	tr.is(failed, `
handover acquire-failed (permission) @a
  acquire failed (permission) @a
    guard ok @a
    read failed @a
`)
	if fault.Hits() != 1 {
		t.Fatalf("the fault was met %d times", fault.Hits())
	}
	tr.await("the first commit", func() bool { return one.lease() > 0 && two.lease() == one.lease() && tr.followed(2) })
	if links := linked(tr.root(int64(one.lease()), tracing.Committed)); links[tracing.Attempt] != failed.SpanContext.SpanID() {
		t.Errorf("links: %v", links)
	}
	tr.noSecretTraced(said, "secret-of-vault")
}

// slow is a shop that commits when it is let.
type slow struct {
	*shop
	let chan struct{}
}

func (s *slow) Commit(ctx context.Context, c consumer.Credential) error {
	select {
	case <-s.let:
		return s.shop.Commit(ctx, c)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A holder dies when it has committed and not everybody was told: its successor
// tells them, in the same trace.
func TestTracing_ATakeoverGoesOnTelling(t *testing.T) {
	t.Parallel()
	tr := newTraces(t)
	tr.more = "shutdown_timeout: 1s\n"
	tr.definitions(1, app2)
	one, two := &shop{rig: tr.rig}, &slow{shop: &shop{rig: tr.rig}, let: make(chan struct{}, 1)}
	a, stop := tr.start("a")
	tr.app("shop-0", one, true)
	tr.app("shop-1", two, true)
	two.let <- struct{}{}
	tr.await("the first commit", func() bool { return one.lease() > 0 && two.lease() == one.lease() && tr.followed(2) })
	base := int64(one.lease())
	tr.run("b")
	tr.await("a standby", func() bool { return strings.Contains(tr.out.String(), "standing by") })

	tr.rotate()
	root := tr.root(base+1, tracing.Committed)
	tr.await("one to follow", func() bool {
		return strings.Contains(tr.tree(root.SpanContext.TraceID()), "follow shop-0 confirmed @a\n")
	})
	service.CutOff(a)
	_ = stop() // it may have something in flight or not
	close(two.let)
	for _, want := range []string{
		"handover committed @a\n", "  follow shop-0 confirmed @a\n", "  follow shop-0 confirmed @b\n", "  follow shop-1 ended @a\n", "  follow shop-1 confirmed @b\n",
		"    follow shop-1 confirmed @shop-1\n",
	} {
		tr.await("in the trace: "+want, func() bool { return strings.Contains(tr.tree(root.SpanContext.TraceID()), want) })
	}
	if got := tr.tree(root.SpanContext.TraceID()); strings.Contains(got, "ORPHAN") || strings.Count(got, "handover") != 1 {
		t.Errorf("the trace is\n%s", got)
	}
}

// Off costs nothing.
func TestTracing_OffCostsNothing(t *testing.T) {
	ctx, e, owed := context.Background(), &events.Event{}, []leasecore.Effect{}
	f := leasecore.Effect{Kind: leasecore.Prepare, Name: "app", Lease: 1, N: 1, Incarnation: "x"}
	if n := testing.AllocsPerRun(1000, func() { service.TracingOff(ctx, e, f, owed) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every kind of failure of ours is told as what it is.
func TestTracing_KnowsEveryKindOfFailure(t *testing.T) {
	kinds := []string{leasecore.KindMissingKeys, "not-logged-in", "store", "unknown", "removed", "expired", "takeover", "timeout", "refused", "malformed"}
	for k := vault.KindInvalid; k <= vault.KindCanceled; k++ {
		kinds = append(kinds, k.String())
	}
	if vault.KindCanceled.String() != "canceled" || (vault.KindCanceled+1).String() != "none" {
		t.Error("there are more kinds of errors of Vault than are looked at")
	}
	for _, f := range []verify.Failure{verify.AuthRefused, verify.Refused, verify.Unreachable, verify.WrongUser, verify.Unusable, verify.Interrupted} {
		kinds = append(kinds, string(f))
	}
	for _, k := range kinds {
		if got := tracing.Failure(k).Value.AsString(); got != strings.ReplaceAll(k, " ", "-") {
			t.Errorf("%q is told as %q", k, got)
		}
	}
}

// A consumer that has a trace of its own is linked to; what is no header of a
// trace, or names ours, is nothing.
func TestTracing_AnAnswerFromAnotherTraceIsALink(t *testing.T) {
	for _, header := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", "00-nonsense", "ours"} {
		mem := tracetest.NewInMemoryExporter()
		ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem)).Tracer("t").Start(context.Background(), "prepare")
		if header == "ours" {
			header = tracing.Traceparent(ctx)
		}
		service.Answered(span, header)
		got := mem.GetSpans()[0]
		links := linked(got)
		if value(got, tracing.OutcomeKey) != "yes" || len(links) > 1 || (len(links) == 1) != strings.HasPrefix(header, "00-0af7") {
			t.Errorf("%q: %v", header, links)
		}
	}
}
