// Package journal is the log: a fenced append and a replay of events on a
// JetStream stream.
//
// [Open] checks the stream's settings, or creates it, and gives a [Log]. Whoever
// claims a scope reads [Log.LastOpened], appends its own opened event with
// [Log.AppendOpened], folds the log up to it with [Log.Replay] and then appends
// with a [Writer]. Standbys and auditors use [Log.Follow].
//
// # Guarantees
//
//   - An append carries the fence: the sequence F of the scope's last opened
//     event, checked by the server that stores it against that literal subject
//     (P3). After somebody else's opened event nothing of ours can be stored,
//     whatever we believe; the append ends with a [*Fenced]. A wildcard would
//     be no fence on a replicated stream.
//   - The events of one append stand in the log together or not at all, with
//     sequences one after the other.
//   - An append ends in one of three ways: it is in the log, it is not and can
//     never be, or [ErrUnsettled] and the writer is of no more use. An outcome
//     that is unknown (no answer, connection lost, an answer that decides
//     nothing) is settled by P4: look once; if it is not there, move the fence
//     by an opened event of the same epoch, whose compare-and-set makes
//     everything below it final, and read what is there. The message itself is
//     never sent a second time.
//   - Replay gives what is in the log, in order, nothing twice and nothing left
//     out, and ends; it never waits without bound.
//
// # What is taken for unknown
//
// A refusal is only final when no server could have stored the message as well.
// In a cluster a leader that was cut off or stopped and the one that replaced it
// may both receive a publish, and the deposed one may answer first, from what it
// last knew. So error 10164 (a message under the same fence is in flight), 10176
// (batch incomplete), a 10071 whose number is below our fence and every 5xx are
// settled like a lost answer: repeating after a 10164 could store an event
// twice. None of them is a deposal; only a fence above ours is.
//
// # Why no message ids
//
// Nats-Msg-Id is not used. The server compares ids and expectations in a
// different order on one replica and on three (a repeated append is 10071 on the
// first, a duplicate acknowledgement on the second, even when the fence has been
// lost since), a known id refuses a whole batch with 10201, and the window of
// known ids ends. Ids inside the events, and P4, need none of that.
//
// # One append in flight
//
// On a replicated stream a second append under a fence is refused while the
// first is in flight, so a [Writer] has one in flight: what queues meanwhile goes
// into the next, as one atomic batch (group commit). A batch is sent without
// waiting in between; its last message commits it. A stream takes 50 open
// batches, a [Log] opens 16 at most and waits for a place.
//
// # Not here
//
// What events mean; deciding who may open an epoch (epochkv); judging what is
// read, except when a writer settles an outcome: Replay and Follow give payloads
// for [events.Chain.Admit]. Authority over the stream is not here either: an
// administrator can still change its settings, see [Log.Check]. A read by
// STREAM.MSG.GET may be answered by a leader that has just been replaced; nothing
// here depends on such a read being recent, only on what it finds being real.
//
// # Concurrency
//
// A [Log] may be used by many goroutines. A [Writer] belongs to one at a time.
// A [Log] owns one goroutine and one subscription until [Log.Close].
//
// # Tests
//
// On one server and on a cluster of three, with a proxy between client and
// server that loses answers or holds requests back at chosen moments.
package journal
