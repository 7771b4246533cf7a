// Package web is the page on the HTTP address: the life of every lease, live and
// back in time. A [Follower] reads the log into a [History]; [NewHandler] serves
// the page, its data and a stream of what is new. [Login] asks for a token.
//
// # What it guarantees
//
//   - What is shown is a function of the log alone: the events that a
//     [projector.Projection] counts, up to a moment. A moment stands for a prefix
//     of each scope's log, the events up to the last one that is not after it, so
//     the past is shown as a replay to there gives it (TestThePastIsAReplay).
//     Only who is alive (heartbeats, standbys) is asked elsewhere, by [Live], and
//     shown only for the present.
//   - Read only: every method but GET and HEAD is refused (signing in apart), and
//     nothing here can append.
//   - No secret: events hold none. Of what they hold, accessors of guards,
//     fingerprints, keys and verifiers' templates are not shown either.
//   - Nothing of an event is ever markup: data are JSON, the page sets text and
//     draws, and its policy (content security policy with trusted types) keeps
//     the browser from anything else. No other host is asked for anything.
//   - A stream that breaks goes on where it was: each batch carries the sequence
//     it reaches; who was away too long is told to read everything again.
//
// # How the past is found
//
// A history is an index, not a list of snapshots: per name the events as moments
// of 24 bytes and each lease's steps, per scope the epochs, pauses and outages. A
// view of any moment is a binary search in each name. The next steps of one name
// come from leasecore: its events alone, up to the moment, are folded again, and
// the results of the last such folds are kept.
//
// # Concurrency
//
// A History is for many readers and one Follower. A Follower's Run is the only
// goroutine; requests run on net/http's, bounded ([maxStreams], [maxQueries]).
//
// # Tests
//
// Properties over simulated lives against the replay; handlers; a fuzz test and
// the whole page in headless Chromium (browser_test.go), with axe-core.
package web
