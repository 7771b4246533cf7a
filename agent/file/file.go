package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// How is the way a file is written.
type How string

// The ways.
const (
	Auto    How = "auto"     // atomically; in place where the target is a mount point
	Atomic  How = "atomic"   // atomically or not at all
	InPlace How = "in-place" // for files whose directory can't be written
)

// File is a file that is to be written.
type File struct {
	Path string
	Mode fs.FileMode
	// UID and GID are the owner and group; -1: whoever writes, or who has it.
	UID, GID int
	How      How
}

// MaxBytes bounds what is read of a file that is there.
const MaxBytes = 64 << 20

// ErrNotAFile says that something else than a regular file has the name.
var ErrNotAFile = errors.New("it is no regular file")

// maxLinks is how many symbolic links are followed.
const maxLinks = 40

// resolve follows symbolic links at the end of the path, to where there may be
// nothing yet.
func resolve(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				return "", fmt.Errorf("%s: %w", path, ErrNotAFile)
			}
			return path, nil
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// Before is what a file was. It prints without its content.
type Before struct {
	// Exists tells whether there was a file.
	Exists  bool
	content []byte
	mode    fs.FileMode
	uid     int
	gid     int
}

// Format implements fmt.Formatter: every verb gives how large it was.
func (b Before) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "a file of %d bytes", len(b.content)) }

// Has tells whether the file had that content.
func (b Before) Has(content []byte) bool { return b.Exists && bytes.Equal(b.content, content) }

// Look reads what is there now.
func Look(path string) (Before, error) {
	target, err := resolve(path)
	if err != nil {
		return Before{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	b, err := look(target)
	if err != nil {
		return Before{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	return b, nil
}

func look(target string) (Before, error) {
	f, err := os.OpenFile(target, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Before{}, nil
	}
	if err != nil {
		return Before{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Before{}, err
	}
	if !info.Mode().IsRegular() {
		return Before{}, ErrNotAFile
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxBytes))
	if err != nil {
		return Before{}, err
	}
	b := Before{Exists: true, content: content, mode: info.Mode().Perm(), uid: -1, gid: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		b.uid, b.gid = int(st.Uid), int(st.Gid)
	}
	return b, nil
}

// Write puts content there; wrote tells whether the content was another one.
func (f File) Write(content []byte) (wrote bool, err error) {
	target, err := resolve(f.Path)
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", f.Path, err)
	}
	was, err := look(target)
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", f.Path, err)
	}
	if was.Has(content) {
		if err := f.own(target, was); err != nil {
			return false, fmt.Errorf("setting owner and mode of %s: %w", f.Path, hint(err))
		}
		return false, nil
	}
	if err := f.put(target, content, was); err != nil {
		return false, fmt.Errorf("writing %s: %w", f.Path, hint(err))
	}
	return true, nil
}

// Restore puts back what was there before.
func (f File) Restore(b Before) error {
	if b.Exists {
		f.Mode, f.UID, f.GID = b.mode, b.uid, b.gid
		_, err := f.Write(b.content)
		return err
	}
	target, err := resolve(f.Path)
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("taking %s away again: %w", f.Path, hint(err))
	}
	return nil
}

func (f File) put(target string, content []byte, was Before) error {
	if f.How == InPlace {
		return f.inPlace(target, content, was)
	}
	err := f.replace(target, content)
	if f.How != Atomic && was.Exists && errors.Is(err, syscall.EBUSY) {
		return f.inPlace(target, content, was) // a mount point can't be renamed over
	}
	return err
}

// replace writes a file beside the target and renames it over it.
func (f File) replace(target string, content []byte) error {
	tmp, err := renameio.NewPendingFile(target, renameio.WithTempDir(filepath.Dir(target)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { _ = tmp.Cleanup() }()
	if err := f.dress(tmp.File); err != nil {
		return err
	}
	if _, err := tmp.Write(content); err != nil {
		return err
	}
	return tmp.CloseAtomicallyReplace()
}

// dress gives an empty or unreadable file its owner, and then its mode.
func (f File) dress(file *os.File) error {
	if f.UID >= 0 || f.GID >= 0 {
		if err := file.Chown(f.UID, f.GID); err != nil {
			return err
		}
	}
	return file.Chmod(f.Mode)
}

// own sets what differs of owner and mode.
func (f File) own(target string, was Before) error {
	if f.UID >= 0 && f.UID != was.uid || f.GID >= 0 && f.GID != was.gid {
		if err := os.Chown(target, f.UID, f.GID); err != nil {
			return err
		}
	}
	if f.Mode != was.mode {
		return os.Chmod(target, f.Mode)
	}
	return nil
}

// inPlace writes over what is there; on an error the old content comes back.
func (f File) inPlace(target string, content []byte, was Before) (err error) {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
	}()
	if was.Exists {
		err = f.own(target, was)
	} else {
		err = f.dress(file)
	}
	if err != nil {
		return err
	}
	if err := over(file, content); err != nil {
		if back := over(file, was.content); back != nil {
			return fmt.Errorf("%w; and the old content could not be put back: %w", err, back)
		}
		return err
	}
	return nil
}

func over(file *os.File, content []byte) error {
	if _, err := file.WriteAt(content, 0); err != nil {
		return err
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		return err
	}
	return file.Sync()
}

// hint says what to do about an error of the operating system.
func hint(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; give the agent's user the directory or the ownership, or leave owner and group out; where only the file itself can be written, set write: in-place", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; mount it writable, or name another path", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; make the directory first", err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w; it is a mount point: set write: auto or in-place", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; make room", err)
	}
	return err
}

// Sweep takes away what a writer that was killed left beside a file.
func Sweep(path string) error {
	target, err := resolve(path)
	if err != nil {
		return fmt.Errorf("looking beside %s: %w", path, err)
	}
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return fmt.Errorf("looking beside %s: %w", path, err)
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(target))
		if ok && rest != "" && strings.Trim(rest, "0123456789") == "" && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(filepath.Dir(target), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("taking away what was left beside %s: %w", path, err)
			}
		}
	}
	return nil
}
