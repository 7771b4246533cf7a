package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is what kind of metric one is, in Prometheus' words.
type Type string

// The types that are used.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric is the description of one metric.
type Metric struct {
	Name   string
	Type   Type
	Labels []string
	Help   string

	desc *prometheus.Desc
}

// Catalogue lists all metrics of leasesvc's own, by name. Those of Go's runtime
// and of the process come beside them.
func Catalogue() []*Metric {
	return slices.SortedFunc(slices.Values(catalogue), func(a, b *Metric) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

var catalogue []*Metric

func define(t Type, name, help string, labels ...string) *Metric {
	m := &Metric{Name: "leasesvc_" + name, Type: t, Labels: labels, Help: help}
	m.desc = prometheus.NewDesc(m.Name, help, labels, nil)
	catalogue = append(catalogue, m)
	return m
}

// Of the instance.
var (
	buildInfo = define(Gauge, "build_info", "Always 1; the labels say what runs.", "version", "go_version")
	insecure  = define(Gauge, "insecure_consumers", "1: insecure_consumers is set, so whoever reaches NATS may register as a consumer.")

	natsConnected  = define(Gauge, "nats_connected", "1: the connection to NATS is up.")
	natsReconnects = define(Counter, "nats_reconnects_total", "How often the connection to NATS came back.")
	natsRefused    = define(Gauge, "nats_credentials_refused", "1: NATS refuses our credentials for the bucket of epochs.")

	logBytes     = define(Gauge, "log_stream_bytes", "Size of the log's stream; like the other leasesvc_log_stream metrics read every 15 s, and absent when that failed for a minute.")
	logLimit     = define(Gauge, "log_stream_limit_bytes", "The stream's limit; absent: it has none.")
	logFill      = define(Gauge, "log_stream_fill_ratio", "Size by limit. From 0.8 on no new definitions are taken, from 0.9 on nothing is rotated.")
	logMessages  = define(Gauge, "log_stream_messages", "Messages in the log's stream.")
	logLast      = define(Gauge, "log_stream_last_sequence", "Sequence of the stream's last message.")
	logFollowed  = define(Gauge, "log_followed_sequence", "Sequence of the last message that this instance has read as a follower.")
	logUnknown   = define(Counter, "log_foreign_subjects_total", "Messages in the log's stream under subjects of no scope: somebody else wrote them.")
	renewed      = define(Gauge, "holder_last_renewal_timestamp_seconds", "When the last heartbeat that got through was sent; 0: none.")
	renewals     = define(Counter, "holder_renewals_total", "Heartbeats that got through.")
	adopted      = define(Counter, "holder_renewals_adopted_total", "Heartbeats whose lost answer was found by a read.")
	claims       = define(Counter, "holder_claims_total", "Scope cells taken.")
	lostRaces    = define(Counter, "holder_lost_races_total", "Claims that another instance won.")
	deposals     = define(Counter, "holder_deposals_total", "Other holders that this instance deposed, by what told it that they are dead.", "by")
	deposed      = define(Counter, "holder_deposed_total", "How often this instance was deposed by another.")
	loopStuck    = define(Gauge, "loop_stuck", "1: a loop of this process has been at one step for so long that /livez fails.")
	seriesInline = define(Gauge, "per_lease_limit", "Scopes with more names than this have no series of single names (metrics.per_lease).")
)

// Of a Vault connection.
var (
	vaultRequests = define(Counter, "vault_requests_total", "Requests that went out, repetitions and redirects included.", "connection")
	vaultCalls    = define(Counter, "vault_calls_total", "Calls that ended, by what was asked and how it ended: ok, or a kind of failure.", "connection", "operation", "result")
	vaultHeld     = define(Counter, "vault_held_total", "Calls that were not sent, since the server is out or asked for a pause, or their time ended before their turn.", "connection")
	vaultOutages  = define(Counter, "vault_outages_total", "How often the server went out.", "connection")
	vaultProbes   = define(Counter, "vault_probes_total", "Calls that found out whether it is back.", "connection")
	vaultSuspect  = define(Counter, "vault_suspect_durations_total", "Durations in its answers that made no sense.", "connection")
	vaultWarnings = define(Counter, "vault_warnings_total", "Warnings in its answers.", "connection")
	vaultOut      = define(Gauge, "vault_out", "1: the server can't be reached or does not serve; only probes are sent.", "connection")
	vaultPaused   = define(Gauge, "vault_paused", "1: the server refuses our credentials.", "connection")
	vaultQuota    = define(Gauge, "vault_quota_paused", "1: the server asked for a pause (429).", "connection")
	vaultLoggedIn = define(Gauge, "vault_logged_in", "1: there is a token to ask with.", "connection")
	vaultToken    = define(Gauge, "vault_token_expiry_timestamp_seconds", "When our own token ends unless it is renewed; absent: never, or there is none.", "connection")
	vaultGuarded  = define(Gauge, "vault_guarded", "1: credentials are acquired under guards. 0: a crash can leave one behind until its TTL ends.", "connection")
	vaultFaults   = define(Gauge, "vault_guard_faults", "What is wrong with the guards that are made; leasesvc doctor says what.", "connection")
	vaultWaiting  = define(Gauge, "vault_queue_length", "Calls that wait for their turn.", "connection")
	vaultInFlight = define(Gauge, "vault_in_flight", "Calls that are being made.", "connection")
)

// Of a scope, on every instance that leads it or stands by for it.
var (
	leading      = define(Gauge, "scope_leading", "1: this instance leads the scope; 0: it stands by.", "scope")
	ready        = define(Gauge, "scope_ready", "1: the scope is led here, or followed so that it could be led here at once (as /readyz tells).", "scope")
	blocked      = define(Gauge, "scope_blocked", "1: this instance does not claim the scope, since something is wrong; /readyz and the log say what.", "scope")
	epoch        = define(Gauge, "scope_epoch", "The scope's epoch as this instance knows it.", "scope")
	foreign      = define(Counter, "scope_foreign_messages_total", "Messages in the scope's log that do not count: not ours, of an epoch that was over, or without a MAC that holds.", "scope")
	takeovers    = define(Counter, "scope_takeovers_total", "Epochs that this instance opened, by how the scope was taken.", "scope", "how")
	gap          = define(Histogram, "scope_failover_gap_seconds", "From the last sign of the holder before, as far as the log or its heartbeat shows it, to our epoch being open.", "scope", "how")
	refusals     = define(Counter, "scope_fence_refusals_total", "How often this instance was fenced from the scope: by a refused append, or because its heartbeat was refused.", "scope", "by")
	ended        = define(Counter, "scope_terms_ended_total", "How often this instance stopped leading the scope, and why.", "scope", "why")
	standbyReads = define(Counter, "scope_standby_reads_total", "Reads that this instance answered as a standby, or could not yet.", "scope", "outcome")
	applied      = define(Counter, "scope_events_total", "Events of ours that were applied, by type.", "scope", "type")
	failures     = define(Counter, "scope_failures_total", "Failures by what was attempted and the kind of failure.", "scope", "action", "kind")
	handovers    = define(Histogram, "scope_handover_duration_seconds", "Hand-overs, from the first question to their end: committed, rolled-back, or kept (rolled back without everybody's word).", "scope", "outcome")
	snapshots    = define(Counter, "scope_snapshots_total", "Snapshots by how storing them ended.", "scope", "outcome")
	snapshotAt   = define(Gauge, "scope_snapshot_timestamp_seconds", "When this process stored its last snapshot of the scope; absent: none yet.", "scope")
)

// Of a scope that this instance leads.
var (
	since       = define(Gauge, "scope_epoch_start_timestamp_seconds", "When the epoch was opened.", "scope")
	names       = define(Gauge, "scope_names", "Names, by whether they have a committed credential that has not expired.", "scope", "state")
	failing     = define(Gauge, "scope_names_failing", "Names whose last acquisition, renewal or revocation failed and is to be tried again.", "scope")
	overdue     = define(Gauge, "scope_names_overdue", "Names whose credential should have been renewed or replaced: more than half of the time between when that was due and its end has gone.", "scope")
	earliest    = define(Gauge, "scope_earliest_expiry_timestamp_seconds", "The end of the committed credential that ends first; absent: none expires.", "scope")
	leases      = define(Gauge, "scope_leases", "Leases by what they are to their name; retired and revoking are the queue of revocations.", "scope", "state")
	inFlight    = define(Gauge, "scope_handovers_in_flight", "Hand-overs that are neither committed nor rolled back.", "scope")
	incarnation = define(Gauge, "scope_consumers", "Registered instances of consumers, by whether they have confirmed what is in force.", "scope", "state")
	absent      = define(Gauge, "scope_consumers_absent", "Consumers that a definition requires and of which no instance is registered.", "scope")
	queue       = define(Gauge, "scope_command_queue_length", "Commands that wait for the scope's goroutine; from 4096 on callers are told busy.", "scope")
	waiting     = define(Gauge, "scope_names_due", "Names that wait to be looked at now.", "scope")
	working     = define(Gauge, "scope_work_in_flight", "Effects that run or wait for their turn at Vault or a consumer, by kind.", "scope", "work")
	unsaved     = define(Gauge, "scope_events_since_snapshot", "Events that a start would have to read from the log after the last snapshot.", "scope")
	stalled     = define(Gauge, "scope_append_failing", "1: the log takes nothing from this scope now, so nothing is begun.", "scope")
)

// Of a name, while its scope is led here and has no more names than the limit.
var (
	leaseExpiry   = define(Gauge, "lease_expiry_timestamp_seconds", "When the committed credential ends; absent: it does not, or there is none.", "scope", "name")
	leaseUsable   = define(Gauge, "lease_usable", "1: there is a committed credential that has not expired.", "scope", "name")
	leaseSuccess  = define(Gauge, "lease_last_success_timestamp_seconds", "When Vault last granted the committed credential, by issue or renewal; absent: there is none.", "scope", "name")
	leaseDue      = define(Gauge, "lease_renewal_due_timestamp_seconds", "When the committed credential is to be renewed or replaced; absent: it does not expire.", "scope", "name")
	leaseNext     = define(Gauge, "lease_next_attempt_timestamp_seconds", "When the name is looked at next even if nothing happens: a renewal, a retry, a poll, the end of a wait; absent: never.", "scope", "name")
	leaseFailed   = define(Gauge, "lease_failed_attempts", "How often what is attempted now has failed in a row; it stops counting at 7.", "scope", "name")
	leaseFailures = define(Counter, "lease_failures_total", "Failures of the name in this instance's term by what was attempted and the kind of failure.", "scope", "name", "action", "kind")
	leaseAbsent   = define(Gauge, "lease_consumers_absent", "Consumers that the definition requires and of which no instance is registered.", "scope", "name")
	leaseBehind   = define(Gauge, "lease_consumers_behind", "Registered instances of consumers that have not confirmed what is in force.", "scope", "name")
)
