// Package child runs an application as a child process, with credentials in its
// environment.
//
// Which function to call: [Start] and [Process.Stop] for one run; [Supervise] for
// an application that is to run for ever and is restarted with another environment
// when its credentials change.
//
// Guarantees. The values are in the child's environment and nowhere else: not in
// its arguments, an error, or the log. A supervised application runs at most once
// at a time. One that ends by itself is started again, at a pace. A start counts as
// good when the process still runs after its ready time. Stopping asks first
// ([Spec.StopSignal]), kills the process group after [Spec.StopTimeout], and returns
// when nothing of it runs.
//
// It does not look at the application's output, which goes where the agent's goes,
// and cannot give a running process another environment.
//
// How it is tested: on real processes that end, hang, ignore signals and have
// children of their own.
package child
