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
//     ends the reading; what was found until then comes with it.)
//   - No error repeats a value that may be a secret: tokens, URLs, DSN
//     templates, nkeys, file paths.
//   - Durations and fractions are exact decimals ([events.Seconds]).
//   - Any input is read in time and memory proportional to its size, at most
//     [MaxFile], and none ends the process. 100,000 leases take about two
//     seconds.
//
// What it does not: it opens no file but the one it is asked to read, so a
// seal key or token file that is missing shows when it is used
// ([Config.Refuse] then says it in the same form). It writes nothing and
// watches nothing.
//
// Of YAML it reads block and flow mappings, lists, and scalars on one line,
// by a reader of its own. Anchors, aliases, merge keys, tags, complex keys,
// directives, texts over several lines and more than one document are refused:
// two ways to say one thing make a file hard to review, and an alias can make a
// small file a huge one. The reader of goccy/go-yaml is not used because it
// recurses for each key of a mapping, takes far more than linear time (0.05 s
// for 1,000 leases, 14 s for 40,000), some hundred bytes for each token, and
// stops at the first mistake. The tests hold
// the two against each other: what ours accepts, the other reads the same way.
//
// Concurrency: the functions can be called from anywhere; what they return is
// not changed by this package afterwards.
//
// Tests: testdata/*.yaml are bad files, each with the errors it must give in a
// .golden file beside it (go test -run TestBadInput -update rewrites them).
// The fuzz tests check that nothing panics, that every error has a position
// and that no secret shows; one reads everything with goccy/go-yaml
// too and compares. A test holds docs/configuration.md to what is really read.
package config
