// Package hook tells an application that its file has other content: by a
// command, a signal, or an HTTP request.
//
// Which function to call: [Hook.Run]. Nil is the application's yes; an error is
// its no.
//
// Guarantees. A run ends within the hook's time, with everything that a command
// started: its process group is killed. A command is a list of arguments and meets
// no shell unless [Hook.Shell] is set. Its output goes to the log without any of
// the values, at most [MaxOutput] bytes of it; its error names how it ended and
// nothing of the output. No value is in a command's arguments or environment.
//
// A signal goes to the process that a file names, or to those of a name (the
// topmost, where one is the other's child). Nobody there to be told is an error,
// unless the hook is optional.
//
// How it is tested: on real processes and an HTTP server, that hang, fail, print
// secrets and have children of their own.
package hook
