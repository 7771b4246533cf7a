// Package deploy has what leasesvc is run with: the files of docker-compose.yml
// and the units of systemd. Its tests hold them together and against the servers
// that read them, as far as that goes without containers:
//
//   - docker-compose.yml is right by the schema of the Compose Specification, and
//     what it names is there;
//   - Dockerfile's images are from scratch, for a user without rights, and what they
//     run is a static program;
//   - the units are what systemd-analyze accepts, and how exposed they are is bounded;
//   - the servers' own parsers read their configurations, and leasesvc its own;
//   - where there is an OpenBao (LEASESVC_TEST_BAO, or bao on the PATH) the scripts and
//     the demo run with it and real servers, as the compose file runs them.
package deploy
