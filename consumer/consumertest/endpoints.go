package consumertest

import (
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// admission is what the holder allows now; ok is false while it is mute.
func (h *Holder) admission() (allowed handover.Allowed, insecure, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	insecure = h.insecure
	return func(consumer string) (string, bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		key, known := h.allowed[consumer]
		return key, known || h.insecure
	}, insecure, !h.mute
}

func (h *Holder) refuseWith(m *nats.Msg, err error) {
	var r wire.Refusal
	if !errors.As(err, &r) {
		r = wire.Refusal{Code: wire.CodeUnavailable, Message: err.Error()}
	}
	data, err := wire.Encode(r)
	if err != nil {
		h.t.Errorf("refusing: %v", err)
		return
	}
	_ = m.Respond(data)
}

func (h *Holder) onRegister(m *nats.Msg) {
	allowed, insecure, ok := h.admission()
	if !ok {
		return
	}
	signed, err := handover.SignedFrom(m.Subject, m.Header, m.Data)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	reg, err := handover.VerifyRegistration(signed, allowed, insecure)
	if err == nil {
		err = h.admit(reg)
	}
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	h.mu.Lock()
	s := h.names[reg.Name]
	answer := wire.Answer{Scope: h.scope, Name: reg.Name, Incarnation: reg.Incarnation, Nonce: reg.Nonce,
		Epoch: h.epoch, N: s.N, Lease: s.Lease, Public: s.Public, Values: s.Values}
	h.mu.Unlock()
	sealed, err := h.keys.SealBody(reg.XKey, answer)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	_ = m.Respond(sealed)
}

// admit compares and replaces, as the log's holder does.
func (h *Holder) admit(reg handover.Registration) (err error) {
	h.mu.Lock()
	refuse := h.refuse
	h.mu.Unlock()
	if refuse != nil {
		if err := refuse(reg); err != nil {
			return err
		}
	}
	h.set(func() {
		if _, ok := h.names[reg.Name]; !ok {
			err = wire.Refusal{Code: wire.CodeUnknownName, Message: "no such name"}
			return
		}
		byInstance := h.registered[reg.Name]
		if byInstance == nil {
			byInstance = map[string]handover.Registration{}
			h.registered[reg.Name] = byInstance
		}
		now := byInstance[reg.Instance].Incarnation
		switch {
		case now == reg.Incarnation:
		case now > reg.Incarnation:
			err = wire.Refusal{Code: wire.CodeSuperseded, Message: "a later incarnation is registered", Registered: now}
			return
		case now != reg.Replaces:
			err = wire.Refusal{Code: wire.CodeMismatch, Message: "another incarnation is registered", Registered: now}
			return
		}
		byInstance[reg.Instance] = reg
	})
	return err
}

func (h *Holder) onLeave(m *nats.Msg) {
	allowed, insecure, ok := h.admission()
	if !ok {
		return
	}
	signed, err := handover.SignedFrom(m.Subject, m.Header, m.Data)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	l, err := handover.VerifyLeave(signed, allowed, insecure)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	h.set(func() {
		if h.registered[l.Name][l.Instance].Incarnation == l.Incarnation {
			delete(h.registered[l.Name], l.Instance)
		}
	})
	data, err := wire.Encode(wire.Left{Incarnation: l.Incarnation})
	if err != nil {
		h.t.Errorf("answering a leave: %v", err)
		return
	}
	_ = m.Respond(data)
}

func (h *Holder) onRefused(m *nats.Msg) {
	allowed, insecure, ok := h.admission()
	if !ok {
		return
	}
	signed, err := handover.SignedFrom(m.Subject, m.Header, m.Data)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	r, err := handover.VerifyRefused(signed, allowed, insecure)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	h.set(func() { h.reports = append(h.reports, r) })
	data, err := wire.Encode(wire.Left{Incarnation: r.Incarnation})
	if err != nil {
		h.t.Errorf("answering a report: %v", err)
		return
	}
	_ = m.Respond(data)
}

func (h *Holder) onGet(m *nats.Msg) {
	if _, _, ok := h.admission(); !ok {
		return
	}
	got, xkey, err := h.get(m)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	sealed, err := h.keys.SealBody(xkey, got)
	if err != nil {
		h.refuseWith(m, err)
		return
	}
	_ = m.Respond(sealed)
}

func (h *Holder) get(m *nats.Msg) (wire.Got, string, error) {
	_, scope, name, err := wire.ParseSubject(m.Subject)
	if err != nil {
		return wire.Got{}, "", err
	}
	g, err := wire.Decode[wire.Get](m.Data)
	if err != nil {
		return wire.Got{}, "", wire.Refusal{Code: wire.CodeMalformed, Message: err.Error()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, known := h.names[name]
	switch {
	case !known:
		return wire.Got{}, "", wire.Refusal{Code: wire.CodeUnknownName, Message: "no such name"}
	case s.Lease == 0:
		return wire.Got{}, "", wire.Refusal{Code: wire.CodeNone, Message: "nothing is committed yet"}
	}
	values, err := only(s.Values, g.Keys)
	if err != nil {
		return wire.Got{}, "", err
	}
	return wire.Got{Scope: scope, Name: name, Nonce: g.Nonce, Epoch: h.epoch, N: s.N, Lease: s.Lease,
		Values: values, GoodFor: wire.SecondsOf(h.goodFor), Public: s.Public}, g.XKey, nil
}

// only keeps some keys of values.
func only(values wire.Values, keys []string) (wire.Values, error) {
	if len(keys) == 0 {
		return values, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(values, &all); err != nil {
		return nil, errors.New("values are not an object")
	}
	some := map[string]json.RawMessage{}
	for _, k := range keys {
		v, ok := all[k]
		if !ok {
			return nil, wire.Refusal{Code: wire.CodeUnknownKey, Message: "no such key"}
		}
		some[k] = v
	}
	return json.Marshal(some)
}

func (h *Holder) onKey(m *nats.Msg) {
	if _, _, ok := h.admission(); !ok {
		return
	}
	data, err := wire.Encode(wire.Key{XKey: h.keys.Public(), KeyID: h.keys.ID(), Epoch: h.Epoch()})
	if err != nil {
		h.t.Errorf("answering for the key: %v", err)
		return
	}
	_ = m.Respond(data)
}
