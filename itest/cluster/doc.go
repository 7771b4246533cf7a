// Package cluster holds the tests on three nats-server processes and instances
// of leasesvc, which are killed at random moments: what was acknowledged stays,
// nothing stands twice, epochs grow, a deposed writer stores nothing, and the
// cells are linearizable.
//
// The usual run is a short one. The long ones, each by its flag (make
// cluster-long runs them all):
//
//	-cluster.kills 100        processes killed in TestKillsLoseNothing
//	-cluster.appends 1000     appends with lost answers in TestP4_LostAnswers
//	-cluster.stale 1000000    stale appends in TestI1_StaleAppends
//	-cluster.runs 30          seeded runs of TestCellsAreLinearizable
//	-cluster.seed N           seed of the first run, and of the kills
//
// go test ./itest/cluster -timeout 60m -cluster.kills 100 ...
package cluster
