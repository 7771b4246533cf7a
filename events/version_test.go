package events

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyTheVersionsInForceAreAllowed: a log without a format allows the lowest
// version of each type, whatever a release reads.
func TestOnlyTheVersionsInForceAreAllowed(t *testing.T) {
	for _, typ := range Types() {
		if v := Formats(nil).Of(typ); v != 1 && !later[typ] || v > latest(typ) {
			t.Errorf("%s may be written in version %d from the start", typ, v)
		}
	}
	if v := (Formats{"teleported": 3}).Of("teleported"); v != 3 {
		t.Errorf("what a later release reads is read as %d", v)
	}
	if v := Release().Of("teleported"); v != 0 {
		t.Errorf("a type that nobody knows is read in version %d", v)
	}
}

func TestFormatsAddUp(t *testing.T) {
	some := Formats{TypeInstalled: 2, TypeRenewed: 3}
	if got := some.Above(Formats{TypeInstalled: 2}); got.String() != "renewed 3" {
		t.Error(got)
	}
	if got := (Formats{TypeRenewed: 1}).Above(nil); len(got) != 0 {
		t.Error(got)
	}
	if got := (Formats{TypeInstalled: 4}).With(some); got.String() != "installed 4, renewed 3" {
		t.Error(got)
	}
	if got := Formats(nil).With(some); got.String() != some.String() || Formats(nil).With(nil).String() != "none" {
		t.Error(got)
	}
	before := Formats{TypeInstalled: 1}
	if before.With(some); before.String() != "installed 1" {
		t.Error("what others share was changed")
	}
}

// TestAFormatOfALaterReleaseIsOfTheFuture: who can't read what may be written
// from there on is told at once, not when it is written.
func TestAFormatOfALaterReleaseIsOfTheFuture(t *testing.T) {
	for typ, known := range map[Type]int{TypeRenewed: latest(TypeRenewed), "teleported": 0} {
		d := &Format{Versions: map[Type]int{typ: known + 1, TypeExpired: 1}}
		var future *FutureError
		if _, err := d.Raised(7); !errors.As(err, &future) || future.Seq != 7 || future.Type != typ || future.Known != known || !strings.Contains(err.Error(), string(typ)) {
			t.Errorf("%s: %v", typ, err)
		}
	}
	d := &Format{Versions: Release()}
	if got, err := d.Raised(7); err != nil || got.String() != Release().String() {
		t.Error(got, err)
	}
}

func TestAVersionThatIsNotKnownIsNotWritten(t *testing.T) {
	e := sample(TypeRenewed)
	e.Version = latest(TypeRenewed) + 1
	if b, err := Encode(&e); err == nil {
		t.Errorf("written as %s", b)
	}
}

// TestTheNextReleasesEvents: what the release of the tests of upgrades writes is
// of the future for this one, and read by that one.
func TestTheNextReleasesEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/nextrelease/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are none", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(bytes.TrimSpace(b), 5)
		var future *FutureError
		if isFuture := errors.As(err, &future); isFuture != (latest(TypeInstalled) == 1) || !isFuture && err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}
