// Package table is what the benchmarks say in the end: rows of our figure, the raw
// engine's in the same run, their ratio, the target and whether it holds, and how
// it was taken; printed as a table and kept as a JSON array of objects.
//
// A target that is missed is reported and fails nothing, since figures are of the
// machine and of what else it does.
package table
