package instance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/bench/instance"
)

func TestMain(m *testing.M) { os.Exit(instance.Main(m).Run()) }

// listener hears what a test would be told.
type listener struct {
	testing.TB
	said     strings.Builder
	cleanups []func()
}

// unheard ends a test that a listener hears.
type unheard struct{}

func (l *listener) Helper()          {}
func (l *listener) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }
func (l *listener) Fatalf(format string, args ...any) {
	fmt.Fprintf(&l.said, format, args...)
	panic(unheard{})
}
func (l *listener) Errorf(format string, args ...any) { fmt.Fprintf(&l.said, format, args...) }

// TestAnInstanceThatCannotStartSaysWhy, to the test that asks it.
func TestAnInstanceThatCannotStartSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leasesvc.yaml")
	if err := os.WriteFile(file, []byte("nats: {uri: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &listener{TB: t}
	func() {
		defer func() {
			if _, ended := recover().(unheard); !ended {
				t.Error("it answered")
			}
		}()
		instance.Start(l, file).Figures()
	}()
	for _, end := range l.cleanups {
		end()
	}
	if said := l.said.String(); !strings.Contains(said, "leasesvc.yaml:1:8") || !strings.Contains(said, "uri") {
		t.Errorf("it said: %s", said)
	}
}
