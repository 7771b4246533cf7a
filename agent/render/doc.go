// Package render turns a settings document, or the values of a lease, into the
// text that an application reads: JSON, YAML, environment variables, or what a
// template makes of it.
//
// Which function to call: [New] once for a target, [Renderer.Render] for every
// new content; [Environment] for a child's environment; [Secrets] for what must
// not show in the output of programs that are told about it.
//
// Guarantees. The same content gives the same bytes: templates have sprig's
// repeatable functions only, none that reads the clock, the environment, the
// network or a random source. A key that is missing is an error, never "<no
// value>". Numbers stay as they were written. No error holds a value.
//
// It opens no file and starts nothing. A Renderer may be used by many goroutines.
//
// How it is tested: golden texts, a shell that reads the environment back, and
// every error for the values in it.
package render
