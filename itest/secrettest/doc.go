// Package secrettest tells whether a secret left: it keeps every credential that
// was handed out during the run of a test binary, keeps all that the programs
// printed, NATS carried and HTTP answered, and looks for the ones in the other.
//
// Which function to call: [Main] in TestMain, around the package's own; then
// [Secret] for what must not be seen, [Answered] for what a Vault answers
// (devvault.Config.Answered), [Audited] for the audit log of a real one, [File],
// [Tree] and [Print] for what is looked at. Package proctest and the rigs do most of
// it by themselves. When the tests have run, one hit fails the run and names the
// secret's kind and the place, never the secret. A test that looks at its own life
// makes a [Watch] of its own.
//
// A secret is looked for as it is and as it would look if somebody had encoded it:
// quoted for JSON, Go, a URL or HTML, in hexadecimal, in base64 at any offset; a private key by its
// secret lines too. Compressed or encrypted bytes are not opened: what is sealed may
// hold what it likes.
//
// It guarantees that a file that was named is looked at as it was written in the end,
// though its test removes it: it is linked, not copied. It does not know what was
// never named: a run that names secrets and nothing to look at fails, but one that
// forgot half of it does not.
//
// Outside of a run of [Main] the functions do nothing.
//
// Concurrency: everything may be called from several goroutines.
//
// How it is tested: each form of a planted secret is found, and a text without any is
// not.
package secrettest
