// Package api is what operators ask a running service over NATS: the subjects,
// the messages, and a client for them. The protocol with consumers is another
// one (handover/wire).
//
// Each request goes to leasesvc.<operation>.<scope>[.<name>], so that NATS
// permissions on the subject decide who may. The holder of the scope answers;
// where nobody leads, the client says so. Messages are JSON, none holds a
// secret.
package api
