package secrettest

import (
	"fmt"
	"os"
	"sync/atomic"
)

// run is the Watch of the whole run; nil: there is none.
var run atomic.Pointer[Watch]

// Runner is a *testing.M, or what another package's Main made of one.
type Runner = interface{ Run() int }

// Main wraps m so that what the tests keep is looked at after they ran. It is for
// TestMain, outside of what else runs or ends something:
//
//	func TestMain(m *testing.M) { os.Exit(secrettest.Main(m).Run()) }
func Main(m Runner) Runner { return looking{m} }

type looking struct{ m Runner }

// Run runs the tests and looks.
func (l looking) Run() int {
	dir, err := os.MkdirTemp("", "leasesvc-secrettest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "secrettest:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w := New(dir)
	run.Store(w)
	code := l.m.Run()
	run.Store(nil)
	r, err := w.Look()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	if r.Secrets == 0 {
		return code // no test that was chosen has any
	}
	fmt.Fprintln(os.Stderr, "I7, over the whole run:", r)
	for _, leak := range r.Leaks {
		fmt.Fprintln(os.Stderr, "I7:", leak)
		code = max(code, 1)
	}
	if code == 0 && r.Files == 0 {
		fmt.Fprintln(os.Stderr, "I7: nothing was looked at")
		code = 1
	}
	return code
}

// Secret is [Watch.Secret] of the run.
func Secret(what, value string) {
	if w := run.Load(); w != nil {
		w.Secret(what, value)
	}
}

// File is [Watch.File] of the run.
func File(path string) error {
	if w := run.Load(); w != nil {
		return w.File(path)
	}
	return nil
}

// Tree is [Watch.Tree] of the run.
func Tree(dir string) error {
	if w := run.Load(); w != nil {
		return w.Tree(dir)
	}
	return nil
}

// Print is [Watch.Print] of the run.
func Print(where string, text []byte) error {
	if w := run.Load(); w != nil {
		return w.Print(where, text)
	}
	return nil
}

// Answered is [Watch.Answered] of the run.
func Answered(path string, body []byte) {
	if w := run.Load(); w != nil {
		w.Answered(path, body)
	}
}

// Audited is [Watch.Audited] of the run.
func Audited(log []byte) {
	if w := run.Load(); w != nil {
		w.Audited(log)
	}
}
