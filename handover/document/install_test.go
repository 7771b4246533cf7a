package document

import (
	"context"
	"testing"
)

func TestL12_EveryDestinationIsResolvedBeforeTheFirstWrite(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"user":"s3cr3t-u","pw":"s3cr3t-1"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"a":"lease://db#pw","z":"lease://db#user"}`)
	before := dump(s)

	_, err := s.Install(t.Context(), "db", values(t, `{"pw":"s3cr3t-2"}`))
	wantIs(t, err, ErrMissingKey)
	wantDump(t, s, before, "after a missing key")

	for at, want := range map[Place]error{
		place(t, "app", "zz"):     ErrNoPlace,    // the key went
		place(t, "app", "a.b"):    ErrUnwritable, // it is inside a reference's value
		place(t, "nope", "a"):     ErrNoDocument, // the document went
		place(t, "app", "z[0].x"): ErrUnwritable,
	} {
		s.registry.register(LeaseKey("db", "pw"), at)
		before := dump(s)
		_, err = s.Install(t.Context(), "db", values(t, `{"user":"s3cr3t-v","pw":"s3cr3t-2"}`))
		wantIs(t, err, ErrVanished, want)
		wantDump(t, s, before, "after a vanished destination")
		s.registry.unregister(at)
	}

	// A failed install is not in flight: updates and the next one go on.
	put(t, s, vault, "app", `{"a":"lease://db#pw","z":"lease://db#user","n":1}`)
	commit(t, install(t, s, "db", `{"user":"s3cr3t-v","pw":"s3cr3t-2"}`))
	wantNow(t, s, "app", "z", `"s3cr3t-v"`)
}

func TestL12_DestinationsThatHoldTheValueAreSkipped(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"user":"s3cr3t-u","pw":"s3cr3t-1"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://db#pw","user":"lease://db#user"}`)
	put(t, s, vault, "b", `{"x":["lease://db#pw"]}`)
	in := install(t, s, "db", `{"user":"s3cr3t-u","pw":"s3cr3t-2"}`)
	wantText(t, "changes", changesText(in.Changes()), "app: pw; b: x")
	if len(in.snapshots) != 2 {
		t.Fatalf("%d snapshots", len(in.snapshots))
	}
	wantText(t, "restored", changesText(restore(t, in).Changes), "app: pw; b: x")
}

func TestL13_TellsWhetherAnyDestinationChanged(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1","other":"s3cr3t-o"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://db#pw"}`)
	before := dump(s)
	for json, want := range map[string]bool{
		`{"pw":"s3cr3t-1","other":"s3cr3t-o"}`: false,
		`{"pw":"s3cr3t-1","other":"s3cr3t-2"}`: false, // no document refers to it
		`{"pw":"s3cr3t-2"}`:                    true,
	} {
		in := install(t, s, "db", json)
		if in.Changed() != want {
			t.Fatalf("changed is %t, want %t", in.Changed(), want)
		}
		if (len(in.Changes()) > 0) != want {
			t.Fatalf("changes: %v", in.Changes())
		}
		restore(t, in)
		wantDump(t, s, before, "after the restore")
	}
}

func TestL15_OnlyWhatIsBeingInstalledCommits(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://db#pw"}`)
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	_, err := s.Install(t.Context(), "db", vault["db"].Values)
	wantIs(t, err, ErrInFlight)
	restore(t, in)
	wantIs(t, in.Commit(t.Context()), ErrSettled)
	in = install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	commit(t, in)
	_, err = in.Restore(t.Context())
	wantIs(t, err, ErrSettled)
	wantNow(t, s, "app", "pw", `"s3cr3t-2"`)
}

func TestL17_WhatIsNotCommittedIsRestored(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"pw":"lease://db#pw"}`)
	before := dump(s)
	in := install(t, s, "db", `{"pw":"s3cr3t-2"}`)

	// Somebody has the turn and our time is over: nothing is lost, End is called
	// again.
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, in.End(ctx), context.Canceled)
	if resolved, err := s.Resolve("app", vault); err != nil || string(resolved.Encode()) != `{"pw":"s3cr3t-1"}` {
		t.Fatalf("readers see a candidate: %v", err)
	}
	_, err := s.gate.Begin("db")
	wantIs(t, err, ErrInFlight)
	s.give()

	end(t, in)
	wantDump(t, s, before, "after the end")
}

func TestL19_ADestinationGoesBackOnlyIfItStillHoldsTheCandidate(t *testing.T) {
	old, candidate := `{"user":"s3cr3t-u","pw":"s3cr3t-1","on":false}`, `{"user":"s3cr3t-v","pw":"s3cr3t-2","on":true}`
	for name, c := range map[string]struct {
		write func(t *testing.T, s *Store, vault vaultOf)
		want  string
		kept  int
	}{
		"nobody wrote": {func(*testing.T, *Store, vaultOf) {}, `{"on":false,"pw":"s3cr3t-1","user":"s3cr3t-u"}`, 0},
		"an update wrote texts": {func(t *testing.T, s *Store, vault vaultOf) {
			put(t, s, vault, "app", `{"user":"s3cr3t-mine","pw":"s3cr3t-mine","on":1}`)
		}, `{"on":1,"pw":"s3cr3t-mine","user":"s3cr3t-mine"}`, 3},
		"an update wrote the candidate's very value": {func(t *testing.T, s *Store, vault vaultOf) {
			put(t, s, vault, "app", `{"user":"s3cr3t-v","pw":"s3cr3t-2","on":true}`)
		}, `{"on":true,"pw":"s3cr3t-2","user":"s3cr3t-v"}`, 3},
		"an update put another reference there": {func(t *testing.T, s *Store, vault vaultOf) {
			put(t, s, vault, "app", `{"user":"lease://mq#user","pw":"env://PW","on":0}`)
		}, `{"on":0,"pw":"s3cr3t-env-PW","user":"s3cr3t-v"}`, 3},
		"an update took places away": {func(t *testing.T, s *Store, vault vaultOf) {
			put(t, s, vault, "app", `{"x":1}`)
		}, `{"x":1}`, 3},
		"a push wrote": {func(t *testing.T, s *Store, vault vaultOf) {
			vault["db"] = Held{Values: values(t, `{"user":"s3cr3t-v","pw":"s3cr3t-pushed","on":false}`)}
			if _, err := s.Push(t.Context(), "db", vault); err != nil {
				t.Fatal(err)
			}
		}, `{"on":false,"pw":"s3cr3t-pushed","user":"s3cr3t-u"}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			vault := vaultOf{"db": {Values: values(t, old)}, "mq": {Values: values(t, candidate)}}
			s := fresh()
			put(t, s, vault, "app", `{"user":"lease://db#user","pw":"lease://db#pw","on":"lease://db#on"}`)
			in := install(t, s, "db", candidate)
			c.write(t, s, vault)
			done := restore(t, in)
			wantText(t, "the tree", string(s.documents["app"].tree().Encode()), c.want)
			if len(done.Kept) != c.kept {
				t.Fatalf("kept: %v", done.Kept)
			}
		})
	}
}

func TestL20_WithNothingBeforeNothingIsThereAgain(t *testing.T) {
	s := fresh()
	for _, json := range []string{`{"pw":"lease://db#pw"}`, `{"pw":["lease://mq#pw","lease://db#pw"]}`} {
		doc, err := New("app", s.documents["app"].revision()+1, tree(t, json))
		if err != nil {
			t.Fatal(err)
		}
		missing, err := s.Load(t.Context(), doc, vaultOf{})
		if err != nil || texts(missing) != "pw" {
			t.Fatalf("unresolved: %v, %v", missing, err)
		}
		before := dump(s)
		in := install(t, s, "db", `{"pw":"s3cr3t-1"}`)
		wantText(t, "places", placesText(s, "db"), "pw of document app")
		wantNow(t, s, "app", "pw", `"s3cr3t-1"`)
		_, err = s.Resolve("app", vaultOf{})
		wantIs(t, err, ErrUnresolved)
		restore(t, in)
		wantDump(t, s, before, "after the restore")
		_, err = s.Resolve("app", vaultOf{})
		wantIs(t, err, ErrUnresolved)
	}
}

func TestL20_AnUnresolvedPlaceNeedsItsKeyUnlessAnotherCanFillIt(t *testing.T) {
	s := fresh()
	load := func(name, json string) {
		doc, err := New(name, 1, tree(t, json))
		if err == nil {
			_, err = s.Load(t.Context(), doc, vaultOf{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	load("chain", `{"pw":["lease://db#pw","lease://mq#pw"]}`)
	in := install(t, s, "db", `{"user":"s3cr3t-u"}`)
	if in.Changed() {
		t.Fatal("something was written")
	}
	end(t, in)
	load("single", `{"pw":["lease://db#pw","lease://db#password"]}`)
	before := dump(s)
	_, err := s.Install(t.Context(), "db", values(t, `{"user":"s3cr3t-u"}`))
	wantIs(t, err, ErrMissingKey)
	wantDump(t, s, before, "after a missing key")
	commit(t, install(t, s, "db", `{"password":"s3cr3t-u"}`))
	wantNow(t, s, "single", "pw", `"s3cr3t-u"`)
	vault := vaultOf{"mq": {Values: values(t, `{"pw":"s3cr3t-q"}`)}}
	if pushed, err := s.Push(t.Context(), "mq", vault); err != nil || pushed.Written != 1 {
		t.Fatalf("%+v, %v", pushed, err)
	}
	if _, err := s.Resolve("chain", vault); err != nil {
		t.Fatal(err)
	}
}

func TestLoadTakesRevisionsInOrderOnly(t *testing.T) {
	vault := vaultOf{}
	s := fresh()
	for _, c := range []struct {
		revision uint64
		ok       bool
	}{{3, true}, {3, false}, {2, false}, {7, true}} {
		doc, err := New("app", c.revision, tree(t, `{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Load(t.Context(), doc, vault); (err == nil) != c.ok {
			t.Fatalf("revision %d: %v", c.revision, err)
		}
		if !c.ok {
			wantIs(t, err, ErrRevision)
		}
	}
	if names := s.Names(); len(names) != 1 || names[0] != "app" {
		t.Fatalf("%v", names)
	}
}

func TestD1_ReadersSeeTheCommittedValuesOnly(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"pw":"s3cr3t-1"}`)}, "mq": {Values: values(t, `{"pw":"s3cr3t-a"}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"db":"lease://db#pw","mq":["lease://mq#pw"]}`)
	db := install(t, s, "db", `{"pw":"s3cr3t-2"}`)
	mq := install(t, s, "mq", `{"pw":"s3cr3t-b"}`)
	defer func() { end(t, mq) }()
	want := func(what string, resolve func(string, Reader) (Resolved, error), json string) {
		t.Helper()
		resolved, err := resolve("app", vault)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, what, string(resolved.Encode()), json)
	}
	want("a reader", s.Resolve, `{"db":"s3cr3t-1","mq":"s3cr3t-a"}`)
	want("a consumer of db", db.Resolve, `{"db":"s3cr3t-2","mq":"s3cr3t-a"}`)
	want("a consumer of mq", mq.Resolve, `{"db":"s3cr3t-1","mq":"s3cr3t-b"}`)

	// The candidate does not depend on what came before it, its neighbours do.
	vault["db"] = Held{Expired: true}
	want("a consumer of db", db.Resolve, `{"db":"s3cr3t-2","mq":"s3cr3t-a"}`)
	_, err := s.Resolve("app", vault)
	wantIs(t, err, ErrExpired)
	_, err = mq.Resolve("app", vault)
	wantIs(t, err, ErrExpired)

	vault["db"] = Held{Values: values(t, `{"pw":"s3cr3t-2"}`)}
	commit(t, db)
	want("a reader", s.Resolve, `{"db":"s3cr3t-2","mq":"s3cr3t-a"}`)
	restored, err := mq.Restore(t.Context())
	if err != nil || changesText(restored.Changes) != "app: mq" {
		t.Fatalf("%v, %v", restored, err)
	}
	want("a consumer that goes back", mq.Resolve, `{"db":"s3cr3t-2","mq":"s3cr3t-a"}`)
}
