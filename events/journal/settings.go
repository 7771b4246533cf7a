package journal

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
)

// DefaultStream is the stream's name unless configured otherwise.
const DefaultStream = "LEASESVC"

const (
	defaultMaxBytes = 1 << 30
	defaultAckWait  = 2 * time.Second
	// headerRoom is added to the largest event for its headers.
	headerRoom = 8 << 10
)

// Config says which stream the log is and how to treat it.
type Config struct {
	// Stream is its name; empty: [DefaultStream].
	Stream string
	// Replicas is 1, 3 or 5; 0: 1 when created, whatever it is otherwise.
	Replicas int
	// MaxBytes bounds the stream; 0: 1 GiB when created, any bound otherwise.
	MaxBytes int64
	// Create lets Open create the stream and set what may be set by an update.
	// Without it Open only checks.
	Create bool
	// ReadOnly is for auditors: Open takes the stream as it is, whatever its
	// settings; [Log.Check] still tells what is wrong with them.
	ReadOnly bool

	// AckWait is how long one publish or read waits for its answer; 0: 2 s.
	AckWait time.Duration
	// GiveUp is how long an append that nobody takes (no leader, no
	// connection) is tried before [ErrUnavailable]; 0: 2 s.
	GiveUp time.Duration
	// Stall is how long a replay waits for a next message; 0: 15 s, which is
	// longer than a cluster takes to elect a leader.
	Stall time.Duration
}

func (c Config) withDefaults() (Config, error) {
	c.Stream = cmp.Or(c.Stream, DefaultStream)
	c.AckWait = cmp.Or(c.AckWait, defaultAckWait)
	c.GiveUp = cmp.Or(c.GiveUp, 2*time.Second)
	c.Stall = cmp.Or(c.Stall, 15*time.Second)
	if strings.ContainsAny(c.Stream, ".*> \t/\\") {
		return c, fmt.Errorf("stream name %q: no dots, wildcards, slashes or spaces are allowed", c.Stream)
	}
	if c.Replicas < 0 || c.Replicas > 5 || c.MaxBytes < 0 || c.AckWait < 0 || c.GiveUp < 0 || c.Stall < 0 {
		return c, errors.New("journal configuration: replicas must be 0 to 5, sizes and times not negative")
	}
	return c, nil
}

// Settings gives the stream's configuration as [Open] creates it.
func Settings(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        cmp.Or(cfg.Stream, DefaultStream),
		Description: "leasesvc: every step of every lease. Only leasesvc publishes here.",
		Subjects:    []string{events.SubjectRoot + ".>"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Replicas:    max(cfg.Replicas, 1),
		// Full means refused: old events are never dropped for new ones.
		Discard:           jetstream.DiscardNew,
		MaxBytes:          cmp.Or(cfg.MaxBytes, defaultMaxBytes),
		MaxMsgs:           -1,
		MaxMsgsPerSubject: -1,
		MaxConsumers:      -1,
		MaxMsgSize:        events.MaxEncoded + headerRoom,
		// We send no message ids; whoever does shall not fill the memory.
		Duplicates:         time.Second,
		DenyDelete:         true,
		DenyPurge:          true,
		AllowAtomicPublish: true,
		// A hint that a lease was installed, without what it says.
		RePublish: &jetstream.RePublish{
			Source:      events.Subject("*", "*", events.TypeInstalled),
			Destination: "rotation.{{wildcard(1)}}.{{wildcard(2)}}",
			HeadersOnly: true,
		},
	}
}

// Difference is one setting of the stream that is not as it must be.
type Difference struct {
	Setting    string
	Have, Want string
	// Why says what would go wrong.
	Why string
}

// String gives the difference as one clause.
func (d Difference) String() string {
	return fmt.Sprintf("%s is %s and must be %s (%s)", d.Setting, d.Have, d.Want, d.Why)
}

// SettingsError names every setting that differs.
type SettingsError struct {
	Stream      string
	Differences []Difference
	// Update is why they could not be changed; nil when it was not tried or
	// they can't be.
	Update error
}

// Error implements error.
func (e *SettingsError) Error() string {
	parts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		parts[i] = d.String()
	}
	s := fmt.Sprintf("stream %s must not be used as it is: %s", e.Stream, strings.Join(parts, "; "))
	if e.Update != nil {
		s += fmt.Sprintf("; changing it: %v", e.Update)
	}
	return s + "; change it as the stream's administrator (see leasesvc nats-setup --print)"
}

// Is makes every SettingsError an [ErrSettings].
func (e *SettingsError) Is(target error) bool { return target == ErrSettings }

// Unwrap gives the error of the update.
func (e *SettingsError) Unwrap() error { return e.Update }

// actual is a stream's configuration as the server tells it, with what the
// client library does not know.
type actual struct {
	jetstream.StreamConfig
	allowBatched bool
}

// check names the settings of have that differ. With fix, what an update may
// change is changed in have as well.
func check(have *actual, cfg Config, fix bool) (diffs []Difference, fixable bool) {
	want := Settings(cfg)
	say := func(setting string, h, w any, why string) {
		diffs = append(diffs, Difference{setting, fmt.Sprint(h), fmt.Sprint(w), why})
	}
	set := func(setting string, h, w any, why string, change func()) {
		say(setting, h, w, why)
		if fix {
			change()
			fixable = true
		}
	}
	if len(have.Subjects) != 1 || have.Subjects[0] != want.Subjects[0] {
		say("subjects", have.Subjects, want.Subjects, "the log and nothing else")
	}
	if have.Retention != want.Retention {
		say("retention", have.Retention, want.Retention, "events would go when they are read")
	}
	if have.Storage != want.Storage {
		say("storage", have.Storage, want.Storage, "events would not survive a restart")
	}
	if have.Discard != want.Discard {
		say("discard", have.Discard, want.Discard, "a full stream would drop its oldest events")
	}
	if have.MaxMsgs > 0 {
		say("max_msgs", have.MaxMsgs, "unlimited", "only max_bytes may bound the log")
	}
	if have.MaxMsgsPerSubject > 0 {
		say("max_msgs_per_subject", have.MaxMsgsPerSubject, "unlimited", "older events of a lease would go")
	}
	if have.DiscardNewPerSubject {
		say("discard_new_per_subject", true, false, "appends would be refused by subject")
	}
	if have.MaxAge > 0 {
		say("max_age", have.MaxAge, "unlimited", "older events would go")
	}
	if have.NoAck {
		say("no_ack", true, false, "an append must be acknowledged")
	}
	if have.Sealed {
		say("sealed", true, false, "nothing can be appended")
	}
	if have.Mirror != nil || len(have.Sources) > 0 {
		say("mirror or sources", "set", "none", "only the fenced holder may add to the log")
	}
	if have.SubjectTransform != nil {
		say("subject_transform", "set", "none", "the fence hangs on the literal subject")
	}
	if have.AllowMsgSchedules {
		say("allow_msg_schedules", true, false, "a scheduled message passes the fence")
	}
	if have.AllowMsgTTL || have.SubjectDeleteMarkerTTL > 0 {
		say("allow_msg_ttl", true, false, "events would go")
	}
	if have.AllowMsgCounter {
		say("allow_msg_counter", true, false, "messages would be rewritten")
	}
	if have.allowBatched {
		say("allow_batched", true, false, "fast ingest is not atomic")
	}
	if have.PersistMode != jetstream.DefaultPersistMode {
		say("persist_mode", have.PersistMode, "default", "an append would be acknowledged before it is written")
	}
	if have.Duplicates > want.Duplicates {
		set("duplicate_window", have.Duplicates, want.Duplicates, "we send no message ids, and those of whoever does would fill the memory", func() { have.Duplicates = want.Duplicates })
	}
	if have.AllowRollup {
		set("allow_rollup_hdrs", true, false, "a message could remove all others", func() { have.AllowRollup = false })
	}
	if have.AllowDirect {
		set("allow_direct", true, false, "a replica that lags would answer reads that decide", func() { have.AllowDirect = false })
	}
	if !have.DenyDelete {
		set("deny_delete", false, true, "events could be deleted", func() { have.DenyDelete = true })
	}
	if !have.DenyPurge {
		set("deny_purge", false, true, "events could be purged", func() { have.DenyPurge = true })
	}
	if !have.AllowAtomicPublish {
		set("allow_atomic", false, true, "several events are appended as one batch", func() { have.AllowAtomicPublish = true })
	}
	if have.MaxMsgSize <= 0 || have.MaxMsgSize < want.MaxMsgSize {
		set("max_msg_size", have.MaxMsgSize, want.MaxMsgSize, "the largest event must fit, and it must be bounded", func() { have.MaxMsgSize = want.MaxMsgSize })
	}
	if cfg.MaxBytes > 0 && have.MaxBytes != cfg.MaxBytes {
		set("max_bytes", have.MaxBytes, cfg.MaxBytes, "as configured", func() { have.MaxBytes = cfg.MaxBytes })
	} else if have.MaxBytes <= 0 {
		set("max_bytes", "unlimited", "a bound", "a full disk stops more than the log", func() { have.MaxBytes = want.MaxBytes })
	}
	if cfg.Replicas > 0 && have.Replicas != cfg.Replicas {
		set("num_replicas", have.Replicas, cfg.Replicas, "as configured", func() { have.Replicas = cfg.Replicas })
	}
	if have.RePublish == nil || *have.RePublish != *want.RePublish {
		set("republish", republish(have.RePublish), republish(want.RePublish), "subscribers are told of rotations by it, without what an event says", func() { have.RePublish = want.RePublish })
	}
	return diffs, fixable
}

func republish(r *jetstream.RePublish) string {
	if r == nil {
		return "none"
	}
	s := r.Source + " to " + r.Destination
	if r.HeadersOnly {
		s += ", headers only"
	}
	return s
}
