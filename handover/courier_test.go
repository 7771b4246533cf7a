package handover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// meeting is a courier and somebody to ask, each on a connection of its own.
type meeting struct {
	t       *testing.T
	keys    *Keys
	courier *Courier
	p       person
	nc      *nats.Conn // the person's
	log     *bytes.Buffer
}

func meet(t *testing.T, opts CourierOptions) *meeting {
	t.Helper()
	srv := startNATS(t)
	m := &meeting{t: t, keys: newKeys(t), p: newPerson(t), nc: connect(t, srv), log: &bytes.Buffer{}}
	opts.FirstPause, opts.LastPause = 20*time.Millisecond, 100*time.Millisecond
	opts.Logger = slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m.courier = NewCourier(connect(t, srv), m.keys, opts)
	return m
}

// listen answers each message with what answer gives: any number of replies.
func (m *meeting) listen(answer func(msg wire.Message) []*nats.Msg) {
	m.t.Helper()
	_, err := m.nc.Subscribe(m.p.to().Subject, func(raw *nats.Msg) {
		plain, err := wire.Open(m.p.pair, m.keys.Public(), raw.Data)
		if err != nil {
			m.t.Errorf("the message does not open: %v", err)
			return
		}
		msg, err := wire.Decode[wire.Message](plain)
		if err != nil {
			m.t.Error(err)
			return
		}
		for _, reply := range answer(msg) {
			_ = raw.RespondMsg(reply)
		}
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.nc.Flush(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *meeting) reply(msg wire.Message, v wire.Verdict) wire.Reply {
	return wire.Reply{Scope: msg.Scope, Name: msg.Name, Incarnation: msg.Incarnation, Epoch: msg.Epoch, N: msg.N,
		Kind: msg.Kind, Verdict: v, LastN: msg.N}
}

func (m *meeting) signedReply(by person, r wire.Reply) *nats.Msg {
	data, err := wire.Encode(r)
	if err != nil {
		m.t.Error(err)
	}
	sig, err := wire.Sign(by.signer, r.Type(), r.Scope, r.Name, data)
	if err != nil {
		m.t.Error(err)
	}
	out := nats.NewMsg("")
	out.Data = data
	out.Header.Set(wire.SignatureHeader, sig)
	return out
}

func (m *meeting) prepare(timeout time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.courier.Prepare(ctx, m.p.to(), Prepare{Epoch: 3, N: 40, Lease: 5, TimeLeft: timeout, Public: "v-1",
		ExpiresIn: time.Hour, Values: wire.Values(`{"username":"v-1","password":"hunter2"}`)})
}

func (m *meeting) follow(timeout time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.courier.Follow(ctx, m.p.to(), Follow{Epoch: 3, N: 41, Lease: 5, Public: "v-1",
		Values: wire.Values(`{"username":"v-1","password":"hunter2"}`)})
}

func TestPrepareYesAndNo(t *testing.T) {
	m := meet(t, CourierOptions{})
	verdict := atomic.Value{}
	verdict.Store(wire.Yes)
	m.listen(func(msg wire.Message) []*nats.Msg {
		if msg.TimeLeft <= 0 || msg.TimeLeft > wire.SecondsOf(5*time.Second) || *msg.ExpiresIn > wire.SecondsOf(time.Hour) {
			t.Errorf("time left %s", msg.TimeLeft)
		}
		r := m.reply(msg, verdict.Load().(wire.Verdict))
		r.Reason = "because"
		return []*nats.Msg{m.signedReply(m.p, r)}
	})
	if a, err := m.prepare(5 * time.Second); err != nil || !a.Yes() || a.Sent != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	verdict.Store(wire.No)
	if a, err := m.prepare(5 * time.Second); err != nil || a.Yes() || a.Verdict != wire.No || a.Reason != "because" {
		t.Errorf("%+v, %v", a, err)
	}
	if strings.Contains(m.log.String(), "hunter2") {
		t.Error("the password is in the log")
	}
}

func TestL14_VagueIsNoYes(t *testing.T) {
	m := meet(t, CourierOptions{})
	for _, vague := range []wire.Verdict{"", "ok", "YES", "true", wire.Confirmed} {
		m.p = newPerson(t)
		m.listen(func(msg wire.Message) []*nats.Msg { return []*nats.Msg{m.signedReply(m.p, m.reply(msg, vague))} })
		a, err := m.prepare(5 * time.Second)
		if err != nil || a.Yes() || a.Verdict != wire.No || !a.Vague {
			t.Errorf("%q: %+v, %v", vague, a, err)
		}
	}
}

func TestP8_OnlyTheAskedNAnswers(t *testing.T) {
	m := meet(t, CourierOptions{})
	other := newPerson(t)
	m.listen(func(msg wire.Message) []*nats.Msg {
		change := func(f func(*wire.Reply)) *nats.Msg {
			r := m.reply(msg, wire.Yes)
			f(&r)
			return m.signedReply(m.p, r)
		}
		forged := m.signedReply(other, m.reply(msg, wire.Yes))
		unsigned := m.signedReply(m.p, m.reply(msg, wire.Yes))
		unsigned.Header = nil
		edited := change(func(r *wire.Reply) { r.Verdict = wire.No })
		edited.Data = bytes.Replace(edited.Data, []byte(`"no"`), []byte(`"yes"`), 1)
		return []*nats.Msg{
			forged, unsigned, edited, nats.NewMsg(""),
			change(func(r *wire.Reply) { r.N-- }),
			change(func(r *wire.Reply) { r.N++ }),
			change(func(r *wire.Reply) { r.Epoch-- }),
			change(func(r *wire.Reply) { r.Kind = wire.KindFollow; r.Verdict = wire.Confirmed }),
			change(func(r *wire.Reply) { r.Incarnation = other.id }),
			change(func(r *wire.Reply) { r.Scope = "test" }),
			change(func(r *wire.Reply) { r.Name = "db2" }),
		}
	})
	a, err := m.prepare(300 * time.Millisecond)
	var none *NoAnswerError
	if !errors.As(err, &none) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%+v, %v", a, err)
	}
	s := m.courier.Stats()
	// The replies that name another scope or name were signed for those, so
	// they are forged as far as ours goes.
	if s.Forged < 6 || s.Mismatched < 5 || s.Answered != 0 || none.Ignored < 11 {
		t.Errorf("%+v, ignored %d", s, none.Ignored)
	}
}

func TestForgedAnswerDoesNotDisplaceTheTrueOne(t *testing.T) {
	m := meet(t, CourierOptions{})
	m.listen(func(msg wire.Message) []*nats.Msg {
		return []*nats.Msg{m.signedReply(newPerson(t), m.reply(msg, wire.Yes)), m.signedReply(m.p, m.reply(msg, wire.No))}
	})
	if a, err := m.prepare(5 * time.Second); err != nil || a.Verdict != wire.No || a.Sent != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestP14_SentAgainUntilAnswered(t *testing.T) {
	m := meet(t, CourierOptions{})
	var heard atomic.Int32
	m.listen(func(msg wire.Message) []*nats.Msg {
		switch n := heard.Add(1); {
		case n <= 2:
			return nil // lost
		case n == 3:
			r := m.reply(msg, wire.No)
			r.Reason = "not yet"
			return []*nats.Msg{m.signedReply(m.p, r)}
		default:
			return []*nats.Msg{m.signedReply(m.p, m.reply(msg, wire.Confirmed))}
		}
	})
	a, err := m.follow(10 * time.Second)
	if err != nil || !a.Confirmed() || a.Sent != 4 {
		t.Errorf("%+v, %v", a, err)
	}
	if heard.Load() != 4 {
		t.Errorf("heard %d", heard.Load())
	}
}

func TestP14_NotYetIsReportedAtTheEnd(t *testing.T) {
	m := meet(t, CourierOptions{})
	m.listen(func(msg wire.Message) []*nats.Msg {
		r := m.reply(msg, wire.No)
		r.Reason = "not yet"
		return []*nats.Msg{m.signedReply(m.p, r)}
	})
	_, err := m.follow(200 * time.Millisecond)
	var none *NoAnswerError
	if !errors.As(err, &none) || none.LastNo != "not yet" || none.Sent < 2 || none.Absent != 0 {
		t.Errorf("%v", err)
	}
}

func TestLateAnswerToAnEarlierSendingCounts(t *testing.T) {
	m := meet(t, CourierOptions{})
	late := make(chan *nats.Msg, 1)
	_, err := m.nc.Subscribe(m.p.to().Subject, func(raw *nats.Msg) {
		plain, _ := wire.Open(m.p.pair, m.keys.Public(), raw.Data)
		msg, err := wire.Decode[wire.Message](plain)
		if err != nil {
			t.Error(err)
		}
		select {
		case late <- raw: // the first is kept
		default: // the second makes the first answered
			first := <-late
			_ = first.RespondMsg(m.signedReply(m.p, m.reply(msg, wire.Yes)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = m.nc.Flush()
	if a, err := m.prepare(5 * time.Second); err != nil || !a.Yes() || a.Sent != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestNobodyThereIsMeasuredAndNoYes(t *testing.T) {
	var told atomic.Int64
	m := meet(t, CourierOptions{NobodyThere: func(to To, lasted time.Duration) { told.Store(int64(lasted)) }})
	_, err := m.prepare(300 * time.Millisecond)
	var none *NoAnswerError
	if !errors.As(err, &none) || none.Absent < 100*time.Millisecond || told.Load() == 0 {
		t.Fatalf("%v, told %d", err, told.Load())
	}
	before := m.courier.Absent(m.p.id)
	if _, err := m.follow(300 * time.Millisecond); err == nil {
		t.Fatal("somebody confirmed")
	}
	if after := m.courier.Absent(m.p.id); after <= before {
		t.Errorf("absence does not go on across calls: %s, then %s", before, after)
	}
	m.listen(func(wire.Message) []*nats.Msg { return nil })
	_, _ = m.follow(100 * time.Millisecond)
	if got := m.courier.Absent(m.p.id); got != 0 {
		t.Errorf("somebody listens and is absent for %s", got)
	}
}

func TestAbsenceDoesNotCountOurOwnOutage(t *testing.T) {
	var a absences
	a.nobody("x", 0)
	eventually(t, "absence grows", func() bool { return a.nobody("x", 0) > 2*time.Millisecond })
	was := a.lasted("x")
	if got := a.nobody("x", 1); got != was {
		t.Errorf("a reconnect in between: %s became %s", was, got)
	}
	a.present("x")
	if a.lasted("x") != 0 || a.nobody("x", 1) != 0 {
		t.Error("present did not end the run")
	}
}

func TestStaleIsReturned(t *testing.T) {
	m := meet(t, CourierOptions{})
	m.listen(func(msg wire.Message) []*nats.Msg {
		r := m.reply(msg, wire.Stale)
		r.LastN = 99
		return []*nats.Msg{m.signedReply(m.p, r)}
	})
	for _, ask := range []func(time.Duration) (Answer, error){m.prepare, m.follow} {
		if a, err := ask(5 * time.Second); err != nil || a.Verdict != wire.Stale || a.LastN != 99 || a.Yes() || a.Confirmed() {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

func TestCourierSurvivesALostConnection(t *testing.T) {
	srv := startNATS(t)
	m := &meeting{t: t, keys: newKeys(t), p: newPerson(t), nc: connect(t, srv)}
	nc := connect(t, srv, nats.ReconnectBufSize(-1), nats.ReconnectWait(10*time.Millisecond))
	m.courier = NewCourier(nc, m.keys, CourierOptions{FirstPause: 10 * time.Millisecond, LastPause: 50 * time.Millisecond})
	var heard atomic.Int32
	m.listen(func(msg wire.Message) []*nats.Msg {
		if heard.Add(1) == 1 {
			_ = nc.ForceReconnect()
			return nil
		}
		return []*nats.Msg{m.signedReply(m.p, m.reply(msg, wire.Yes))}
	})
	if a, err := m.prepare(10 * time.Second); err != nil || !a.Yes() {
		t.Errorf("%+v, %v", a, err)
	}
	if nc.Stats().Reconnects == 0 {
		t.Error("the connection was never lost")
	}
}

func TestTooLargeIsAnErrorAtOnce(t *testing.T) {
	m := meet(t, CourierOptions{})
	_, err := m.courier.Prepare(context.Background(), m.p.to(), Prepare{Epoch: 1, N: 1, Lease: 1,
		Values: wire.Values(`{"a":"` + strings.Repeat("x", wire.MaxBytes) + `"}`)})
	if !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
}

func BenchmarkPrepare(b *testing.B) {
	srv := startNATS(b)
	keys, p, nc := newKeys(b), newPerson(b), connect(b, srv)
	courier := NewCourier(connect(b, srv), keys, CourierOptions{})
	_, err := nc.Subscribe(p.to().Subject, func(raw *nats.Msg) {
		plain, _ := wire.Open(p.pair, keys.Public(), raw.Data)
		m, _ := wire.Decode[wire.Message](plain)
		r := wire.Reply{Scope: m.Scope, Name: m.Name, Incarnation: m.Incarnation, Epoch: m.Epoch, N: m.N, Kind: m.Kind, Verdict: wire.Yes}
		data, _ := wire.Encode(r)
		sig, _ := wire.Sign(p.signer, r.Type(), r.Scope, r.Name, data)
		out := nats.NewMsg("")
		out.Data = data
		out.Header.Set(wire.SignatureHeader, sig)
		_ = raw.RespondMsg(out)
	})
	if err != nil {
		b.Fatal(err)
	}
	_ = nc.Flush()
	for b.Loop() {
		a, err := courier.Prepare(context.Background(), p.to(), Prepare{Epoch: 1, N: 1, Lease: 1, TimeLeft: time.Minute,
			Values: wire.Values(`{"username":"v-1","password":"hunter2"}`)})
		if err != nil || !a.Yes() {
			b.Fatal(a, err)
		}
	}
}
