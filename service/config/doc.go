// Package config reads the two files a person writes: the service file
// ([Load]) and the definitions file of a scope ([LoadDefinitions], or
// [Config.LoadDefinitions], which knows the service file's rules).
// docs/configuration.md has every key; [Example] gives one of each file.
//
// What it guarantees:
//
//   - A file is taken whole or not at all. Unknown keys, keys that stand twice
//     in a mapping, values of another type, out of range, or at odds with each
//     other are refused.
//   - Everything that is wrong comes back at once, as [*Errors]: file, line,
//     column, key, what is wrong, what is allowed. (A mistake in YAML's syntax
//     comes alone, and so do the parts of YAML that are not allowed: until
//     they are gone there is nothing to check.)
//   - No error repeats a value that may be a secret: tokens, URLs, DSN
//     templates, nkeys, file paths.
//   - Durations and fractions are exact decimals ([events.Seconds]).
//   - Any input is read in time and memory that are bounded: at most [MaxFile],
//     16 levels and 2 Mi keys, values and marks. 100,000 leases of four lines
//     take two to three seconds and 400 MB. No input ends the process.
//
// What it does not: it opens no file but the one it is asked to read, so a
// seal key or token file that is missing shows when it is used
// ([Config.Refuse] then says it in the same form). It writes nothing and
// watches nothing.
//
// YAML is read by go.yaml.in/yaml/v4 (docs/adr/0002-yaml-library.md has why),
// whose nodes become a tree of our own, with the positions. Anchors, aliases,
// merge keys, tags, keys that are no scalars, directives, texts with a line
// break in them and more than one document are refused: two ways to say one
// thing make a file hard to review, and an alias can make a small file a huge
// one. The library's messages are not passed on, because they can quote the
// file.
//
// Concurrency: the functions can be called from anywhere; what they return is
// not changed by this package afterwards.
//
// Tests: testdata/*.yaml are bad files, each with the errors it must give in a
// .golden file beside it (go test -run TestBadInput -update rewrites them).
// The fuzz tests check that nothing panics, that every error has a position,
// that no secret shows, and that every key and value stands where the tree says.
// A test holds docs/configuration.md to what is really read.
package config
