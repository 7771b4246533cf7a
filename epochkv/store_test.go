package epochkv

import (
	"errors"
	"fmt"
	"testing"

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
