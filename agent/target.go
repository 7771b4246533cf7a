package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/agent/child"
	"github.com/leasesvc/leasesvc/agent/file"
	"github.com/leasesvc/leasesvc/agent/hook"
	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/service/config"
)

// target is one file or one application, and what it shows.
type target struct {
	name   string
	cfg    config.Target
	log    *slog.Logger
	client *consumer.Client

	renderer *render.Renderer // of a file
	file     file.File
	hook     *hook.Hook        // nil: nobody is told
	app      *child.Supervisor // nil: it is a file

	turn chan struct{} // one thing at a time
	// Of who has the turn:
	doc      *settings    // nil: not read yet
	shown    any          // what the application was told last, to hide it
	first    *file.Before // what was there before we wrote
	badRetry time.Time    // when a document that failed is tried again
	badPause time.Duration

	mu sync.Mutex
	// By lease, of all leases that the agent takes part in, also those that the
	// target does not show now: the candidates of hand-overs in flight, and what is
	// committed.
	candidates, current map[string]consumer.Credential
	used                map[string]bool // leases that it shows
	told                [sha256.Size]byte
	knows               bool      // the application was told of what told is the digest of
	since               time.Time // when
}

func (a *Agent) newTarget(name string, o Options) (*target, error) {
	cfg := o.Config.Targets[name]
	t := &target{
		name: name, cfg: cfg, log: a.log.With("target", name), client: o.Client, turn: make(chan struct{}, 1),
		candidates: map[string]consumer.Credential{}, current: map[string]consumer.Credential{}, used: map[string]bool{},
	}
	if cfg.Lease != "" {
		t.used[cfg.Lease] = true
	}
	key := "targets." + name
	if cfg.Exec != nil {
		t.app = child.Supervise(child.Spec{
			Command: cfg.Exec.Command, StopSignal: hook.Signals[cfg.Exec.StopSignal], StopTimeout: cfg.Exec.StopTimeout.Duration(),
			Ready: cfg.Exec.ReadyAfter.Duration(), Stdout: o.Stdout, Stderr: o.Stderr,
		}, t.log)
		return t, nil
	}
	spec := render.Spec{Format: render.Format(cfg.Format), Name: name, Text: cfg.Template, Prefix: cfg.Prefix}
	if cfg.TemplateFile != "" {
		text, err := os.ReadFile(cfg.TemplateFile)
		if err != nil {
			return nil, o.Config.Refuse(key+".template_file", "it can't be read: %v", cause(err))
		}
		spec.Text, spec.Name = string(text), filepath.Base(cfg.TemplateFile)
	}
	var err error
	if t.renderer, err = render.New(spec); err != nil {
		at := key + ".template"
		if cfg.TemplateFile != "" {
			at = key + ".template_file"
		}
		return nil, o.Config.Refuse(at, "%v", err)
	}
	t.file = file.File{Path: cfg.Path, Mode: cfg.Mode, How: file.How(cfg.Write)}
	if t.file.UID, err = userID(cfg.Owner); err != nil {
		return nil, o.Config.Refuse(key+".owner", "%v", err)
	}
	if t.file.GID, err = groupID(cfg.Group); err != nil {
		return nil, o.Config.Refuse(key+".group", "%v", err)
	}
	if h := cfg.Hook; h != nil {
		t.hook = &hook.Hook{
			Command: h.Command, Shell: h.Shell, Signal: hook.Signals[h.Signal], PIDFile: h.PIDFile, Process: h.Process,
			URL: h.URL, Method: h.Method, Timeout: h.Timeout.Duration(), Optional: h.Optional, Logger: t.log,
		}
	}
	return t, nil
}

// cause leaves the path out, which stands in front already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func userID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no user %s on this machine", name)
	}
	return strconv.Atoi(u.Uid)
}

func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no group %s on this machine", name)
	}
	return strconv.Atoi(g.Gid)
}

// close ends the application.
func (t *target) close() {
	if t.app != nil {
		t.app.Close()
	}
}

// sweep takes away what an agent that was killed left beside the file.
func (t *target) sweep() {
	if t.app != nil {
		return
	}
	if err := file.Sweep(t.file.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("what may be left of an earlier run was not looked for", "error", err)
	}
}

func (t *target) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the target's turn: %w", context.Cause(ctx))
	}
}

func (t *target) give() { <-t.turn }

// shows tells whether a lease's values are in what the target shows.
func (t *target) shows(lease string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used[lease]
}

func (t *target) leases() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.used {
		names = append(names, name)
	}
	return names
}

// drained gives when the sessions have ended that the application had before it
// was told.
func (t *target) drained(lease string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.used[lease] || !t.knows {
		return time.Time{}
	}
	return t.since.Add(t.cfg.Drain.Duration())
}

// prepare shows a candidate. What fails is put back before it is told.
func (t *target) prepare(ctx context.Context, lease string, c consumer.Credential) error {
	before, had := t.candidate(lease, c)
	if !t.shows(lease) {
		return nil // its turn is not waited for: it may be busy with a lease of its own
	}
	if err := t.take(ctx); err != nil {
		t.uncandidate(lease, before, had)
		return err
	}
	defer t.give()
	err := t.apply(ctx, "prepare")
	if errors.Is(err, errNotYet) {
		t.log.Info("yes without being shown: the target waits for something else, so nobody uses it", "lease", lease, "why", err)
		return nil
	}
	if err == nil {
		return nil
	}
	t.uncandidate(lease, before, had)
	t.goBack(ctx, "revert")
	return err
}

// candidate notes a lease's candidate and gives the one before.
func (t *target) candidate(lease string, c consumer.Credential) (before consumer.Credential, had bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, had = t.candidates[lease]
	t.candidates[lease] = c
	return before, had
}

func (t *target) uncandidate(lease string, before consumer.Credential, had bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.candidates, lease); had {
		t.candidates[lease] = before
	}
}

// settle notes what is committed.
func (t *target) settle(lease string, c consumer.Credential) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.candidates, lease)
	if t.current[lease] = c; c.None() {
		delete(t.current, lease)
	}
}

// follow shows what is committed, or that nothing is.
func (t *target) follow(ctx context.Context, lease string, c consumer.Credential, event string) error {
	t.settle(lease, c)
	if !t.shows(lease) {
		return nil
	}
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.give()
	err := t.apply(ctx, event)
	if !errors.Is(err, errNotYet) {
		return err
	}
	t.log.Info("nothing to show", "lease", lease, "why", err)
	if c.None() {
		return t.showNothing(ctx, event)
	}
	return nil
}

// backBudget is what going back may take beside the hook's own time: the time of
// what failed may be up.
const backBudget = 10 * time.Second

// goBack shows what was shown before a candidate or a revision that failed, and
// has the application told again (L21).
func (t *target) goBack(ctx context.Context, event string) {
	budget := backBudget
	if t.hook != nil {
		budget += t.hook.Timeout
	}
	if e := t.cfg.Exec; e != nil {
		budget += e.StopTimeout.Duration() + e.ReadyAfter.Duration()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	defer cancel()
	err := t.apply(ctx, event)
	if errors.Is(err, errNotYet) || errors.Is(err, render.ErrRender) {
		err = t.showNothing(ctx, event)
	}
	if err != nil {
		t.log.Error("what was shown before is not back, or the application was not told; it is tried again", "error", err)
	}
}

// showNothing puts back what was there before the target had anything to show.
func (t *target) showNothing(ctx context.Context, event string) error {
	if t.app != nil {
		return t.app.Stop(ctx)
	}
	if t.first == nil {
		return nil
	}
	t.setTold(nil)
	if err := t.file.Restore(*t.first); err != nil {
		return err
	}
	return t.tell(ctx, event)
}

// digest tells one content from another.
func digest(content []byte) [sha256.Size]byte { return sha256.Sum256(content) }

// setTold notes what the application was told of; nil: it is not known.
func (t *target) setTold(content []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if content == nil {
		t.knows = false
		return
	}
	if d := digest(content); !t.knows || d != t.told {
		t.told, t.knows, t.since = d, true, time.Now()
	}
}

func (t *target) wasTold(content []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.knows && t.told == digest(content)
}
