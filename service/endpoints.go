package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
)

// endpoints is the micro service of a term: it is there while the scope is led
// by this instance, so that whoever asks for a decision reaches the holder or
// nobody. Reads come by [reads], which every instance has.
type endpoints struct {
	term   *term
	micro  micro.Service
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{} // bounds the requests that wait for a decision

	presence *nats.Subscription // says that the scope's reads are answered

	mu      sync.Mutex
	stopped bool // no request is taken any more
	leaving atomic.Bool
	serving sync.WaitGroup
}

// requestsAtOnce bounds the requests of a scope that are being answered.
const requestsAtOnce = 256

// serveAPI starts the term's endpoints.
func (t *term) serveAPI() (*endpoints, error) {
	version := t.svc.opts.Version
	if strings.Count(version, ".") != 2 {
		version = "0.0.0"
	}
	metadata, counts := readsMetadata(t.name), map[string]*opCounts{}
	metadata[api.MetadataScope], metadata["holder"], metadata["epoch"] = t.name, t.svc.cells.HolderID(), fmt.Sprint(t.epoch)
	for op := range contracts {
		counts[op] = &opCounts{}
	}
	m, err := micro.AddService(t.svc.nc, micro.Config{
		// A queue group would go on giving a share of the requests to a
		// subscription behind a NATS server that hangs: only the holder serves.
		QueueGroupDisabled: true,

		Name: api.ServiceName, Version: strings.TrimPrefix(version, "v"), Description: "short-lived credentials, kept alive and handed over",
		Metadata: metadata, StatsHandler: statsOf(counts),
	})
	if err != nil {
		return nil, fmt.Errorf("serving the API of scope %s: %w", t.name, err)
	}
	e := &endpoints{term: t, micro: m, slots: make(chan struct{}, requestsAtOnce)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	ops := map[string]func(context.Context, micro.Request){
		api.Subject(api.OpStatus, t.name):          e.status,
		api.Subject(api.OpLeases, t.name):          e.leases,
		api.Subject(api.OpApply, t.name):           e.apply,
		api.Subject(api.OpRotate, t.name, "*"):     e.rotate,
		api.Subject(api.OpRevoke, t.name, "*"):     e.revoke,
		api.Subject(api.OpReissue, t.name):         e.reissue,
		api.Subject(api.OpStepDown, t.name):        e.stepDown,
		api.Subject(api.OpShutdown, t.name):        e.shutdown,
		api.Subject(api.OpFinalize, t.name):        e.finalize,
		api.Subject(api.OpAdopt, t.name, "*"):      e.adopt,
		wire.Subject(wire.OpRegister, t.name, "*"): e.register,
		wire.Subject(wire.OpLeave, t.name, "*"):    e.leave,
		wire.Subject(wire.OpRefused, t.name, "*"):  e.refused,
	}
	maps.Copy(ops, e.documentOps())
	for subject, handle := range ops {
		op := strings.Split(subject, ".")[1]
		err := m.AddEndpoint(op, micro.HandlerFunc(func(r micro.Request) { e.serve(r, counts[op], handle) }),
			micro.WithEndpointSubject(subject), micro.WithEndpointMetadata(described()[op]))
		if err != nil {
			e.stop()
			return nil, fmt.Errorf("serving %s: %w", subject, err)
		}
	}
	if err := e.serveReads(); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// serve answers a request on a goroutine of its own, within the operation's
// time-out; too many at once are told so.
func (e *endpoints) serve(r micro.Request, counts *opCounts, handle func(context.Context, micro.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.leaving.Load() {
		return // who asked finds the next holder
	}
	select {
	case e.slots <- struct{}{}:
	default:
		counts.busy.Add(1)
		e.refuse(r, busy(againSoon, "%d requests are being answered", requestsAtOnce))
		return
	}
	e.serving.Go(func() {
		defer func() { <-e.slots }()
		ctx, cancel := context.WithTimeout(e.ctx, e.term.svc.cfg.OperationTimeout.Duration())
		defer cancel()
		began := time.Now()
		handle(ctx, answerable{r, e.term.svc.nc, counts})
		counts.answered.Add(1)
		counts.nanos.Add(int64(time.Since(began)))
	})
}

// answerable is a request that is answered when micro's handler has returned
// long since. micro's own answers leave a note in the request for its
// statistics, which it reads as the handler returns: a race.
type answerable struct {
	micro.Request
	nc     *nats.Conn
	counts *opCounts
}

// Respond publishes an answer.
func (a answerable) Respond(body []byte, opts ...micro.RespondOpt) error {
	m := &nats.Msg{Subject: a.Reply(), Data: body}
	for _, o := range opts {
		o(m)
	}
	return a.nc.PublishMsg(m)
}

// RespondJSON publishes v as an answer.
func (a answerable) RespondJSON(v any, opts ...micro.RespondOpt) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.Respond(b, opts...)
}

// Error publishes an answer with micro's headers of an error.
func (a answerable) Error(code, description string, body []byte, opts ...micro.RespondOpt) error {
	a.counts.refused.Add(1)
	m := &nats.Msg{Subject: a.Reply(), Data: body, Header: nats.Header{
		micro.ErrorHeader: {description}, micro.ErrorCodeHeader: {code},
	}}
	for _, o := range opts {
		o(m)
	}
	return a.nc.PublishMsg(m)
}

// stop ends the endpoints and waits for the requests that are being answered.
func (e *endpoints) stop() {
	e.stopReads()
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.cancel()
	if err := e.micro.Stop(); err != nil {
		e.term.log.Warn("ending the API", "error", err)
	}
	e.serving.Wait()
}

// nameOf gives the name in a request's subject.
func nameOf(r micro.Request) string {
	parts := strings.Split(r.Subject(), ".")
	return parts[len(parts)-1]
}

func (e *endpoints) respond(r micro.Request, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = r.Respond(b)
	}
	if err != nil {
		e.term.log.Warn("an answer was not sent", "subject", r.Subject(), "error", err)
	}
}

// refuse answers an operator's request with a problem.
func (e *endpoints) refuse(r micro.Request, err error) {
	p := api.Problem{Code: api.CodeRefused, Message: err.Error()}
	switch {
	case errors.Is(err, leasecore.ErrUnknownName):
		p.Code, p.Names = api.CodeUnknownName, e.names()
	case errors.Is(err, ErrBusy):
		p.Code = api.CodeBusy
	case errors.Is(err, errNotLeading):
		p.Code = api.CodeNotLeading
	default:
		p.Code = documentCode(err)
	}
	b, merr := json.Marshal(p)
	if merr != nil {
		b = nil
	}
	if err := r.Error(p.Code, "refused", b); err != nil {
		e.term.log.Warn("a refusal was not sent", "subject", r.Subject(), "error", err)
	}
}

func (e *endpoints) names() []string {
	var out []string
	e.term.views.byName.each(func(name string, _ *view) { out = append(out, name) })
	slices.Sort(out)
	return out
}

// operator is the actor of an operator's command: who it is, NATS permissions
// have decided; the name is only claimed.
func operator(op string) events.Actor { return events.Actor{Name: "operator/" + op, Claimed: true} }

func (e *endpoints) rotate(ctx context.Context, r micro.Request) {
	seq, err := e.decide(ctx, leasecore.Rotate{Name: nameOf(r)}, operator(api.OpRotate))
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, api.Done{Seq: seq, Says: "a successor is being acquired; see: leasesvc events --follow --lease " + nameOf(r)})
}

func (e *endpoints) revoke(ctx context.Context, r micro.Request) {
	seq, err := e.decide(ctx, leasecore.RevokeActive{Name: nameOf(r)}, operator(api.OpRevoke))
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, api.Done{Seq: seq, Says: "the active lease is retired and being revoked; a new one is acquired"})
}

func (e *endpoints) reissue(ctx context.Context, r micro.Request) {
	done, err := e.term.do(ctx, leasecore.Reissue{}, operator(api.OpReissue), func(s *leasecore.State) any {
		done := api.Done{Seq: s.LastSeq, Says: "successors of the active leases are being acquired"}
		if over := s.PassedOver(e.term.svc.clock.Now()); len(over) > 0 {
			done.Says += ", but not of " + strings.Join(over, "; ")
		}
		return done
	})
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, done)
}

func (e *endpoints) stepDown(_ context.Context, r micro.Request) {
	e.term.leave(stepDown)
	e.respond(r, api.Done{Says: "what is in flight is brought to its end, then the scope is given to a standby"})
}

func (e *endpoints) shutdown(_ context.Context, r micro.Request) {
	e.term.leave(shutdown)
	e.respond(r, api.Done{Says: "all leases are being revoked; then the scope is left alone until an instance is started anew"})
}

// decide has a command decided and gives the sequence of the log after it.
func (e *endpoints) decide(ctx context.Context, c leasecore.Command, actor events.Actor) (uint64, error) {
	seq, err := e.term.do(ctx, c, actor, func(s *leasecore.State) any { return s.LastSeq })
	if err != nil {
		return 0, err
	}
	return seq.(uint64), nil
}

func (e *endpoints) apply(ctx context.Context, r micro.Request) {
	says, err := e.applyDefinitions(ctx, r)
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, api.Done{Says: says})
}

// applyDefinitions puts what was sent in force or, where nothing was, the file
// that this instance has.
func (e *endpoints) applyDefinitions(ctx context.Context, r micro.Request) (string, error) {
	if len(r.Data()) == 0 {
		return e.term.applyFile(ctx)
	}
	plain, err := e.term.svc.keys.Open(r.Headers().Get(api.HeaderXKey), r.Data())
	if err != nil {
		return "", err
	}
	var sent api.Definitions
	if err := json.Unmarshal(plain, &sent); err != nil {
		return "", errors.New("the definitions can't be read") // its text may hold values
	}
	if sent.Until.Before(e.term.svc.clock.Now()) {
		return "", errors.New("the definitions are past their time; send them anew")
	}
	return e.term.applySent(ctx, sent)
}

// read looks at the state on the scope's goroutine: Tick without a name decides
// nothing.
func (e *endpoints) read(ctx context.Context, look func(*leasecore.State) any) (any, error) {
	return e.term.do(ctx, leasecore.Tick{}, events.Actor{}, look)
}

func (e *endpoints) status(ctx context.Context, r micro.Request) {
	out, err := e.term.status(ctx)
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, out)
}

// look shows the state on the scope's goroutine: Tick without a name decides
// nothing.
func (t *term) look(ctx context.Context, look func(*leasecore.State)) error {
	_, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
		look(s)
		return nil
	})
	return err
}

// statusOfState gives what a state says of its scope.
func statusOfState(s *leasecore.State, now time.Time) api.Status {
	out := api.Status{
		Scope: s.Scope, Holder: s.Holder, Epoch: s.Epoch, Since: s.OpenedAt, LastSeq: s.LastSeq, Names: s.Len(), Revision: s.Revision,
	}
	for n := range s.Names() {
		if n.Committed(now) != nil {
			out.Usable++ // L55
		}
	}
	return out
}

// status is what the holder says of itself and its scope.
func (t *term) status(ctx context.Context) (api.Status, error) {
	var out api.Status
	var formats events.Formats
	err := t.look(ctx, func(s *leasecore.State) {
		out, formats = statusOfState(s, t.svc.clock.Now()), s.Formats
		out.Skipped, _ = t.projection.Skipped()
		out.Skipped += t.follower.strangers.Load() - t.strangers // those that came since
	})
	if err != nil {
		return api.Status{}, err
	}
	out.Holder, out.Version, out.ServiceKey, out.Insecure = t.svc.cells.HolderID(), t.svc.opts.Version, t.svc.keys.Public(), t.svc.cfg.InsecureConsumers
	out.Vaults, out.Notes = t.svc.vaultRows()
	out.Notes = append(out.Notes, t.svc.notes()...)
	var notes []string
	out.Upgrade, notes = t.upgrade(ctx, formats)
	out.Notes = append(out.Notes, notes...)
	out.SealKey = t.svc.keys.ID()
	if out.OtherKeys, err = t.keysStatus(ctx); err != nil {
		out.Notes = append(out.Notes, "what the other seal keys are needed for can't be told now: "+err.Error())
	}
	return out, nil
}

// vaultRows tells how the Vault connections are, and what of them needs a person's
// eye.
func (s *Service) vaultRows() (rows []api.Vault, notes []string) {
	for _, name := range s.cfg.VaultNames() {
		row, more := s.vaults[name].status()
		rows, notes = append(rows, row), append(notes, more...)
	}
	return rows, notes
}

// notes tells what else needs a person's eye.
func (s *Service) notes() (notes []string) {
	if s.cfg.InsecureConsumers {
		notes = append(notes, "insecure_consumers is set: whoever reaches NATS may register as a consumer")
	}
	if since, paused := s.cells.PausedSince(); paused {
		notes = append(notes, "NATS refuses our credentials since "+since.UTC().Format(time.RFC3339))
	}
	return notes
}

func (e *endpoints) leases(ctx context.Context, r micro.Request) {
	table, err := e.term.table(ctx, "")
	if err != nil {
		e.refuse(r, err)
		return
	}
	e.respond(r, table)
}

// table is the scope's table, or the row of one name, as the holder has it.
func (t *term) table(ctx context.Context, only string) (api.Leases, error) {
	return tableOf(t.scope.name, only, t.svc.clock.Now, func(look func(*leasecore.State)) error { return t.look(ctx, look) })
}

// row describes one name.
func row(s *leasecore.State, n *leasecore.Name, now time.Time) api.Lease {
	out := api.Lease{Name: n.Name, State: s.Story(n.Name, now), Active: n.Active}
	if n.Definition != nil {
		out.Path = n.Definition.Vault + "/" + n.Definition.Path
	}
	for i := range n.Leases {
		l := &n.Leases[i]
		if l.No != n.Active {
			out.Others = append(out.Others, fmt.Sprintf("%d %s", l.No, l.State))
			continue
		}
		out.LeaseID, out.Public, out.Acquired = l.LeaseID, publicOf(n.Definition, l.Public), l.AcquiredAt
		out.Expires, _ = l.Expires()
	}
	out.Next, _ = s.Wake(n.Name, now)
	for _, c := range n.Consumers {
		out.Consumers = append(out.Consumers, api.Consumer{
			Consumer: c.Consumer, Instance: c.Instance, Incarnation: c.ID, Follows: s.Confirmed(n.Name, c.ID) >= n.N,
		})
	}
	if n.Pending != nil {
		out.Failure = &n.Pending.Failure
	}
	return out
}
