package handover

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// Signed is a request as it came: where to, what, and its signature.
type Signed struct {
	Scope, Name string
	Data        []byte
	// Signature is the value of [wire.SignatureHeader]; empty: none.
	Signature string
}

// Headers is what carries the signature; nats.Header and micro.Headers are
// such.
type Headers interface{ Get(string) string }

// SignedFrom takes a request apart. Its error is a [wire.Refusal], to be
// answered as it is.
func SignedFrom(subject string, headers Headers, data []byte) (Signed, error) {
	_, scope, name, err := wire.ParseSubject(subject)
	if err != nil {
		return Signed{}, wire.Refusal{Code: wire.CodeMalformed, Message: err.Error()}
	}
	s := Signed{Scope: scope, Name: name, Data: data}
	if headers != nil {
		s.Signature = headers.Get(wire.SignatureHeader)
	}
	return s, nil
}

// Allowed tells which public nkey a consumer of the name must sign with; ok is
// false when the definition does not name the consumer. An empty key is
// accepted only where consumers may be insecure.
type Allowed func(consumer string) (key string, ok bool)

// MaxSkew is how far the time in a signed request may be from ours: an older
// one may be replayed by somebody else.
const MaxSkew = 15 * time.Minute

// Registration is a registration that was checked: signed by the consumer it
// names, for the scope and name it came in under.
type Registration struct {
	wire.Registration
	Scope, Name string
	// Proven is the public nkey that signed it; empty: insecure, unsigned.
	// Answers of this incarnation are checked against this key.
	Proven string
}

// To gives where messages to the incarnation go.
func (r Registration) To() To {
	return To{Scope: r.Scope, Name: r.Name, Incarnation: r.Incarnation, Subject: r.Subject, XKey: r.XKey, Key: r.Proven}
}

// Leave is a [wire.Leave] that was checked like a [Registration].
type Leave struct {
	wire.Leave
	Scope, Name string
	Proven      string
}

// Refused is a [wire.Refused] that was checked like a [Registration].
type Refused struct {
	wire.Refused
	Scope, Name string
	Proven      string
}

// VerifyRegistration checks a registration: its form and version, that the
// definition names the consumer, the signature under the consumer's key, its
// time, and that it listens where only itself may. Its error is a
// [wire.Refusal], to be answered as it is. Whether the incarnation may replace
// the registered one is the holder's to compare.
//
// insecure accepts consumers for whom allowed gives no key; one that signs all
// the same is held to the key it names.
func VerifyRegistration(s Signed, allowed Allowed, insecure bool) (Registration, error) {
	r, err := decode[wire.Registration](s)
	if err != nil {
		return Registration{}, err
	}
	if r.Protocol < wire.Version {
		return Registration{}, wire.Refusal{Code: wire.CodeVersion,
			Message: fmt.Sprintf("protocol %d is not spoken here any more, this side speaks %d", r.Protocol, wire.Version)}
	}
	if want := wire.ConsumerSubject(s.Scope, s.Name, r.Incarnation); r.Subject != want {
		return Registration{}, wire.Refusal{Code: wire.CodeMalformed, Message: "subject is not " + want}
	}
	proven, err := verify(s, r, signer{r.Consumer, r.Key, r.Time}, allowed, insecure)
	if err != nil {
		return Registration{}, err
	}
	return Registration{Registration: r, Scope: s.Scope, Name: s.Name, Proven: proven}, nil
}

// VerifyLeave checks a leave like [VerifyRegistration].
func VerifyLeave(s Signed, allowed Allowed, insecure bool) (Leave, error) {
	l, err := decode[wire.Leave](s)
	if err != nil {
		return Leave{}, err
	}
	proven, err := verify(s, l, signer{l.Consumer, l.Key, l.Time}, allowed, insecure)
	if err != nil {
		return Leave{}, err
	}
	return Leave{Leave: l, Scope: s.Scope, Name: s.Name, Proven: proven}, nil
}

// VerifyRefused checks a report like [VerifyRegistration].
func VerifyRefused(s Signed, allowed Allowed, insecure bool) (Refused, error) {
	r, err := decode[wire.Refused](s)
	if err != nil {
		return Refused{}, err
	}
	proven, err := verify(s, r, signer{r.Consumer, r.Key, r.Time}, allowed, insecure)
	if err != nil {
		return Refused{}, err
	}
	return Refused{Refused: r, Scope: s.Scope, Name: s.Name, Proven: proven}, nil
}

func decode[M wire.Body](s Signed) (M, error) {
	m, err := wire.Decode[M](s.Data)
	if err == nil {
		return m, nil
	}
	code := wire.CodeMalformed
	if errors.Is(err, wire.ErrVersion) {
		code = wire.CodeVersion
	}
	return m, wire.Refusal{Code: code, Message: err.Error()}
}

// signer is who says to have signed, and when.
type signer struct {
	consumer, key string
	at            time.Time
}

func verify(s Signed, body wire.Body, by signer, allowed Allowed, insecure bool) (proven string, err error) {
	forbidden := func(why string) error {
		return wire.Refusal{Code: wire.CodeForbidden, Message: fmt.Sprintf("consumer %s of %s/%s: %s", by.consumer, s.Scope, s.Name, why)}
	}
	key, ok := allowed(by.consumer)
	switch {
	case !ok:
		return "", forbidden("the definition does not name it; add it to the definition's consumers")
	case key == "" && !insecure:
		return "", forbidden("the definition gives no key for it; add its public nkey")
	case key != "" && by.key != "" && by.key != key:
		return "", forbidden("its key is not the one in the definition")
	case key == "":
		key = by.key
	}
	if key != "" {
		if wire.Verify(key, s.Signature, body.Type(), s.Scope, s.Name, s.Data) != nil {
			return "", forbidden("the signature is missing or not by its key")
		}
	}
	if skew := time.Since(by.at).Round(time.Second); skew.Abs() > MaxSkew {
		return "", wire.Refusal{Code: wire.CodeSkewed,
			Message: fmt.Sprintf("consumer %s: its clock is %s away from ours, at most %s is accepted; set the clocks", by.consumer, skew, MaxSkew)}
	}
	return key, nil
}
