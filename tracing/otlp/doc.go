// Package otlp sends the spans of a process to a collector by OTLP, over HTTP or
// gRPC.
//
// Which function to call: [Settings.Over] puts the environment over a file's
// settings, [Start] begins, [Exporter.TracerProvider] goes to service and
// consumers, [Exporter.Stop] sends what is left.
//
// Guarantees. Who ends a span never waits: spans wait in a queue with a bound, and
// what finds no room there, or what the collector does not take, is dropped,
// counted, and told in the log at most once a minute. Stop ends in the time that it
// is given, whatever the collector does. Headers are secrets: they are in no log
// line and no error, nor is what the collector says if it repeats one; they are
// sent to nobody that the collector redirects to.
//
// It sets nothing that is global to the process. (OpenTelemetry's own oddities go
// to its global handlers, which are the program's to set.)
//
// Concurrency: an Exporter's methods are safe for concurrent use. Its goroutines
// end before Stop returns, unless a collector keeps one past its time.
//
// How it is tested: against receivers on loopback, by HTTP and by gRPC, that take,
// refuse, hang, redirect and are not there; the environment's variables as a table.
package otlp
