// Package agent is a consumer for applications that know nothing of NATS: it keeps
// files and child processes on the credentials and settings documents of a scope,
// and takes part in hand-overs for them.
//
// Which function to call: [New], then [Agent.Run], or [Agent.Once] for an init
// container. docs/agent.md is the configuration.
//
// Guarantees. A candidate is written and the application told of it before the
// agent says yes; a target that can't be written or an application that says no is
// the agent's no, and what was there before comes back, with the application told
// again. Nothing is confirmed as long as an application was not told of what is in
// force: not after a crash of the agent in between either, which leaves a marker
// beside the file. What is the same is not written again, and nobody is told.
// Targets do not wait for each other: one that hangs or fails costs the leases that
// it shows and no others. No value is in a log line, an error, or an argument.
//
// It does not know whether an application that was told has moved: a hook that
// returns before it has needs a drain time. It keeps no credential on disk but in
// the files that it was told to write.
//
// Concurrency: an Agent runs once. Its goroutines end before Run returns; so do
// the applications that it runs.
//
// How it is tested: against a scripted holder and a service, with real files,
// hooks and applications (C31, C43, C44, C46, C48).
package agent
