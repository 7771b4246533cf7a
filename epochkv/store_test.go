package epochkv

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestErrorsAreToldApartByCode(t *testing.T) {
	js := connect(t, runServer(t).ClientURL())
	st := &bucketStore{js: js, bucket: "b", timeout: heartbeat}
	for _, tc := range []struct {
		err, want error
	}{
		{&jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 7"}, errRefused},
		{&jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}, ErrInFlight},
		{nats.ErrNoResponders, errNoBacking},
		{jetstream.ErrNoStreamResponse, errNoBacking},
		{nats.ErrAuthorization, ErrNotAuthorized},
		{nats.ErrAuthExpired, ErrNotAuthorized},
		{nats.ErrPermissionViolation, ErrNotAuthorized},
	} {
		got := st.classify(fmt.Errorf("nats: %w", tc.err), "any")
		if !errors.Is(got, tc.want) || !errors.Is(got, tc.err) {
			t.Errorf("%v became %v, want %v", tc.err, got, tc.want)
		}
		for _, other := range []error{errRefused, ErrInFlight, errNoBacking, ErrNotAuthorized} {
			if other != tc.want && errors.Is(got, other) {
				t.Errorf("%v is also %v", tc.err, other)
			}
		}
	}
	plain := &jetstream.APIError{Code: 400, ErrorCode: 10060, Description: "expected stream does not match"}
	if got := st.classify(plain, "any"); got != error(plain) {
		t.Errorf("%v became %v", plain, got)
	}
}

// TestALaterReleasesCellsAreRead: what it says beside what we know is left alone,
// and who did not say it is told apart by that.
func TestALaterReleasesCellsAreRead(t *testing.T) {
	at := `"written_at":"2026-01-31T12:00:00Z"`
	var h HolderCell
	if err := decodeCell("holder.h", []byte(`{"product":"leasesvc","holder":"h","incarnation":"i","state":"live","attempt":"a",`+at+`,"mood":{"good":[1]},"echo":{"reads":{"installed":2},"mood":1}}`), &h); err != nil {
		t.Fatal(err)
	}
	if h.Incarnation != "i" || h.State != HolderLive || h.WrittenAt.Year() != 2026 || string(h.Echo) != `{"reads":{"installed":2},"mood":1}` {
		t.Errorf("%+v", h)
	}
	var s ScopeCell
	if err := decodeCell("scope.s", []byte(`{"product":"leasesvc","holder":"h","incarnation":"i","released":true,"epoch":7,"claimed_at":"2026-01-31T12:00:00Z","mood":1}`), &s); err != nil || !s.Released || s.Epoch != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestAllHoldersSayWhenTheyWereStored: by the server's clock, not by the holder's.
func TestAllHoldersSayWhenTheyWereStored(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	clk.advance(-24 * time.Hour) // theirs is wrong
	bare := func(c *Config) { c.store = func(s store) store { return s } }
	began := time.Now().Add(-time.Minute)
	a := open(t, js, clk, "", bare)
	for _, in := range []*instance{a, open(t, js, clk, "", bare), open(t, js, clk, "", bare)} {
		if err := in.StartHolder(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := a.AllHolders(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for _, c := range all {
		if c.Stored.Before(began) || c.WrittenAt.After(began) {
			t.Errorf("stored at %s, written at %s", c.Stored, c.WrittenAt)
		}
	}
}
