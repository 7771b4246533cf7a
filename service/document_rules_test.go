package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

// The rules of settings documents (L40-L46), from the API to what a consumer
// reads. What the library does by itself has its tests in handover/document.

// putting is a rig whose service leads, with a lease "other" that asks nobody and
// one "app" that asks the shop.
type putting struct {
	*rig
	key    string
	reader *consumer.Client
}

func newPutting(t *testing.T, definitions string) *putting {
	t.Helper()
	r := newRig(t, "1h", "2h")
	r.definitions(1, definitions)
	return startPutting(r)
}

func startPutting(r *rig) *putting {
	r.t.Helper()
	svc, _ := r.start("state-a")
	return &putting{rig: r, key: svc.ServiceKey(), reader: r.reader()}
}

func (p *putting) put(name string, expected uint64, content string) (api.DocumentDone, error) {
	p.t.Helper()
	return p.update(name, api.DocumentUpdate{Expected: expected, Content: json.RawMessage(content)})
}

func (p *putting) set(name string, expected uint64, assign ...string) (api.DocumentDone, error) {
	p.t.Helper()
	u := api.DocumentUpdate{Expected: expected}
	for i := 0; i < len(assign); i += 2 {
		u.Assign = append(u.Assign, api.DocumentAssignment{Path: assign[i], Value: json.RawMessage(assign[i+1])})
	}
	return p.update(name, u)
}

func (p *putting) update(name string, u api.DocumentUpdate) (api.DocumentDone, error) {
	p.t.Helper()
	u.Until = time.Now().Add(time.Minute)
	return p.api().UpdateDocument(aBit(p.t), "prod", name, p.key, u)
}

// must puts a document, which must work.
func (p *putting) must(done api.DocumentDone, err error) api.DocumentDone {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	return done
}

// read gives a document's content, as any consumer gets it.
func (p *putting) read(name string) (map[string]any, error) {
	d, err := p.reader.Document(aBit(p.t), name)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, d.Decode(&out)
}

// user gives a lease's user name as a get gives it.
func (p *putting) user(lease string) string {
	p.t.Helper()
	c, err := p.reader.Get(aBit(p.t), lease)
	if err != nil {
		return ""
	}
	u, _ := c.Get("username")
	return u.Reveal()
}

func (p *putting) awaitLease(name string) {
	p.t.Helper()
	p.await("lease "+name, func() bool { return p.active(name) != 0 })
}

// refusal gives what an update was refused for.
func refusal(t *testing.T, err error) *api.Problem {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) {
		t.Fatalf("it was not refused: %v", err)
	}
	return p
}

// TestL40_AReferenceStandsAtATypedPath: in a map and in a list, one at a place,
// one key at many places; assigning another moves the place.
func TestL40_AReferenceStandsAtATypedPath(t *testing.T) {
	t.Parallel()
	p := newPutting(t, otherDefinition+strings.ReplaceAll(otherDefinition, "other:", "second:"))
	p.awaitLease("other")
	p.awaitLease("second")
	done := p.must(p.put("app", 0, `{"db":{"user":"lease://other#username"},"args":["-u","lease://other#username"],"n":1.50}`))
	if done.Revision != 1 || len(done.Paths) != 1 || done.Paths[0] != "$" {
		t.Errorf("%+v", done)
	}
	got, err := p.read("app")
	if err != nil {
		t.Fatal(err)
	}
	other, second := p.user("other"), p.user("second")
	if db, args := got["db"].(map[string]any), got["args"].([]any); db["user"] != other || args[1] != other || got["n"] != 1.5 {
		t.Errorf("%v, want %s", got, other)
	}
	done = p.must(p.set("app", 1, "args[1]", `"lease://second#username"`))
	if done.Revision != 2 || fmt.Sprint(done.Paths) != "[args[1]]" {
		t.Errorf("%+v", done)
	}
	p.done(p.api().Rotate(aBit(t), "prod", "other"))
	p.await("the successor in the document", func() bool {
		got, err = p.read("app")
		return err == nil && got["db"].(map[string]any)["user"] != other
	})
	if args := got["args"].([]any); args[1] != second {
		t.Errorf("the place that was moved to second has %v, want %s", args[1], second)
	}
	shown, err := p.api().ShowDocument(aBit(t), "prod", "app")
	if err != nil || len(shown.Places) != 2 || shown.Places[0].By != "lease://second#username" || shown.Places[1].By != "lease://other#username" {
		t.Errorf("%+v, %v", shown, err)
	}
	list, err := p.api().Documents(aBit(t), "prod")
	if err != nil || len(list.Documents) != 1 || list.Documents[0].Revision != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestL41_EveryStepMustExist, in what is written; the refusal is an event.
func TestL41_EveryStepMustExist(t *testing.T) {
	t.Parallel()
	p := newPutting(t, otherDefinition)
	p.awaitLease("other")
	p.must(p.put("app", 0, `{"db":{"all":"lease://other#username"},"list":[1]}`))
	for _, path := range []string{"db.none", "list[1]", "db[0]", "db.all.x", "none.x"} {
		_, err := p.set("app", 1, path, `1`)
		if problem := refusal(t, err); !strings.Contains(problem.Message, path) {
			t.Errorf("%s: %v", path, problem)
		}
	}
	p.await("the refusals in the log", func() bool { return p.count(events.TypeRejected) == 5 })
	if n := p.count(events.TypeUpdated); n != 1 {
		t.Errorf("%d updates were recorded", n)
	}
}

// TestL42_AnUpdateIsOneTransaction: of two from one revision one counts; an error
// at any step leaves everything as it was; each change is one event with its paths
// and the blob that has the content, and no value is in the log.
func TestL42_AnUpdateIsOneTransaction(t *testing.T) {
	t.Parallel()
	p := newPutting(t, otherDefinition)
	p.awaitLease("other")
	p.must(p.put("app", 0, `{"a":"Pl4in-S3cret","b":1,"user":"lease://other#username"}`))
	results := make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := p.set("app", 1, "b", fmt.Sprint(10+i))
			results <- err
		}()
	}
	var conflict *api.Problem
	first, second := <-results, <-results
	if first == nil {
		first = second
	} else if second != nil {
		t.Fatalf("neither counts: %v, %v", first, second)
	}
	if !errors.As(first, &conflict) || conflict.Code != api.CodeConflict {
		t.Errorf("got %v", first)
	}
	for what, u := range map[string]api.DocumentUpdate{
		"a place twice":   {Expected: 2, Assign: []api.DocumentAssignment{{Path: "a", Value: []byte(`"x"`)}, {Path: "a", Value: []byte(`"y"`)}}},
		"a missing key":   {Expected: 2, Assign: []api.DocumentAssignment{{Path: "b", Value: []byte(`2`)}, {Path: "a", Value: []byte(`"lease://other#none"`)}}},
		"an unknown name": {Expected: 2, Content: []byte(`{"a":"lease://nobody#x"}`)},
		"no reference":    {Expected: 2, Content: []byte(`{"a":"lease://nobody"}`)},
		"no JSON":         {Expected: 2, Content: []byte(`"lease://other#username"`)},
		"a lost variable": {Expected: 2, Content: []byte(`{"a":"env://PATH"}`)},
	} {
		if _, err := p.update("app", u); err == nil {
			t.Errorf("%s passes", what)
		}
	}
	got, err := p.read("app")
	if err != nil || got["a"] != "Pl4in-S3cret" || got["user"] != p.user("other") {
		t.Errorf("%v, %v", got, err)
	}
	updates := p.events(events.TypeUpdated)
	if len(updates) != 2 {
		t.Fatalf("%d updates in the log", len(updates))
	}
	u := updates[1].Data.(*events.Updated)
	if u.Revision != 2 || fmt.Sprint(u.Paths) != "[b]" || u.Blob == "" || u.Blob == updates[0].Data.(*events.Updated).Blob {
		t.Errorf("%+v", u)
	}
	p.mu.Lock()
	logged, err := json.Marshal(p.log)
	p.mu.Unlock()
	if err != nil || strings.Contains(string(logged)+p.out.String(), "Pl4in-S3cret") {
		t.Error("a value is in the log")
	}
}

// TestL42_ARestartHasTheDocument, from the log and its blob.
func TestL42_ARestartHasTheDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, stop := r.start("state-a")
	p := &putting{rig: r, key: svc.ServiceKey(), reader: r.reader()}
	p.awaitLease("other")
	p.must(p.put("app", 0, `{"x":1,"user":"lease://other#username"}`))
	p.must(p.set("app", 1, "x", `2`))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.start("state-b")
	p.await("the document", func() bool {
		got, err := p.read("app")
		return err == nil && got["x"] == 2.0 && got["user"] == p.user("other")
	})
	if _, err := p.set("app", 1, "x", `3`); refusal(t, err).Code != api.CodeConflict {
		t.Errorf("got %v", err)
	}
	p.must(p.set("app", 2, "x", `3`))
}

func (p *putting) revision(name string) uint64 {
	p.t.Helper()
	list, err := p.api().Documents(aBit(p.t), "prod")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, d := range list.Documents {
		if d.Name == name {
			return d.Revision
		}
	}
	return 0
}

// TestL44_ADocumentHasUnexpiredValuesOnly: an expired lease is refused, an unknown
// document too, and each says so.
func TestL44_ADocumentHasUnexpiredValuesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, "3s", "3s")
	r.definitions(1, otherDefinition)
	p := startPutting(r)
	p.awaitLease("other")
	p.must(p.put("app", 0, `{"user":"lease://other#username"}`))
	r.vault.Inject(devvault.Fault{Method: "GET", Path: "database/creds/app", Status: 503, Body: `{"errors":["no"]}`})
	r.vault.Inject(devvault.Fault{Method: "*", Path: "sys/leases/renew", Status: 503, Body: `{"errors":["no"]}`})
	p.await("the end of the lease", func() bool {
		_, err := p.read("app")
		if err != nil && !errors.Is(err, consumer.ErrExpired) && !errors.Is(err, consumer.ErrNone) {
			t.Fatal(err)
		}
		return err != nil
	})
	if _, err := p.read("nothing"); !errors.Is(err, consumer.ErrUnknownName) {
		t.Errorf("got %v", err)
	}
}

// TestL45_TheFirstOfAListThatResolvesWins, and only the winner is registered: the
// others may change, and nothing happens.
func TestL45_TheFirstOfAListThatResolvesWins(t *testing.T) {
	t.Setenv("LEASESVC_TEST_TOKEN", "from-the-environment")
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	r.documents = "environment: [LEASESVC_TEST_TOKEN], poll: 1s"
	p := startPutting(r)
	p.awaitLease("other")
	p.do("kv2/data/api", map[string]any{"data": map[string]any{"token": "from-vault"}})
	p.must(p.put("app", 0, `{
		"first": ["lease://nobody#x", "vault://kv2/data/api#none", "env://HOME", "env://LEASESVC_TEST_TOKEN", "lease://other#username"],
		"second": ["vault://kv2/data/api#token", "lease://other#username"],
		"list": [["lease://other#username"]]}`))
	got, err := p.read("app")
	if err != nil || got["first"] != "from-the-environment" || got["second"] != "from-vault" || got["list"].([]any)[0] != p.user("other") {
		t.Fatalf("%v, %v", got, err)
	}
	p.done(p.api().Rotate(aBit(t), "prod", "other"))
	before := got["list"].([]any)[0]
	p.await("the rotation", func() bool {
		got, err = p.read("app")
		return err == nil && got["list"].([]any)[0] != before
	})
	if got["first"] != "from-the-environment" || got["second"] != "from-vault" {
		t.Errorf("a place changed that other fills only in the end: %v", got)
	}
	// What Vault has now is read again at its pace, and the change is an event.
	updates := p.count(events.TypeUpdated)
	p.do("kv2/data/api", map[string]any{"data": map[string]any{"token": "from-vault-anew"}})
	p.await("the secret's new value", func() bool {
		got, err = p.read("app")
		return err == nil && got["second"] == "from-vault-anew"
	})
	p.await("its event", func() bool { return p.count(events.TypeUpdated) == updates+1 })
	all := p.events(events.TypeUpdated)
	if u := all[len(all)-1].Data.(*events.Updated); u.Revision != 1 || fmt.Sprint(u.Paths) != "[second]" {
		t.Errorf("%+v", u)
	}
}

// TestL45_AVaultReferenceIsNoLease: what Vault grants with a lease is given back
// at once and refused, since nobody would look after it.
func TestL45_AVaultReferenceIsNoLease(t *testing.T) {
	t.Parallel()
	p := newPutting(t, "  {}\n")
	p.await("the definitions", func() bool { return p.count(events.TypeApplied) == 1 })
	_, err := p.put("app", 0, `{"user":"vault://database/creds/app#username"}`)
	if problem := refusal(t, err); !strings.Contains(problem.Message, "lease://") {
		t.Errorf("%v", problem)
	}
	if leases := p.vault.Leases(); len(leases) != 0 {
		t.Errorf("%d leases were left in Vault", len(leases))
	}
}

// TestL46_OneBadPlaceDoesNotStopTheOthers: a lease that comes without a key that
// one document refers to is in all the others.
func TestL46_OneBadPlaceDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	p := newPutting(t, "  token: {path: kv/token, poll: 1s, good_for: 200ms}\n")
	p.do("kv/token", map[string]any{"user": "u1", "key": "k1"})
	p.awaitLease("token")
	p.must(p.put("a", 0, `{"key":"lease://token#key"}`))
	p.must(p.put("b", 0, `{"user":"lease://token#user"}`))
	p.do("kv/token", map[string]any{"user": "u2"})
	p.await("the other document", func() bool {
		got, err := p.read("b")
		return err == nil && got["user"] == "u2"
	})
	p.await("the report", func() bool { return strings.Contains(p.out.String(), "key of document a") })
	if _, err := p.read("a"); !errors.Is(err, consumer.ErrNone) {
		t.Errorf("a place that was not written is read: %v", err)
	}
}

// TestL42_TheDefinitionsFileHasDocuments too: put as a whole with the file's
// revision, before the lease is there; changed by the API until the next revision.
func TestL42_TheDefinitionsFileHasDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition+"documents:\n  app: {x: 1, user: \"lease://other#username\"}\n")
	p := startPutting(r)
	p.await("the document", func() bool {
		got, err := p.read("app")
		return err == nil && got["user"] == p.user("other")
	})
	p.must(p.set("app", 1, "x", `2`))
	p.done(p.api().Apply(aBit(t), "prod"))
	r.definitions(2, otherDefinition+"documents:\n  app: {x: 3, user: \"lease://other#username\"}\n  second: {y: [1]}\n")
	p.done(p.api().Apply(aBit(t), "prod"))
	p.await("the next revision", func() bool {
		got, err := p.read("app")
		return err == nil && got["x"] == 3.0
	})
	if rev := p.revision("app"); rev != 3 {
		t.Errorf("revision %d", rev)
	}
	// A mistake has its place.
	file := r.definitionsFile(3, otherDefinition+"documents:\n  app:\n    user: \"lease://other\"\n")
	_, err := p.api().Apply(aBit(t), "prod")
	if problem := refusal(t, err); !strings.Contains(problem.Message, file+":9:11: documents.app.user: ") {
		t.Errorf("%v", problem)
	}
}

func (r *rig) definitionsFile(revision int, lines string) string {
	r.definitions(revision, lines)
	return r.dir + string(os.PathSeparator) + "definitions.yaml"
}
