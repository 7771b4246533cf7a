package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/leasesvc/leasesvc/agent/file"
	"github.com/leasesvc/leasesvc/agent/hook"
	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/tracing"
)

const tracerName = "github.com/leasesvc/leasesvc/agent"

// apply shows what is to be shown now: the candidates of hand-overs in flight, and
// else what is committed. [errNotYet]: something is missing for it. Called with the
// turn.
func (t *target) apply(ctx context.Context, event string) error {
	content, err := t.content()
	if err != nil {
		return err
	}
	before := t.shown
	t.shown = content
	if t.app != nil {
		err = t.run(ctx, content)
	} else {
		err = t.write(ctx, content, before, event)
	}
	return err
}

// run has the application run with content in its environment.
func (t *target) run(ctx context.Context, content any) error {
	variables, err := render.Environment(content, t.cfg.Prefix)
	if err != nil {
		return err
	}
	now, running := t.app.Running()
	if running && slices.Equal(now, variables) {
		t.setTold([]byte{})
		return nil
	}
	if running && t.cfg.Exec.OnChange == "signal" {
		// What it reads anew is another target's file; its environment stays.
		t.setTold(nil)
		if err := t.app.Send(hook.Signals[t.cfg.Exec.Signal], variables); err != nil {
			return err
		}
		t.setTold([]byte{})
		return nil
	}
	t.setTold(nil)
	ctx, restart := tracing.Start(ctx, tracerName, "restart", tracing.TargetKey.String(t.name))
	err = t.app.Become(ctx, variables)
	restart.End(err)
	if err != nil {
		return err
	}
	t.setTold([]byte{})
	return nil
}

// write writes the file, and tells the application if it has not been told of that
// very content.
func (t *target) write(ctx context.Context, content, before any, event string) error {
	_, rendering := tracing.Start(ctx, tracerName, "render", tracing.TargetKey.String(t.name))
	out, err := t.renderer.Render(content)
	rendering.End(err)
	if err != nil {
		return err
	}
	was, err := file.Look(t.file.Path)
	if err != nil {
		return err
	}
	if t.first == nil {
		t.first = &was
	}
	owed := t.hook != nil && t.owes()
	if was.Has(out) && !owed {
		if _, err := t.file.Write(out); err != nil { // owner and mode
			return err
		}
		t.setTold(out)
		return nil
	}
	told := t.wasTold(out) && !was.Exists // deleted by somebody, after it was read
	if !told && t.hook != nil {
		// Before the file, so that a crash in between is made good for.
		if err := t.owe(true); err != nil {
			t.log.Warn("no marker beside the file: a crash before the application is told would not be noticed", "error", err)
		}
	}
	_, writing := tracing.Start(ctx, tracerName, "write", tracing.TargetKey.String(t.name))
	wrote, err := t.file.Write(out)
	writing.End(err)
	if err != nil {
		if !owed {
			t.clear()
		}
		return err
	}
	if wrote {
		t.log.Info("written", "file", t.file.Path, "event", event)
	}
	if told {
		return nil
	}
	if err := t.tellOf(ctx, event, render.Secrets(content, before)); err != nil {
		return err
	}
	t.setTold(out)
	return nil
}

// tell tells the application that its file changed.
func (t *target) tell(ctx context.Context, event string) error {
	return t.tellOf(ctx, event, render.Secrets(t.shown))
}

func (t *target) tellOf(ctx context.Context, event string, hidden render.Hidden) error {
	if t.hook == nil {
		return nil
	}
	t.setTold(nil)
	ctx, telling := tracing.Start(ctx, tracerName, "hook", tracing.TargetKey.String(t.name))
	err := t.hook.Run(ctx, hook.Occasion{Target: t.name, File: t.file.Path, Event: event, Hidden: hidden, Traceparent: tracing.Traceparent(ctx)})
	telling.End(err)
	if err != nil {
		return err
	}
	t.clear()
	return nil
}

// marker is a file that says that the application was not told of the content yet.
func (t *target) marker() string {
	return filepath.Join(filepath.Dir(t.file.Path), "."+filepath.Base(t.file.Path)+".hook-owed")
}

func (t *target) owes() bool {
	_, err := os.Lstat(t.marker())
	return err == nil
}

func (t *target) owe(on bool) error {
	if !on {
		err := os.Remove(t.marker())
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	f, err := os.OpenFile(t.marker(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (t *target) clear() {
	if err := t.owe(false); err != nil && !errors.Is(err, fs.ErrPermission) {
		t.log.Warn("the marker beside the file was not taken away; the application is told once more at the next start", "error", err)
	}
}

// errNotYet says that something is missing before the target can show anything.
var errNotYet = errors.New("it is not there yet")

func notYet(what string) error { return fmt.Errorf("%s: %w", what, errNotYet) }
