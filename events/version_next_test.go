//go:build nextrelease

package events

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestALaterFieldIsOnlyInItsVersion: a field of version 2 is not written in
// version 1, by neither way of writing, and not read from it.
func TestALaterFieldIsOnlyInItsVersion(t *testing.T) {
	full := sampleOf(TypeInstalled, 2)
	v2, err := Encode(&full)
	if err != nil || !bytes.Contains(v2, []byte(`"rehearsed":"text"`)) {
		t.Fatalf("%s, %v", v2, err)
	}
	for _, version := range []int{0, 1} {
		old := full
		old.Version = version
		for _, encode := range []func(*Event) ([]byte, error){Encode, func(e *Event) ([]byte, error) { return marshal(e, "", "") }} {
			b, err := encode(&old)
			if err != nil || bytes.Contains(b, []byte("rehearsed")) || !bytes.Contains(b, []byte(`"version":1`)) {
				t.Errorf("%s, %v", b, err)
			}
		}
	}
	if full.Data.(*Installed).Rehearsed != "text" {
		t.Error("writing it changed it")
	}
	misnamed := []byte(strings.Replace(string(v2), `"version":2`, `"version":1`, 1))
	if _, err := Decode(misnamed, 1); !errors.Is(err, ErrEvent) {
		t.Errorf("a field of version 2 is read from version 1: %v", err)
	}
	if got := Release().String(); got != "installed 2" {
		t.Error(got)
	}
}

func TestEarlierVersionsAreReadForEver(t *testing.T) {
	e := sampleOf(TypeInstalled, 1)
	b, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b, 3)
	if d, ok := got.Data.(*Installed); err != nil || !ok || d.Rehearsed != "" || d.Proof != "text" || got.Version != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	var scanned Event
	if _, ok := scan(b, &scanned); !ok {
		t.Error("an earlier version is read by reflection")
	}
}
