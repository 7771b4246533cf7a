// Package conformance looks at a consumer from outside, whatever language it is
// written in: it plays the holder of a scope against it and says, rule by rule of
// docs/protocol.md, whether it kept them.
//
// Which function to call: [Check], while the consumer runs or is being started.
//
// What it can see is what crosses the wire: registrations, answers, silence. That a
// yes was preceded by a login, and a confirmation by the end of old sessions (P11,
// P13), it can't; what it can see of them is that a credential which does not work
// gets no yes, if it is given one ([Options.Bad]).
//
// A rule that was broken does not end the check; the next ones are looked at all
// the same, as far as they can be. It works on a scope of its own: nobody else may
// hold it.
//
// How it is tested: on package consumer, which keeps all rules, and on consumers
// that break each of them.
package conformance
