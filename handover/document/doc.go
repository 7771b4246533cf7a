// Package document holds the settings documents of a scope: trees of settings
// in which references (lease://name#key, vault://path#key, env://VARIABLE)
// stand where values belong, and the places that change when a lease does.
//
// Read a document with [Parse] (JSON) or [FromAny] and [New]. Keep the
// documents of a scope in a [Store]: [Store.Load] on replay, [Store.Update]
// for the API (L42), [Store.Install] when a candidate is handed over (L12,
// L19), [Store.Push] when values are written without a hand-over (L46),
// [Store.Resolve] for readers. docs/documents.md is the format.
//
// Guarantees. An update, an install and a restore are each done in full or not
// at all, and readers never see one that is half done. What [Store.Resolve]
// gives is committed (D1) and unexpired (L53); a running hand-over's own
// consumers get [Install.Resolve]. A restore puts back what its install wrote
// and nothing else (I5). No error and nothing that fmt, slog or encoding/json
// prints of these types holds a value; [Value.Reveal], [Value.Encode],
// [Resolved.Reveal] and [Resolved.Encode] are the ways to one.
//
// It does no I/O. Which references can be read, and that an expired lease's
// can't, is its [Reader]'s matter; that a change is in the log is the publish
// callback's; sealing, events and rendering to files are the caller's. Nothing
// is kept: a restart loads the documents again.
//
// Concurrency. Values, paths, references and documents are immutable. A
// [Store] and a [Gate] may be used by many goroutines; those that change a
// store take turns, readers never wait for a publish. No goroutine is started.
//
// How it is tested: each rule by name; transactions and restores against a
// model with failures injected at every step (rapid); paths, references and
// documents by fuzzing; the examples of docs/documents.md are parsed.
package document
