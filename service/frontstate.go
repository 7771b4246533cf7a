package service

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/web"
)

// asked gives the scopes that a question is about: one (?scope=), or all.
func (f *front) asked(q url.Values) ([]string, error) {
	name := q.Get("scope")
	switch {
	case name == "":
		return f.svc.cfg.ScopeNames(), nil
	case f.svc.scopes[name] == nil:
		return nil, errNoScope
	default:
		return []string{name}, nil
	}
}

// parameters refuses those that nobody reads: a filter that is misspelt would
// show everything.
func parameters(q url.Values, known ...string) error {
	for key := range q {
		if !slices.Contains(known, key) {
			return badQuestion{"there is no parameter of that name; those are: " + joined(known)}
		}
	}
	return nil
}

func joined(words []string) string {
	out := ""
	for i, w := range words {
		if i > 0 {
			out += ", "
		}
		out += w
	}
	return out
}

// status answers GET /status.
func (f *front) status(ctx context.Context, r *http.Request) (any, error) {
	s, q := f.svc, r.URL.Query()
	if err := parameters(q, "scope"); err != nil {
		return nil, err
	}
	names, err := f.asked(q)
	if err != nil {
		return nil, err
	}
	is := s.readiness(ctx)
	out := api.InstanceStatus{
		Holder: s.cells.HolderID(), Version: s.opts.Version, Time: s.clock.Now(), Ready: is.ready(), Connected: s.nc.IsConnected(),
		Problems: is.problems, Scopes: []api.ScopeInstance{},
	}
	out.Vaults, out.Notes = s.vaultRows()
	out.Notes = append(out.Notes, s.notes()...)
	if l := s.lastLog.Load(); l != nil {
		out.Log = &api.Log{Created: l.Created, LastSeq: l.LastSeq, Messages: l.Messages, Bytes: l.Bytes, MaxBytes: l.MaxBytes, Replicas: l.Replicas}
	}
	for _, name := range names {
		sc, ready := s.scopes[name], is.scope(name, true)
		row := api.ScopeInstance{
			Scope: name, Role: ready.Role, Ready: ready.Ready, Problems: ready.Problems, Foreign: sc.follower.strangers.Load(),
		}
		if row.Status, row.Holder, err = sc.statusHere(ctx); err != nil {
			return nil, err
		}
		out.Scopes = append(out.Scopes, row)
	}
	return out, nil
}

// statusHere gives a scope's status as its holder, or as a standby has followed it
// and with who leads then.
func (sc *scope) statusHere(ctx context.Context) (st api.Status, holder string, err error) {
	if t := sc.led.Load(); t != nil {
		st, err := t.status(ctx)
		if !errors.Is(err, errNotLeading) {
			return st, st.Holder, err
		}
	}
	sc.mu.Lock()
	holder = sc.holder
	sc.mu.Unlock()
	now := sc.svc.clock.Now()
	sc.follower.read(func(s *leasecore.State, skipped uint64) {
		st = statusOfState(s, now)
		st.Skipped = skipped
	})
	if holder == "" {
		holder = st.Holder
	}
	st.Scope, st.Version, st.Insecure = sc.name, sc.svc.opts.Version, sc.svc.cfg.InsecureConsumers
	st.ServiceKey = sc.svc.keys.Public()
	st.Vaults = []api.Vault{}
	return st, holder, nil
}

// read looks at what is followed; not while a term of ours has it.
func (f *follower) read(look func(s *leasecore.State, skipped uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.taken {
		skipped, _ := f.projection.Skipped()
		look(f.projection.State(), skipped)
	}
}

// leases answers GET /leases.
func (f *front) leases(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	if err := parameters(q, "scope", "name"); err != nil {
		return nil, err
	}
	names, err := f.asked(q)
	if err != nil {
		return nil, err
	}
	out, found := api.Tables{Scopes: []api.Leases{}}, false
	for _, scope := range names {
		table, err := f.svc.scopes[scope].tableHere(ctx, q.Get("name"))
		if err != nil {
			return nil, err
		}
		found = found || len(table.Names) > 0
		out.Scopes = append(out.Scopes, table)
	}
	if q.Get("name") != "" && !found {
		return nil, web.ErrUnknownName
	}
	return out, nil
}

// rowsAtOnce is how many rows of a table are made before others have their turn.
const rowsAtOnce = 250

// tableHere gives a scope's table, or the row of one name, as the holder or as a
// standby has it.
func (sc *scope) tableHere(ctx context.Context, only string) (api.Leases, error) {
	if t := sc.led.Load(); t != nil {
		table, err := t.table(ctx, only)
		if !errors.Is(err, errNotLeading) {
			return table, err
		}
	}
	look := func(look func(*leasecore.State)) error {
		sc.follower.read(func(s *leasecore.State, _ uint64) { look(s) })
		return ctx.Err()
	}
	return tableOf(sc.name, only, sc.svc.clock.Now, look)
}

// tableOf makes a table of a state that look shows, piece by piece: a name that
// comes or goes meanwhile is in it or not.
func tableOf(scope, only string, now func() time.Time, look func(func(*leasecore.State)) error) (api.Leases, error) {
	out := api.Leases{Scope: scope, Time: now(), Names: []api.Lease{}}
	names := []string{only}
	if only == "" {
		if err := look(func(s *leasecore.State) { names = unsorted(s) }); err != nil {
			return out, err
		}
		slices.Sort(names)
	}
	for part := range slices.Chunk(names, rowsAtOnce) {
		err := look(func(s *leasecore.State) {
			for _, name := range part {
				if n := s.Name(name); n != nil {
					out.Names = append(out.Names, row(s, n, out.Time))
				}
			}
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func unsorted(s *leasecore.State) []string {
	out := make([]string, 0, s.Len())
	for n := range s.Names() {
		out = append(out, n.Name)
	}
	return out
}

const (
	eventsUnlessTold = 100
	eventsAtMost     = 4096
)

// events answers GET /events, from what the page has read: events that count.
func (f *front) events(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	if err := parameters(q, "scope", "name", "type", "after", "limit"); err != nil {
		return nil, err
	}
	scopes, err := f.asked(q)
	if err != nil {
		return nil, err
	}
	after, err := number(q, "after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := number(q, "limit", eventsUnlessTold)
	if err != nil {
		return nil, err
	}
	p := f.shown.Load()
	if p == nil || !p.history.Ready() {
		return nil, errors.New("the log is being read")
	}
	var out api.Events
	if name := q.Get("name"); name != "" {
		if out, err = eventsOf(ctx, p.page, scopes, name); err != nil {
			return nil, err
		}
	} else {
		said, complete := p.history.Latest(after)
		out.Complete = complete
		for i := range said {
			e := &said[i]
			out.Events = append(out.Events, api.EventLine{
				Seq: e.Seq, Time: time.UnixMilli(e.At).UTC(), Scope: e.Scope, Name: e.Name, Lease: e.Lease, Type: e.Type, Says: e.Says,
			})
		}
	}
	out.Events = slices.DeleteFunc(out.Events, func(e api.EventLine) bool {
		return e.Seq <= after || !slices.Contains(scopes, e.Scope) || q.Get("type") != "" && e.Type != q.Get("type")
	})
	if n := len(out.Events) - int(min(limit, eventsAtMost)); n > 0 {
		if out.Complete = false; q.Has("after") { // who goes on from somewhere wants the next ones
			out.Events = out.Events[:len(out.Events)-n]
		} else {
			out.Events = out.Events[n:]
		}
	}
	if out.Events == nil {
		out.Events = []api.EventLine{}
	}
	return out, nil
}

// eventsOf gives the events of one name.
func eventsOf(ctx context.Context, page *web.Handler, scopes []string, name string) (out api.Events, err error) {
	out.Complete = true
	for _, scope := range scopes {
		d, derr := page.Detail(ctx, scope, name, web.Now)
		if errors.Is(derr, web.ErrUnknownName) {
			err = derr
			continue
		}
		if derr != nil {
			return out, derr
		}
		out.Complete = out.Complete && d.Earlier == 0
		for i := range d.Events {
			e := &d.Events[i]
			out.Events = append(out.Events, api.EventLine{
				Seq: e.Seq, Time: time.UnixMilli(e.At).UTC(), Scope: scope, Name: name, Lease: e.Lease, Type: e.Type, Epoch: e.Epoch, Actor: e.Actor, Says: e.Says,
			})
		}
	}
	if len(out.Events) == 0 {
		return out, err
	}
	slices.SortFunc(out.Events, func(a, b api.EventLine) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return out, nil
}

// number reads a parameter that is a whole number, 0 or more.
func number(q url.Values, key string, otherwise uint64) (uint64, error) {
	if !q.Has(key) {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(q.Get(key), 10, 63)
	if err != nil {
		return 0, badQuestion{key + " is a whole number, 0 or more"}
	}
	return n, nil
}
