// Package otlptest is a collector for tests: it takes traces by OTLP on loopback,
// over HTTP or gRPC, or refuses them, or hangs.
//
// Which function to call: [Collector.Start]. Safe for concurrent use; what it
// starts ends with the test. Tested by the tests of package otlp.
package otlptest
