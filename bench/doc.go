// Package bench measures leasesvc beside the raw engine: what the same work costs
// when NATS alone is used as well as we know how, in the same run, in turns, at
// the same durability and batch size.
//
//	make bench                        # everything, into bench/out/full.json (under 10 minutes)
//	make bench-short                  # append, replay, get, memory, into bench/out/short.json (a minute)
//	go test ./bench                   # a little of everything, to see that it runs; nothing is written
//	go test ./bench -v -bench.size full -run 'TestBench/append'
//
// It prints one table and writes it as a JSON array of objects: name, unit, ours,
// raw (null where there is no engine figure), ratio, target, holds, how. A row of
// the same name takes the old one's place, so parts can be measured again one by
// one, and other benchmarks can add theirs to the file.
//
// The figures are of the machine and of what else it does: server, service and
// client share its cores here, and but for what is measured of an instance itself
// (memory, idling: bench/instance) a process. Ratios hold better than figures. A target that is
// missed is reported and fails nothing; what must hold on any machine (nothing is
// lost, a get does not allocate) fails. What the figures say: docs/performance.md.
package bench
