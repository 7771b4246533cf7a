// Package itest holds the tests on real servers: the program itself as a
// process of its own, a private PostgreSQL, NATS, devvault and, where there is
// one, a real OpenBao or Vault. What they need is installed by
// scripts/install-test-deps; what is missing fails them.
//
// A real server is taken from LEASESVC_TEST_BAO (the path of a bao or vault
// binary) or from the PATH; without one the tests say that they ran on devvault
// alone.
//
// Each test has servers of its own, so the tests run beside each other.
package itest
