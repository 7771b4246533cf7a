package itest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/leasesvc/leasesvc/itest/secrettest"
)

// carried keeps all that a NATS server is sent and delivers: its trace. (A
// subscriber of everything would be somebody who answers, where there must be
// nobody.)
type carried struct {
	path string
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
}

func (k *carried) Tracef(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file != nil {
		fmt.Fprintf(k.w, format+"\n", args...)
	}
}
func (*carried) Noticef(string, ...any) {}
func (*carried) Warnf(string, ...any)   {}
func (*carried) Errorf(string, ...any)  {}
func (*carried) Fatalf(string, ...any)  {}
func (*carried) Debugf(string, ...any)  {}

// flush writes what it has; with end set, that was all.
func (k *carried) flush(end bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.w.Flush()
	if end {
		err = errors.Join(err, k.file.Close())
		k.file = nil
	}
	return err
}

// watch has all that NATS carries and stores, and what instances keep in their state
// directories, looked at for secrets at the end of the run. What they print is by
// itself.
func (r *rig) watch() {
	r.t.Helper()
	k := &carried{path: filepath.Join(r.dir, "traffic")}
	var err error
	if k.file, err = os.OpenFile(k.path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		r.t.Fatal(err)
	}
	k.w = bufio.NewWriterSize(k.file, 1<<16)
	r.traffic = k
	r.nats.Embedded().SetLoggerV2(k, false, true, false)
	if err := secrettest.File(k.path); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { // after the instances have ended, before NATS does
		err := k.flush(true)
		for _, dir := range append(r.states(), r.store) {
			err = errors.Join(err, secrettest.Tree(dir))
		}
		if err != nil {
			r.t.Errorf("keeping what there is to look at: %v", err)
		}
	})
}

// states are the instances' state directories.
func (r *rig) states() []string {
	dirs, err := filepath.Glob(filepath.Join(r.dir, "state-*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return dirs
}

// printed has what a command printed looked at, too.
func (r *rig) printed(command string, out []byte) {
	r.t.Helper()
	if err := secrettest.Print(command, out); err != nil {
		r.t.Error(err)
	}
}

// noSecretAnywhere looks for every secret of the rig in all that was carried and
// stored by NATS, and printed and kept by the instances.
func (r *rig) noSecretAnywhere() {
	r.t.Helper()
	w := secrettest.New(r.t.TempDir())
	r.mu.Lock()
	for value, what := range r.secrets {
		w.Secret(what, value)
	}
	r.mu.Unlock()
	r.show(w)
	report, err := w.Look()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, leak := range report.Leaks {
		r.t.Errorf("I7: %s", leak)
	}
	if report.Bytes < 10_000 || report.Secrets < 5 {
		r.t.Errorf("too little was looked at: %s", report)
	}
	r.t.Log(report)
}

// show gives a Watch all that there is to look at.
func (r *rig) show(w *secrettest.Watch) {
	r.t.Helper()
	logs, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		r.t.Fatalf("no output to look at: %v", err)
	}
	if err := r.traffic.flush(false); err != nil {
		r.t.Fatal(err)
	}
	for _, file := range append(logs, r.traffic.path) {
		if err := w.File(file); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, dir := range append(r.states(), r.store) {
		if err := w.Tree(dir); err != nil {
			r.t.Fatal(err)
		}
	}
}
