package document

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestL40_OnePlaceHasOneReferenceAndAKeyHasManyPlaces(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"user":"s3cr3t-u","pw":"s3cr3t-p"}`)}, "mq": {Values: values(t, `{"pw":"s3cr3t-q"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"0":"lease://db#pw","list":["lease://db#pw",1],"user":"lease://db#user"}`)
	put(t, s, vault, "other", `{"pw":"lease://db#pw"}`)
	wantText(t, "places of db", placesText(s, "db"), `["0"] of document app, list[0] of document app, user of document app, pw of document other`)

	// Another reference at a place moves it.
	assign(t, s, vault, "app", Assignment{path(t, `["0"]`), tree(t, `"lease://mq#pw"`)})
	wantText(t, "places of db", placesText(s, "db"), "list[0] of document app, user of document app, pw of document other")
	wantText(t, "places of mq", placesText(s, "mq"), `["0"] of document app`)
	if ref, ok := s.FilledBy(place(t, "app", `["0"]`)); !ok || ref != LeaseKey("mq", "pw") {
		t.Fatalf("the place is filled by %s", ref)
	}
	wantNow(t, s, "app", `["0"]`, `"s3cr3t-q"`)

	// The last place of a lease leaves nothing behind, a text in its place neither.
	assign(t, s, vault, "app", Assignment{path(t, `["0"]`), tree(t, `"s3cr3t-literal"`)})
	wantText(t, "places of mq", placesText(s, "mq"), "")
	if _, ok := s.registry.places[source{Lease, "mq"}]; ok {
		t.Fatal("the registry keeps a lease without places")
	}
	install(t, s, "mq", `{"pw":"s3cr3t-new"}`)
	wantNow(t, s, "app", `["0"]`, `"s3cr3t-literal"`)
}

func TestL40_RegisteringAnotherReferenceMovesThePlace(t *testing.T) {
	r := newRegistry()
	at, other := place(t, "app", "a"), place(t, "app", "b")
	r.register(LeaseKey("db", "pw"), at)
	r.register(LeaseKey("db", "pw"), at)
	r.register(LeaseKey("db", "pw"), other)
	if got := r.of(source{Lease, "db"}); len(got) != 2 {
		t.Fatalf("the key has the places %v", got)
	}
	r.register(LeaseKey("mq", "pw"), at)
	r.register(LeaseKey("mq", "user"), at)
	if db, mq := r.of(source{Lease, "db"}), r.of(source{Lease, "mq"}); len(db) != 1 || db[0] != other || len(mq) != 1 || r.filledBy[at] != LeaseKey("mq", "user") {
		t.Fatalf("db has %v, mq has %v", db, mq)
	}
	r.unregister(at)
	r.unregister(at)
	r.unregister(other)
	if len(r.filledBy)+len(r.places) > 0 {
		t.Fatalf("something is left: %v", r)
	}
}

func placesText(s *Store, lease string) string {
	var all []string
	for _, at := range s.Places(lease) {
		all = append(all, at.String())
	}
	return strings.Join(all, ", ")
}

func assign(t *testing.T, s *Store, r Reader, document string, to ...Assignment) Change {
	t.Helper()
	doc, err := s.Document(document)
	if err != nil {
		t.Fatal(err)
	}
	change, err := s.Update(context.Background(), Update{Document: document, Expected: doc.Revision(), Assign: to}, r, nil)
	if err != nil {
		t.Fatalf("assigning: %v", err)
	}
	return change
}

func TestL41_EveryStepExistsAndTheLastContainerIsWritable(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"tls":{"key":"s3cr3t-k"},"hosts":["s3cr3t-h"]}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"a":{"0":"x"},"list":[1,[2]],"tls":"lease://db#tls","hosts":["lease://db#hosts","env://HOSTS"]}`)
	before := dump(s)
	for at, want := range map[string]error{
		"$": ErrNoPlace, "b": ErrNoPlace, "a[0]": ErrNoPlace, "list[2]": ErrNoPlace, `list["0"]`: ErrNoPlace, "list[1][1]": ErrNoPlace,
		`a["0"].x`: ErrNoPlace, "a.b.c": ErrNoPlace, "tls.key": ErrUnwritable, "hosts[0]": ErrUnwritable, "hosts[0].x": ErrUnwritable,
	} {
		_, err := s.Update(t.Context(), Update{Document: "app", Expected: 1, Assign: []Assignment{{path(t, at), tree(t, `"s3cr3t-x"`)}}}, vault, nil)
		wantIs(t, err, want)
		doc, _ := s.Document("app")
		_, err = doc.At(path(t, at))
		wantIs(t, err, want)
	}
	wantDump(t, s, before, "after refused assignments")
	for _, at := range []string{`a["0"]`, "a", "list[0]", "list[1]", "tls", "hosts"} {
		assign(t, s, vault, "app", Assignment{path(t, at), tree(t, `"lease://db#tls"`)})
		wantNow(t, s, "app", at, `{"key":"s3cr3t-k"}`)
		put(t, s, vault, "app", `{"a":{"0":"x"},"list":[1,[2]],"tls":"lease://db#tls","hosts":["lease://db#hosts","env://HOSTS"]}`)
	}
}

func TestL42_AnUpdateIsOneTransaction(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-p"}`)}}
	refused := errors.New("the log refused it")
	content := func(json string) *Value { v := tree(t, json); return &v }
	for name, c := range map[string]struct {
		update  Update
		publish error
		want    error
	}{
		"a slot that is not there":    {Update{Assign: []Assignment{{path(t, "a"), tree(t, `2`)}, {path(t, "nope"), tree(t, `2`)}}}, nil, ErrNoPlace},
		"a slot twice":                {Update{Assign: []Assignment{{path(t, "a"), tree(t, `2`)}, {path(t, "a"), tree(t, `2`)}}}, nil, ErrSlotTwice},
		"a slot twice, written apart": {Update{Assign: []Assignment{{path(t, "a"), tree(t, `2`)}, {path(t, `["a"]`), tree(t, `3`)}}}, nil, ErrSlotTwice},
		"one that vanishes":           {Update{Assign: []Assignment{{path(t, "b.c"), tree(t, `"lease://db#pw"`)}, {path(t, "b"), tree(t, `1`)}}}, nil, ErrVanished},
		"one that never stood":        {Update{Assign: []Assignment{{path(t, "b"), tree(t, `1`)}, {path(t, "b.c"), tree(t, `"lease://db#pw"`)}}}, nil, ErrVanished},
		"one that is written over":    {Update{Assign: []Assignment{{path(t, "b.c"), tree(t, `7`)}, {path(t, "b"), tree(t, `{"c":8}`)}}}, nil, ErrVanished},
		"one that becomes a fallback": {Update{Assign: []Assignment{{path(t, "b.l[0]"), tree(t, `"lease://db#pw"`)}}}, nil, ErrVanished},
		"content and places":          {Update{Content: content(`{}`), Assign: []Assignment{{path(t, "a"), tree(t, `2`)}}}, nil, ErrDocument},
		"a content that is none":      {Update{Content: content(`7`)}, nil, ErrDocument},
		"a broken reference":          {Update{Assign: []Assignment{{path(t, "a"), tree(t, `"lease://x"`)}}}, nil, ErrReference},
		"too deep":                    {Update{Assign: []Assignment{{path(t, "b.c"), tree(t, strings.Repeat("[", MaxDepth-1)+strings.Repeat("]", MaxDepth-1))}}}, nil, ErrValue},
		"a lease that is not there":   {Update{Assign: []Assignment{{path(t, "a"), tree(t, `"lease://x#y"`)}}}, nil, ErrUnknown},
		"an older revision":           {Update{Expected: 1, Content: content(`{}`)}, nil, ErrRevision},
		"a new one that is there":     {Update{Expected: 0, Content: content(`{}`)}, nil, ErrRevision},
		"a publish that fails":        {Update{Content: content(`{"z":"lease://db#pw"}`)}, refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh()
			put(t, s, vault, "app", `{"a":1}`)
			put(t, s, vault, "app", `{"a":1,"b":{"c":"lease://db#pw","l":[1]}}`)
			before := dump(s)
			u := c.update
			u.Document = "app"
			if !errors.Is(c.want, ErrRevision) {
				u.Expected = 2
			}
			published := 0
			_, err := s.Update(t.Context(), u, vault, func(context.Context, Change) error {
				published++
				if now := dump(s); now != before {
					t.Error("the change is seen before it is published")
				}
				return c.publish
			})
			wantIs(t, err, c.want)
			if (c.publish != nil) != (published == 1) {
				t.Fatalf("published %d times", published)
			}
			wantDump(t, s, before, "after the error")
			put(t, s, vault, "app", `{"next":"lease://db#pw"}`) // the turn was given back
		})
	}
}

func TestL42_APublishThatPanicsChangesNothing(t *testing.T) {
	s := fresh()
	put(t, s, vaultOf{}, "app", `{"a":1}`)
	before := dump(s)
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("no panic came out")
			}
		}()
		content := tree(t, `{"a":2}`)
		_, _ = s.Update(t.Context(), Update{Document: "app", Expected: 1, Content: &content}, vaultOf{}, func(context.Context, Change) error { panic("no") })
	}()
	wantDump(t, s, before, "after the panic")
	put(t, s, vaultOf{}, "app", `{"a":2}`)
}

func TestL42_TheChangeNamesRevisionAndPaths(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := fresh()
	wantText(t, "a new one", texts(put(t, s, vault, "app", `{"a":1}`).Paths), "$")
	for _, c := range []struct{ name, json, want string }{
		{"a value, a new key and a list of another length", `{"a":2,"l":[1,2],"m":{"x":1,"y":2}}`, "a l m"},
		{"within", `{"a":2,"l":[1,3],"m":{"x":1,"0":"lease://db#pw"}}`, `l[1] m.y m["0"]`},
		{"nothing", `{"l":[1,3],"a":2,"m":{"0":"lease://db#pw","x":1}}`, ""},
		{"a kind and a reference", `{"a":{},"l":[1,3],"m":{"0":["lease://db#pw"],"x":1}}`, `a m["0"]`},
		{"root", `[1]`, "$"},
	} {
		was, _ := s.Document("app")
		change := put(t, s, vault, "app", c.json)
		wantText(t, c.name, texts(change.Paths), c.want)
		if step := change.Document.Revision() - was.Revision(); (step == 1) != (c.want != "") || step > 1 {
			t.Fatalf("%s: the revision went up by %d", c.name, step)
		}
	}
	put(t, s, vault, "app", `{"a":"lease://db#pw"}`)
	vault["db"] = Held{Values: values(t, `{"pw":"s3cr3t-2"}`)}
	wantText(t, "the same text, another value", texts(assign(t, s, vault, "app").Paths), "a")
	wantText(t, "the same text and value", texts(assign(t, s, vault, "app").Paths), "")
}

func TestL42_PathsAreBounded(t *testing.T) {
	s := fresh()
	wide := func(x string) string {
		var b strings.Builder
		for i := range 300 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`{"x":[` + x + `,1]}`)
		}
		return b.String()
	}
	put(t, s, vaultOf{}, "app", `{"few":1,"wide":{"a":[`+wide("1")+`]}}`)
	wantText(t, "300 places", texts(put(t, s, vaultOf{}, "app", `{"few":2,"wide":{"a":[`+wide("2")+`]}}`).Paths), "few wide.a")
}

func TestL44_ValuesAreReadThroughAReaderOfUnexpiredData(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`), Expired: true}}
	s := fresh()
	content := tree(t, `{"pw":"lease://db#pw"}`)
	_, err := s.Update(t.Context(), Update{Document: "app", Content: &content}, vault, nil)
	wantIs(t, err, ErrExpired)
	vault["db"] = Held{Values: vault["db"].Values}
	put(t, s, vault, "app", `{"pw":"lease://db#pw"}`)

	// A reader that can't tell ends the update.
	cut := errors.New("cut off")
	_, err = s.Update(t.Context(), Update{Document: "app", Expected: 1}, ReaderFunc(func(Reference) (Value, error) { return Value{}, cut }), nil)
	wantIs(t, err, cut)
}

func TestL45_TheFirstReferenceThatResolvesWinsAndOnlyItIsRegistered(t *testing.T) {
	both := values(t, `{"pw":"s3cr3t-p"}`)
	for name, c := range map[string]struct {
		vault  vaultOf
		chain  string
		winner string
	}{
		"the first":                {vaultOf{"a": {Values: both}, "b": {Values: both}}, `["lease://a#pw","lease://b#pw"]`, "lease://a#pw"},
		"the first is expired":     {vaultOf{"a": {Values: both, Expired: true}, "b": {Values: both}}, `["lease://a#pw","lease://b#pw"]`, "lease://b#pw"},
		"the first is unknown":     {vaultOf{"b": {Values: both}}, `["lease://a#pw","vault://kv/x#y","lease://b#pw","env://X"]`, "lease://b#pw"},
		"the key is unknown":       {vaultOf{"a": {Values: both}}, `["lease://a#x","lease://a#pw"]`, "lease://a#pw"},
		"a variable":               {vaultOf{}, `["env://UNSET","env://SET"]`, "env://SET"},
		"a value that is null":     {vaultOf{"a": {Values: values(t, `{"pw":null}`)}, "b": {Values: both}}, `["lease://a#pw","lease://b#pw"]`, "lease://a#pw"},
		"a fallback list of one":   {vaultOf{"a": {Values: both}}, `["lease://a#pw"]`, "lease://a#pw"},
		"a reference and no chain": {vaultOf{"a": {Values: both}}, `"lease://a#pw"`, "lease://a#pw"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh()
			put(t, s, c.vault, "app", `{"x":`+c.chain+`}`)
			ref, _ := s.FilledBy(place(t, "app", "x"))
			wantText(t, "the winner", ref.String(), c.winner)
			if len(s.registry.filledBy) != 1 || len(s.registry.places) != 1 {
				t.Fatalf("registered: %v", s.registry.filledBy)
			}
		})
	}
	s := fresh()
	content := tree(t, `{"x":["lease://a#pw","lease://b#pw"]}`)
	u := Update{Document: "app", Content: &content}
	_, err := s.Update(t.Context(), u, vaultOf{"b": {Expired: true}}, nil)
	wantIs(t, err, ErrUnknown, ErrExpired)
	var why *UnresolvedError
	if !errors.As(err, &why) || len(why.Misses) != 2 || why.Misses[1].Reference != LeaseKey("b", "pw") {
		t.Fatalf("it does not say why: %v", err)
	}
	// What can't be told now does not make another one win.
	cut := errors.New("cut off")
	_, err = s.Update(t.Context(), u, ReaderFunc(func(r Reference) (Value, error) {
		if r.Name == "a" {
			return Value{}, cut
		}
		return Value{}, nil
	}), nil)
	wantIs(t, err, cut)
}

func TestL45_AnEmptyUpdateLetsTheChainChooseAnew(t *testing.T) {
	both := values(t, `{"pw":"s3cr3t-p"}`)
	vault := vaultOf{"a": {Values: both}, "b": {Values: both}}
	s := fresh()
	put(t, s, vault, "app", `{"x":["lease://a#pw","lease://b#pw"]}`)
	vault["a"] = Held{Expired: true}
	_, err := s.Resolve("app", vault)
	wantIs(t, err, ErrExpired)
	wantText(t, "paths", texts(assign(t, s, vault, "app").Paths), "x")
	wantText(t, "places of a", placesText(s, "a"), "")
	if _, err := s.Resolve("app", vault); err != nil {
		t.Fatal(err)
	}
}

func TestL46_APushTellsHowManyPlacesWereWritten(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"user":"s3cr3t-u","pw":"s3cr3t-1"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"user":"lease://db#user","pw":"lease://db#pw","list":["lease://db#pw",1]}`)
	put(t, s, vault, "other", `{"pw":"lease://db#pw"}`)
	vault["db"] = Held{Values: values(t, `{"user":"s3cr3t-u","pw":"s3cr3t-2"}`)}

	// A place that vanished behind the registry's back.
	s.registry.register(LeaseKey("db", "pw"), place(t, "app", "gone.pw"))
	pushed, err := s.Push(t.Context(), "db", vault)
	if err != nil {
		t.Fatal(err)
	}
	if pushed.Written != 4 || len(pushed.Bad) != 1 || pushed.Bad[0].Place != place(t, "app", "gone.pw") {
		t.Fatalf("%+v", pushed)
	}
	wantIs(t, pushed.Bad[0].Err, ErrVanished)
	wantText(t, "changes", changesText(pushed.Changes), "app: list[0] pw; other: pw")
	for _, at := range []string{"pw", "list[0]"} {
		wantNow(t, s, "app", at, `"s3cr3t-2"`)
	}

	s.registry.unregister(place(t, "app", "gone.pw"))

	// A key that is missing is one bad place; an expired lease writes none.
	vault["db"] = Held{Values: values(t, `{"user":"s3cr3t-3"}`)}
	if pushed, _ = s.Push(t.Context(), "db", vault); pushed.Written != 1 || len(pushed.Bad) != 3 {
		t.Fatalf("%+v", pushed)
	}
	wantIs(t, pushed.Bad[0].Err, ErrUnknown)
	vault["db"] = Held{Values: vault["db"].Values, Expired: true}
	if pushed, _ = s.Push(t.Context(), "db", vault); pushed.Written != 0 || len(pushed.Bad) != 4 {
		t.Fatalf("%+v", pushed)
	}
	wantIs(t, pushed.Bad[0].Err, ErrExpired)
	if pushed, err = s.Push(t.Context(), "nobody", vault); err != nil || pushed.Written != 0 || pushed.Bad != nil {
		t.Fatalf("%+v, %v", pushed, err)
	}
}

func TestL53_ExpiredAndUnknownAreToldApart(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}, "old": {Values: values(t, `{"pw":"s3cr3t-1"}`), Expired: true}}
	for ref, want := range map[string]error{
		"lease://db#nope": ErrUnknown, "lease://nope#pw": ErrUnknown, "lease://old#pw": ErrExpired, "lease://old#nope": ErrExpired,
		"env://UNSET": ErrUnknown, "vault://kv/x#y": ErrUnknown,
	} {
		r, err := ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		v, err := vault.Read(r)
		wantIs(t, err, want)
		if errors.Is(err, ErrExpired) && errors.Is(err, ErrUnknown) || v.Kind() != Null {
			t.Fatalf("%s: %v", ref, err)
		}
	}
	_, err := Sources{}.Read(LeaseKey("db", "pw"))
	wantIs(t, err, ErrUnknown)

	// A document does not outlive the leases that are in it.
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://db#pw","x":1}`)
	if _, err := s.Resolve("app", vault); err != nil {
		t.Fatal(err)
	}
	vault["db"] = Held{Values: vault["db"].Values, Expired: true}
	_, err = s.Resolve("app", vault)
	wantIs(t, err, ErrExpired)
	delete(vault, "db")
	_, err = s.Resolve("app", vault)
	wantIs(t, err, ErrUnknown)
	_, err = s.Resolve("nope", vault)
	wantIs(t, err, ErrNoDocument)
}

func TestL54_PresenceDecidesNotTruth(t *testing.T) {
	given := `{"false":false,"zero":0,"null":null,"empty":"","list":[],"map":{}}`
	vault := vaultOf{"db": {Values: values(t, given)}}
	s := fresh()
	put(t, s, vault, "app", `{"false":"lease://db#false","zero":"lease://db#zero","null":"lease://db#null",
		"empty":"lease://db#empty","list":"lease://db#list","map":"lease://db#map"}`)
	resolved, err := s.Resolve("app", vault)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "resolved", string(resolved.Encode()), string(tree(t, given).Encode()))
	in := install(t, s, "db", `{"false":1,"zero":1,"null":1,"empty":1,"list":1,"map":1}`)
	restore(t, in)
	in = install(t, s, "db", given)
	if in.Changed() {
		t.Fatal("values that are the same count as changed")
	}
	end(t, in)
}
