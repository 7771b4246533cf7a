// Package wire holds the messages that the service and its consumers exchange
// over NATS: their subjects, JSON forms, sealing and signatures. It is the one
// package that both sides import, and docs/protocol.md is its description for
// other languages.
//
// Start with [Encode] and [Decode] for a message, [Sign] and [Verify] for what
// a consumer says, [Seal] and [Open] for what only one reader may see.
//
// Guarantees: a message that decodes has been checked for size (at most
// [MaxBytes]), protocol version, type, and the range of every field; a field
// that is not known is ignored, a version above [Version] is refused with
// [ErrVersion]. No value of a credential is in any error of this package.
//
// It does not send or receive anything, holds no state (apart from the clock
// of [NewIncarnation], which is safe for concurrent use), and decides nothing:
// the rules P8 to P14 are kept by the packages that use it.
//
// Tested by golden files of every message, fuzzed decoders, and round trips of
// seals and signatures.
package wire
