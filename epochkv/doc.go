// Package epochkv says who leads a scope: the holder cells of the instances
// and the cells of the scopes, on one JetStream KV bucket, and the state
// directory that lets a restarted process know itself.
//
// # Which function do I call
//
// [OpenStateDir], then [Open], then [Cells.StartHolder]. From then on two
// loops: [Cells.Renew] each heartbeat, and for every scope that is wanted and
// not led, [Cells.ClaimStep] after the wait the step before asked for, or when
// [Cells.Hints] says so. One claim, in this order (E8, P1):
//
//	m, F := the last lease.<scope>._epoch.opened in the log (epoch, sequence)
//	claim, err := cells.ClaimStep(ctx, scope, m)
//	if claim.Epoch != 0: append opened{claim.Epoch, claim.How} expecting F
//	only when it is known to be in: cells.Opened(scope, claim.Epoch), serve
//
// [Cells.Release] gives a scope back, [Cells.Drop] forgets one without a word
// to the store (the fence refused an append), [Cells.StopHolder] ends the
// holder after all of its scopes were released. [Cells.Look] and
// [Cells.Neighbours] only read, as do [Cells.Holders] and [Cells.AllHolders].
//
// # Cells
//
// Key holder.<holder id> is written by its owner each heartbeat and, once, by
// whoever deposes it; its revision is the token that challengers watch. Key
// scope.<scope> is written at claim and release only; the revision of the
// claim is the epoch. A scope cell names the holder and its incarnation (one
// StartHolder), so a claim lives exactly as long as that incarnation's holder
// cell: a cell whose incarnation was replaced by another start of the same
// holder is nobody's.
//
// # Guarantees
//
// Every write is a compare-and-set on the literal subject $KV.<bucket>.<key>,
// decided by the server. Epochs of a scope only grow (E7). A claim is never
// kept over a refused renewal that a read did not explain (E11). What is
// persisted is bound to the bucket's creation time: revisions of another
// bucket are never mistaken for ours.
//
// Silence is not counted while the store does not work for us: a poll counts
// when our own read succeeded and our own renewal did, too, in the last two
// heartbeats; otherwise the count starts from zero. So a dead stream leader,
// and one that lost its quorum and still answers reads, depose nobody.
//
// # The three holes
//
// Self-recognition after a crash between set and fence: a cell is our own only
// when its revision is an epoch that [Cells.Opened] persisted, and that is
// called after the opening event is in the log. A crash in between leaves a
// cell that names us under an incarnation that is gone: we wait the quiet
// polls for it like any stranger, and so may any stranger. The other way
// round, a crash after the event and before the state file was written (at
// most a heartbeat) costs the same wait and nothing else. And no way of taking
// a cell excuses the caller from the opening event: How is a word for the log,
// not a permission to skip it.
//
// Adopting a token without moving it: a renewal that finds its own lost answer
// renews once more before it reports success.
//
// A failing re-read is taken as a deposal, never as "still ours".
//
// Unknown outcomes: a claim that timed out is not adopted later. The next step
// finds a cell of our own incarnation and takes it again, under a new epoch.
//
// # What it does not do
//
// It fences nothing: an epoch only protects what is compared with it, in the
// stream that stores the event. It starts no goroutine and keeps no time: the
// caller loops. It does not remove the holder cells of instances that are gone
// for good (a few hundred bytes each).
//
// # Concurrency
//
// All methods may be called from many goroutines; those of one scope must not
// overlap. A holder's cell is read once for all scopes that ask within half a
// heartbeat (E1); who asks meanwhile waits for that read or for its context.
//
// # How it is tested
//
// A test for each E-rule that touches the package, on an embedded server with
// a clock of the test's; lost answers by a TCP proxy that drops what the
// server says; three clustered servers with the leader killed; and a seeded
// run of claimants with crashes, pauses, lost and late writes whose history is
// checked with porcupine, unknown outcomes left open.
package epochkv
