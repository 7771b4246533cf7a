package epochkv

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Files of a state directory.
const (
	lockFile  = "lock"
	stateFile = "incarnation.json"
)

// observation is a token and how many observations after the first sight
// found it unmoved (E3, E4).
type observation struct {
	Token      string    `json:"token"`
	QuietPolls int       `json:"quiet_polls"`
	At         time.Time `json:"at"` // of the last one that counted, or of the first sight
}

// observationAge is after which an observation that nobody continued is
// dropped, so that holders that are gone don't pile up in the file.
const observationAge = 10 * time.Minute

// persisted is what survives a process (E4).
type persisted struct {
	Format        int                    `json:"format"`
	Holder        string                 `json:"holder"`
	Bucket        string                 `json:"bucket,omitempty"`
	BucketCreated time.Time              `json:"bucket_created,omitzero"` // revisions of another bucket mean nothing
	Epochs        map[string]uint64      `json:"epochs"`                  // scope: the epoch whose opening is in the log
	Observed      map[string]observation `json:"observed"`                // key of a cell: what was seen of it
}

const stateFormat = 1

// StateDir is the directory that makes a restarted process the same holder.
// It is locked from OpenStateDir to Close (E5).
type StateDir struct {
	path string
	lock *os.File

	mu    sync.Mutex
	state persisted
	dirty bool
	wrote time.Time
}

// OpenStateDir locks path, creating it when it is not there, reads what a
// process before left, or mints and persists a holder id (E4). ErrLocked when
// a living process has it.
func OpenStateDir(path string) (*StateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating state directory: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &StateDir{path: path, lock: lock}
	if err := d.read(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func lockDir(path string) (*os.File, error) {
	name := filepath.Join(path, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of state directory %s: %w", path, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		who, _ := os.ReadFile(name)
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w by process %s: one process per state directory; stop it or give this one a directory of its own",
			path, ErrLocked, strings.TrimSpace(string(who)))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking state directory %s: %w", path, err)
	}
	// Who holds it is for people; the lock itself is the kernel's.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}

func (d *StateDir) read() error {
	name := filepath.Join(d.path, stateFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		d.state = persisted{Format: stateFormat, Holder: newID(), Epochs: map[string]uint64{}, Observed: map[string]observation{}}
		d.dirty = true
		return d.flush(time.Now())
	}
	if err != nil {
		return fmt.Errorf("reading the incarnation: %w", err)
	}
	var s persisted
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not readable: %w: move it away to start as a stranger, who waits the quiet polls", name, err)
	}
	if s.Format != stateFormat || scopeName.FindString(s.Holder) == "" {
		return fmt.Errorf("%s has format %d, holder %q; this version reads format %d: use the version that wrote it, "+
			"or move it away to start as a stranger, who waits the quiet polls", name, s.Format, s.Holder, stateFormat)
	}
	if s.Epochs == nil {
		s.Epochs = map[string]uint64{}
	}
	if s.Observed == nil {
		s.Observed = map[string]observation{}
	}
	d.state = s
	return nil
}

// Holder is the holder id: minted once per directory.
func (d *StateDir) Holder() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Holder
}

// Path is the directory.
func (d *StateDir) Path() string { return d.path }

// Close writes what is not yet written and releases the lock.
func (d *StateDir) Close() error {
	err := d.flush(time.Now())
	if cerr := d.lock.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("releasing the lock of state directory %s: %w", d.path, cerr))
	}
	return err
}

// bindBucket forgets epochs and observations of another bucket, or of the
// same one before it was recreated: its revisions start again.
func (d *StateDir) bindBucket(bucket string, created time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Bucket == bucket && d.state.BucketCreated.Equal(created) {
		return
	}
	d.state.Bucket, d.state.BucketCreated = bucket, created
	d.state.Epochs, d.state.Observed = map[string]uint64{}, map[string]observation{}
	d.dirty = true
}

func (d *StateDir) epoch(scope string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Epochs[scope]
}

// setEpoch notes an opened epoch; 0 forgets the scope.
func (d *StateDir) setEpoch(scope string, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state.Epochs[scope] == epoch:
	case epoch == 0:
		delete(d.state.Epochs, scope)
		d.dirty = true
	default:
		d.state.Epochs[scope] = epoch
		d.dirty = true
	}
}

func (d *StateDir) observed(key string) observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Observed[key]
}

// observe keeps an observation. The first sight of a token is not worth a
// write (E4): a process that reads the older one starts from zero as well.
func (d *StateDir) observe(key string, o observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o == d.state.Observed[key] {
		return
	}
	d.state.Observed[key] = o
	d.dirty = d.dirty || o.QuietPolls > 0
}

// forget starts an observation from zero and has that persisted (E6).
func (d *StateDir) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.state.Observed[key]; there {
		delete(d.state.Observed, key)
		d.dirty = true
	}
}

// flushAfter writes what changed unless the last write was less than pace ago.
func (d *StateDir) flushAfter(now time.Time, pace time.Duration) error {
	d.mu.Lock()
	due := d.dirty && now.Sub(d.wrote) >= pace
	d.mu.Unlock()
	if !due {
		return nil
	}
	return d.flush(now)
}

// flush writes what changed: temporary file, fsync, rename, fsync of the
// directory.
func (d *StateDir) flush(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dirty {
		return nil
	}
	maps.DeleteFunc(d.state.Observed, func(_ string, o observation) bool { return now.Sub(o.At) > observationAge })
	b, err := json.Marshal(d.state)
	if err != nil {
		return fmt.Errorf("encoding the incarnation: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(d.path, stateFile), b, 0o600, renameio.WithTempDir(d.path)); err != nil {
		return fmt.Errorf("writing the incarnation to state directory %s: %w", d.path, err)
	}
	dir, err := os.Open(d.path)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the incarnation to state directory %s: %w", d.path, err)
	}
	d.dirty, d.wrote = false, now
	return nil
}
