// Package story tells people what a log says.
//
// [Life] tells a name's story in plain sentences: give it each event that counts
// ([Life.See]), then ask for [Life.Lines], what repeats told once, and for
// [Next], which steps come next and when. [Holders] answers who had a credential,
// from when to when: which lease a user name or a lease id of Vault's belongs to,
// and which consumers worked with it.
//
// The sentences hold what the events hold: names, numbers, times, messages; no
// secret. What readers (get) who are not registered did is not in the log, so not
// in a story.
//
// Pure: no clock, no I/O. A value belongs to one goroutine. Tested with golden
// stories of simulated lives' events and of one that is written by hand.
package story
