// Package metrics is what Prometheus scrapes: the names of all metrics
// ([Catalogue]), a registry of its own ([New]), the counters that are fed as
// events are applied ([Metrics.Applied] and its neighbours), and the gauges that
// are read from the service at each scrape ([Source]).
//
// # Guarantees
//
//   - Bounded cardinality. A label is a scope, a name of a definition, a Vault
//     connection, all from the configuration or the log and of at most 64 letters,
//     digits and hyphens; or a word of a closed list of this package: a failure
//     of a kind that is not on the list counts as "other". Series of names are
//     those of names that are there now, of scopes led here, and only while such
//     a scope has no more of them than [Options.PerLease]; the series of a removed
//     name are gone with the next scrape. No label and no value comes from a
//     path, an error's text, a lease id, a user name or an incarnation, so none
//     can hold a secret.
//   - Gauges say what is, by the log: they are right after a restart or a
//     takeover. Counters and histograms count what this process did and saw; a
//     restart begins them anew, as Prometheus expects.
//   - A scrape waits for no scope's goroutine and takes no lock that one of them
//     takes for longer than a counter's; it walks the views that readers use.
//
// # What it does not do
//
// It asks nobody: what needs a request (the stream's fill, say) the service reads
// at its own pace. Standbys have no series of names: the holder has them.
//
// # Concurrency
//
// Everything may be called by any goroutine.
//
// # Tests
//
// The pedantic registry over a full and an odd source, the documentation
// (docs/metrics.md) and the alert rules against [Catalogue], promtool over a real
// scrape; what the values are when things fail is tested in service.
package metrics
