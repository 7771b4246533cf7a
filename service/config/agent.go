package config

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/leasesvc/leasesvc/events"
)

// Agent is an agent's file that was read and found right (docs/agent.md).
type Agent struct {
	// File is its name as it was given.
	File string
	// NATS says how to reach NATS; nothing but the connection is set.
	NATS NATS
	// Scope, Consumer and Instance say who the agent is; Instance may be empty.
	Scope, Consumer, Instance string
	// SeedFile has the consumer's seed, ServiceKey is pinned. Both may be empty
	// where Insecure.
	SeedFile, ServiceKey string
	// ServiceKeys are further keys that are pinned.
	ServiceKeys []string
	Insecure    bool
	Log         Log
	// Tracing is that of [Config].
	Tracing *Tracing
	// Refresh is how often documents are asked for and files looked at.
	Refresh events.Seconds
	// Targets by name, at least one.
	Targets map[string]Target

	places map[string]Position
}

// Target is one file or application of an agent.
type Target struct {
	// Document or Lease is what it shows.
	Document, Lease string
	// Format is json, yaml, env or template; Template or TemplateFile goes with
	// the last, Prefix with env.
	Format, Template, TemplateFile, Prefix string
	// Path is the file; empty where there is Exec.
	Path string
	Mode fs.FileMode
	// Owner and Group are names or numbers; empty: the agent's.
	Owner, Group string
	// Write is auto, atomic or in-place.
	Write string
	// Drain is how long after the application was told its old sessions last.
	Drain events.Seconds
	// Hook tells the application; nil: nobody is told.
	Hook *Hook
	// Exec runs it; nil: somebody else does.
	Exec *Exec
}

// Hook is how an application is told that its file changed: by one of Command,
// Shell, Signal and URL.
type Hook struct {
	Command []string
	Shell   string
	// Signal is a name without SIG; PIDFile or Process says to whom.
	Signal, PIDFile, Process string
	URL, Method              string
	Timeout                  events.Seconds
	Optional                 bool
}

// Exec is an application that the agent runs.
type Exec struct {
	Command []string
	// OnChange is restart or signal, the latter with Signal.
	OnChange, Signal string
	StopSignal       string
	StopTimeout      events.Seconds
	// ReadyAfter is how long it must run until a start counts as good.
	ReadyAfter events.Seconds
}

// LoadAgent reads an agent's file. What is wrong with it comes back as [*Errors].
func LoadAgent(file string) (*Agent, error) {
	src, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return ParseAgent(file, src)
}

// ParseAgent is [LoadAgent] for a file's content; file is its name in errors, and
// its directory is what relative paths count from.
func ParseAgent(file string, src []byte) (*Agent, error) {
	root, errs := parseTree(file, src)
	if root == nil {
		return nil, inFileOrder(errs)
	}
	d := &decoder{file: file, dir: filepath.Dir(file), errs: errs, places: map[string]Position{}}
	a := &Agent{
		File: file, Log: Log{Format: "text", Level: "info"}, Refresh: events.WholeSeconds(10), Targets: map[string]Target{}, places: d.places,
	}
	if root.kind == nothing {
		d.failAt(Position{1, 1}, "", "the file is empty; needed: nats, scope, consumer, targets (see docs/agent.md)")
	} else {
		a.shape().read(d, root, place{Position: Position{1, 1}})
	}
	if err := inFileOrder(d.errs); err != nil {
		return nil, err
	}
	return a, nil
}

// TargetNames gives the names of the targets, sorted.
func (a *Agent) TargetNames() []string { return slices.Sorted(maps.Keys(a.Targets)) }

// Refuse gives an error at a key of the file, as [Config.Refuse] does.
func (a *Agent) Refuse(key, format string, args ...any) error {
	return (&Config{File: a.File, places: a.places}).Refuse(key, format, args...)
}
