package handover

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

func TestVerifyRegistration(t *testing.T) {
	p, other := newPerson(t), newPerson(t)
	allow := func(key string) Allowed {
		return func(consumer string) (string, bool) { return key, consumer == "api" }
	}
	change := func(f func(*wire.Registration)) wire.Registration {
		r := p.registration()
		f(&r)
		return r
	}
	good := p.signed(t, wire.OpRegister, p.registration())
	moved := good
	moved.Name = "db2"
	edited := good
	edited.Data = bytes.Replace(good.Data, []byte(`"api-0"`), []byte(`"api-1"`), 1)
	unsigned := good
	unsigned.Signature = ""
	keyless := p.signed(t, wire.OpRegister, change(func(r *wire.Registration) { r.Key = "" }))
	keylessUnsigned := keyless
	keylessUnsigned.Signature = ""
	later := good
	later.Data = bytes.Replace(good.Data, []byte(`"v":1`), []byte(`"v":2`), 1)

	for name, tc := range map[string]struct {
		signed   Signed
		allowed  Allowed
		insecure bool
		want     wire.Code // empty: accepted
		proven   string
	}{
		"good":                      {good, allow(p.key), false, "", p.key},
		"good, insecure service":    {good, allow(""), true, "", p.key},
		"keyless, signed":           {keyless, allow(p.key), false, "", p.key},
		"unsigned, insecure":        {keylessUnsigned, allow(""), true, "", ""},
		"unsigned, key known":       {keylessUnsigned, allow(p.key), true, wire.CodeForbidden, ""},
		"unsigned with key":         {unsigned, allow(""), true, wire.CodeForbidden, ""},
		"no key in the definition":  {good, allow(""), false, wire.CodeForbidden, ""},
		"another key":               {good, allow(other.key), false, wire.CodeForbidden, ""},
		"signed by another":         {other.signed(t, wire.OpRegister, p.registration()), allow(p.key), false, wire.CodeForbidden, ""},
		"signed for another name":   {moved, allow(p.key), false, wire.CodeMalformed, ""},
		"edited":                    {edited, allow(p.key), false, wire.CodeForbidden, ""},
		"not named":                 {good, func(string) (string, bool) { return "", false }, true, wire.CodeForbidden, ""},
		"later version":             {later, allow(p.key), false, wire.CodeVersion, ""},
		"not a registration":        {Signed{Scope: "prod", Name: "db", Data: []byte("{}")}, allow(p.key), false, wire.CodeMalformed, ""},
		"listens elsewhere":         {p.signed(t, wire.OpRegister, change(func(r *wire.Registration) { r.Subject = "leasesvc.c.prod.db.x" })), allow(p.key), false, wire.CodeMalformed, ""},
		"replayed after 20 minutes": {p.signed(t, wire.OpRegister, change(func(r *wire.Registration) { r.Time = r.Time.Add(-20 * time.Minute) })), allow(p.key), false, wire.CodeSkewed, ""},
		"from the future":           {p.signed(t, wire.OpRegister, change(func(r *wire.Registration) { r.Time = r.Time.AddDate(200, 0, 0) })), allow(p.key), false, wire.CodeSkewed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg, err := VerifyRegistration(tc.signed, tc.allowed, tc.insecure)
			var refusal wire.Refusal
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if reg.Proven != tc.proven || reg.To().Key != tc.proven || reg.To().Subject != p.to().Subject || reg.Scope != "prod" || reg.Name != "db" {
					t.Errorf("%+v", reg)
				}
			} else if !errors.As(err, &refusal) || refusal.Code != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestVerifyLeaveAndRefused(t *testing.T) {
	p, other := newPerson(t), newPerson(t)
	allowed := func(string) (string, bool) { return p.key, true }
	leave := wire.Leave{Consumer: "api", Instance: "api-0", Incarnation: p.id, Key: p.key, Time: time.Now(), Nonce: wire.NewNonce()}
	if l, err := VerifyLeave(p.signed(t, wire.OpLeave, leave), allowed, false); err != nil || l.Incarnation != p.id || l.Proven != p.key {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := VerifyLeave(other.signed(t, wire.OpLeave, leave), allowed, false); err == nil {
		t.Error("a leave that another signed is accepted")
	}
	refused := wire.Refused{Consumer: "api", Instance: "api-0", Incarnation: p.id, Lease: 3, Time: time.Now(), Nonce: wire.NewNonce()}
	if r, err := VerifyRefused(p.signed(t, wire.OpRefused, refused), allowed, false); err != nil || r.Lease != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := VerifyRefused(other.signed(t, wire.OpRefused, refused), allowed, false); err == nil {
		t.Error("a report that another signed is accepted")
	}
}

func TestSignedFromRefusesOtherSubjects(t *testing.T) {
	_, err := SignedFrom("leasesvc.register.prod.db.more", nats.Header{}, nil)
	var refusal wire.Refusal
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeMalformed {
		t.Error(err)
	}
}
