// Package consumertest is a scripted holder of a scope, for tests of
// applications that use package consumer: it registers incarnations, asks them
// to prepare, follow and revert when the test says so, and can be told to
// refuse, to be silent, or to be succeeded by another epoch.
//
// Start with [Start]; [Holder.Rotate] is a whole hand-over.
//
// It keeps no log and decides nothing by itself, so it is no service; what it
// sends and checks is the real protocol (package handover).
//
// A Holder is safe for concurrent use; it ends with its test.
package consumertest
