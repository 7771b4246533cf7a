package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// faults are the rules that a consumer breaks.
type faults struct {
	early, takesAll, anybody, anyVersion, strict, anyN, anyEpoch, yes, tells, once, stays, unsigned, patient, sameN bool
}

// simple is a consumer in a hundred lines, as somebody might write it from
// docs/protocol.md in another language, faults included.
type simple struct {
	faults
	t       *testing.T
	nc      *nats.Conn
	pair    nkeys.KeyPair
	key     string
	service string

	mu       sync.Mutex
	id       string
	curve    nkeys.KeyPair
	xkey     string
	answered bool
	epoch, n uint64
	kind     wire.Kind
	lease    uint64
	said     wire.Verdict
	reason   string
	askAt    time.Time
}

// start runs it; the result ends it.
func (s *simple) start() (stop func()) {
	s.t.Helper()
	var err error
	if s.id, err = wire.NewIncarnation(time.Now(), ""); err == nil {
		if s.curve, err = nkeys.CreateCurveKeys(); err == nil {
			s.xkey, err = s.curve.PublicKey()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	sub, err := s.nc.Subscribe(wire.ConsumerSubject("check", "db", s.id), s.message)
	if err != nil {
		s.t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		s.registerAgain(end)
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			close(end)
			<-done
			_ = sub.Unsubscribe()
			_, _ = s.request(wire.OpLeave, wire.Leave{Consumer: "app", Instance: "app-0", Incarnation: s.id, Key: s.key, Time: time.Now(), Nonce: wire.NewNonce()})
		})
	}
}

// registerAgain registers when there is no answer yet, and when an outcome is due.
func (s *simple) registerAgain(end <-chan struct{}) {
	replaces := ""
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		due := !s.answered || !s.askAt.IsZero() && time.Now().After(s.askAt) && !s.patient
		s.mu.Unlock()
		if due {
			replaces = s.register(replaces)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

func (s *simple) register(replaces string) string {
	data, err := s.request(wire.OpRegister, wire.Registration{
		Consumer: "app", Instance: "app-0", Incarnation: s.id, Replaces: replaces, Key: s.key, XKey: s.xkey,
		Subject: wire.ConsumerSubject("check", "db", s.id), Protocol: wire.Version, Time: time.Now(), Nonce: wire.NewNonce(),
	})
	if err != nil {
		return replaces
	}
	if r, err := wire.Decode[wire.Refusal](data); err == nil {
		if r.Code == wire.CodeMismatch {
			return r.Registered
		}
		return replaces
	}
	plain, err := wire.Open(s.curve, s.service, data)
	if err != nil {
		return replaces
	}
	a, err := wire.Decode[wire.Answer](plain)
	if err != nil {
		return replaces
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.epoch, s.askAt = true, a.Epoch, time.Time{}
	if a.N > s.n {
		s.n, s.kind, s.lease, s.said, s.reason = a.N, wire.KindFollow, a.Lease, wire.Confirmed, ""
	}
	return ""
}

func (s *simple) request(op wire.Operation, body wire.Body) ([]byte, error) {
	m := nats.NewMsg(wire.Subject(op, "check", "db"))
	var err error
	if m.Data, err = wire.Encode(body); err != nil {
		return nil, err
	}
	s.sign(m, body.Type())
	answer, err := s.nc.RequestMsg(m, time.Second)
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}

func (s *simple) sign(m *nats.Msg, typ string) {
	if s.unsigned {
		return
	}
	sig, err := wire.Sign(s.pair, typ, "check", "db", m.Data)
	if err != nil {
		s.t.Error(err)
		return
	}
	m.Header.Set(wire.SignatureHeader, sig)
}

// open gives the message in what came, as far as the consumer takes it.
func (s *simple) open(data []byte) (wire.Message, error) {
	plain, err := wire.Open(s.curve, s.service, data)
	if err != nil && s.takesAll {
		// It takes the sender's word; what is in there, it guesses.
		return wire.Message{Kind: wire.KindPrepare, Epoch: s.epoch, N: s.n + 1, Lease: 1}, nil
	}
	if err != nil {
		return wire.Message{}, err
	}
	if s.anyVersion {
		plain = bytes.Replace(plain, []byte(`"v":2,`), []byte(`"v":1,`), 1)
	}
	if s.strict && bytes.Contains(plain, []byte("a_field")) {
		return wire.Message{}, errors.New("unknown field")
	}
	m, err := wire.Decode[wire.Message](plain)
	if err == nil && !s.anybody && (m.Incarnation != s.id || m.Name != "db" || m.Scope != "check") {
		err = errors.New("for somebody else")
	}
	return m, err
}

func (s *simple) message(raw *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.open(raw.Data)
	if err != nil || !s.answered && !s.early {
		return
	}
	prepares := m.Kind == wire.KindPrepare
	switch {
	case m.Epoch < s.epoch && !s.anyEpoch, m.N < s.n && !s.anyN:
		s.reply(raw, m, wire.Stale, "")
		return
	case m.N == s.n && (prepares != (s.kind == wire.KindPrepare) || m.Lease != s.lease):
		if s.sameN {
			s.reply(raw, m, wire.Yes, "")
		}
		return
	case m.N == s.n:
		if !s.once {
			s.reply(raw, m, s.said, s.reason)
		}
		return
	}
	s.n, s.epoch, s.kind, s.lease = m.N, max(m.Epoch, s.epoch), m.Kind, m.Lease
	s.said, s.reason, s.askAt = wire.Confirmed, "", time.Time{}
	if prepares {
		s.said = wire.Yes
		s.askAt = time.Now().Add(m.TimeLeft.Duration() + time.Second)
	}
	var values map[string]string
	if json.Unmarshal(m.Values, &values) == nil && values["password"] == "wr0ng-password" && !s.yes {
		s.said, s.reason = wire.No, "refused"
		if s.tells {
			s.reason = "refused: wr0ng-password"
		}
	}
	if m.Kind == wire.KindRevert && s.stays {
		s.said = wire.No
	}
	s.reply(raw, m, s.said, s.reason)
}

func (s *simple) reply(raw *nats.Msg, m wire.Message, v wire.Verdict, reason string) {
	r := wire.Reply{Scope: "check", Name: "db", Incarnation: s.id, Epoch: max(m.Epoch, 1), N: max(m.N, 1), Kind: m.Kind, Verdict: v, Reason: reason, LastN: s.n}
	answer := nats.NewMsg(raw.Reply)
	var err error
	if answer.Data, err = wire.Encode(r); err != nil {
		return
	}
	s.sign(answer, r.Type())
	_ = s.nc.PublishMsg(answer)
}
