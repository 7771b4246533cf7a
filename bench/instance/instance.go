package instance

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// patience bounds the end of an instance.
const patience = 3 * time.Minute

// Figures is what an instance tells of itself.
type Figures struct {
	// Heap is what its heap holds after a collection, in bytes, without the floor that
	// the program gives it; 0: it was not asked to collect.
	Heap uint64 `json:"heap,omitempty"`
	// CPU is the processor time that the process has used so far, of all threads.
	CPU time.Duration `json:"cpu"`
	// Led is how many of its scopes it leads.
	Led int `json:"led"`
	// Events is how many events it has seen in the log since it started, by type.
	Events map[events.Type]int `json:"events"`
}

// Instance is a child of this process.
type Instance struct {
	t   testing.TB
	cmd *exec.Cmd
	log string // the file that has what it says

	mu      sync.Mutex
	in      io.WriteCloser
	ask     *json.Encoder
	answers *json.Decoder
	ended   bool
}

// Start runs an instance with a service file, until the test ends or
// [Instance.Stop].
func Start(t testing.TB, file string) *Instance {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := &Instance{t: t, cmd: exec.CommandContext(context.Background(), self), log: filepath.Join(filepath.Dir(file), "instance.log")}
	i.cmd.Env = append(os.Environ(), configFile+"="+file)
	said, err := os.Create(i.log)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close() // the child has its own descriptor
	i.cmd.Stderr = said
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if i.in, err = i.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i.ask, i.answers = json.NewEncoder(i.in), json.NewDecoder(out)
	t.Cleanup(i.Stop)
	return i
}

// Figures gives what the instance tells of itself now.
func (i *Instance) Figures() Figures {
	i.t.Helper()
	return i.figures(question{})
}

// Heap has the instance collect its garbage, and gives what is left on its heap, in
// bytes.
func (i *Instance) Heap() float64 {
	i.t.Helper()
	return float64(i.figures(question{Collect: true}).Heap)
}

// Await waits until the instance has seen so many events of a type, or the time is up,
// and gives how many it has seen.
func (i *Instance) Await(typ events.Type, count int, within time.Duration) int {
	i.t.Helper()
	return i.figures(question{Type: typ, Count: count, Within: within}).Events[typ]
}

// Busy gives which part of a core the instance uses over a time, in percent.
func (i *Instance) Busy(d time.Duration) float64 {
	i.t.Helper()
	before, begin := i.Figures().CPU, time.Now()
	<-time.After(d)
	return 100 * float64(i.Figures().CPU-before) / float64(time.Since(begin))
}

func (i *Instance) figures(q question) (f Figures) {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	err := i.ask.Encode(q)
	if err == nil {
		err = i.answers.Decode(&f)
	}
	if err != nil {
		i.t.Fatalf("the instance does not answer: %v; it said: %s", err, i.said())
	}
	return f
}

// Stop ends the instance in order. It may be called again.
func (i *Instance) Stop() {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return
	}
	i.ended = true
	_ = i.in.Close() // of a pipe, whose reader may be gone
	late := time.AfterFunc(patience, func() { _ = i.cmd.Process.Kill() })
	defer late.Stop()
	if err := i.cmd.Wait(); err != nil {
		i.t.Errorf("the instance ended with %v; it said: %s", err, i.said())
	}
}

func (i *Instance) said() string {
	b, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
