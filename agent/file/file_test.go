package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leasesvc/leasesvc/agent/file"
	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		External: []string{"github.com/google/renameio/v2"},
		Why:      "writing files knows nothing of leases",
	})
}

// at is a file of the test's own user.
func at(path string, mode fs.FileMode) file.File {
	return file.File{Path: path, Mode: mode, UID: -1, GID: -1, How: file.Auto}
}

func write(t *testing.T, f file.File, content string) (wrote bool) {
	t.Helper()
	wrote, err := f.Write([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return wrote
}

func stat(t *testing.T, path string) (fs.FileMode, uint32, uint32, uint64) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return info.Mode(), st.Uid, st.Gid, st.Ino
}

func contentIs(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %d bytes, %v", path, len(got), err)
	}
}

// TestC46_TheFirstVisibleByteHasModeAndOwner: whoever opens any file in the
// directory, at any moment, finds content only under the mode and owner that were
// asked for, and under the name itself the whole of it.
func TestC46_TheFirstVisibleByteHasModeAndOwner(t *testing.T) {
	old := syscall.Umask(0o077) // a umask neither widens nor narrows
	defer syscall.Umask(old)
	dir := t.TempDir()
	f := file.File{Path: filepath.Join(dir, "app.json"), Mode: 0o640, UID: os.Getuid(), GID: os.Getgid(), How: file.Auto}
	if os.Getuid() == 0 {
		f.UID, f.GID = 12345, 54321
	}
	stop := make(chan struct{})
	var looking sync.WaitGroup
	seen := 0
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range entries {
				h, err := os.Open(filepath.Join(dir, e.Name()))
				if err != nil {
					continue // renamed meanwhile
				}
				// The content first, so that what is asked after it can't be from before.
				content := make([]byte, 1<<16)
				n, _ := h.Read(content)
				info, err := h.Stat()
				h.Close()
				if err != nil || n == 0 {
					continue
				}
				st := info.Sys().(*syscall.Stat_t)
				if info.Mode() != 0o640 || int(st.Uid) != f.UID || int(st.Gid) != f.GID {
					t.Errorf("%s has content under mode %v, owner %d:%d", e.Name(), info.Mode(), st.Uid, st.Gid)
					return
				}
				if e.Name() == "app.json" && (n < 1<<15 || len(bytes.Trim(content[:n], string(content[0]))) != 0) {
					t.Errorf("%d bytes of a part", n)
					return
				}
				seen++
			}
		}
	})
	for i := range 300 {
		if !write(t, f, strings.Repeat(string(rune('a'+i%26)), 1<<15)) {
			t.Fatal("it says that nothing was written")
		}
	}
	close(stop)
	looking.Wait()
	if seen < 10 {
		t.Errorf("the reader saw content %d times: the test shows nothing", seen)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

// TestC46_UnchangedContentIsNotWritten; a mode or owner that somebody changed is
// set again.
func TestC46_UnchangedContentIsNotWritten(t *testing.T) {
	f := at(filepath.Join(t.TempDir(), "x"), 0o600)
	write(t, f, "one")
	_, _, _, before := stat(t, f.Path)
	if write(t, f, "one") {
		t.Error("written again")
	}
	if err := os.Chmod(f.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	if write(t, f, "one") {
		t.Error("written again")
	}
	if mode, _, _, after := stat(t, f.Path); after != before || mode != 0o600 {
		t.Errorf("inode %d, was %d; mode %v", after, before, mode)
	}
	if !write(t, f, "two") {
		t.Error("not written")
	}
	if err := os.Remove(f.Path); err != nil { // C31
		t.Fatal(err)
	}
	if !write(t, f, "two") {
		t.Error("a deleted file is not written again")
	}
}

// TestC46_SymbolicLinksStay, those that lead to nothing yet too.
func TestC46_SymbolicLinksStay(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "data")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "data/real", "second": "link"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := at(filepath.Join(dir, "second"), 0o600)
	for _, content := range []string{"one", "two"} {
		write(t, f, content)
		contentIs(t, filepath.Join(sub, "real"), content)
		for _, link := range []string{"link", "second"} {
			if mode, _, _, _ := stat(t, filepath.Join(dir, link)); mode&fs.ModeSymlink == 0 {
				t.Errorf("%s is no link any more", link)
			}
		}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := at(filepath.Join(dir, "loop"), 0o600).Write([]byte("x")); err == nil {
		t.Error("a loop of links passes")
	}
}

// mount makes a mount that ends with the test; it needs CAP_SYS_ADMIN, as CI has.
func mount(t *testing.T, from, to string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(from, to, "", flags, ""); err != nil {
		t.Fatalf("mounting %s on %s: %v; run the tests as root in a container that may mount", from, to, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

// TestC46_AMountedFileIsWrittenInPlace, for the rename over a mount point can't be;
// only where nobody asked for atomic.
func TestC46_AMountedFileIsWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	outside, inside := filepath.Join(dir, "outside"), filepath.Join(dir, "inside")
	for _, p := range []string{outside, inside} {
		if err := os.WriteFile(p, []byte("a longer content before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, outside, inside, unix.MS_BIND)
	f := at(inside, 0o640)
	write(t, f, "new")
	contentIs(t, outside, "new")
	if mode, _, _, _ := stat(t, outside); mode != 0o640 {
		t.Errorf("mode %v", mode)
	}
	f.How = file.Atomic
	if _, err := f.Write([]byte("newer")); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "write:") {
		t.Errorf("got %v", err)
	}
	contentIs(t, outside, "new")
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files are left", len(entries))
	}
}

// TestC46_ADirectoryThatCantBeWritten is a clear error, and nothing is left there;
// in place the file itself can be written all the same.
func TestC46_ADirectoryThatCantBeWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("old and longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]fs.FileMode{path: 0o666, dir: 0o555, filepath.Dir(dir): 0o755, filepath.Dir(filepath.Dir(dir)): 0o755} {
		if err := os.Chmod(p, mode); err != nil && p == dir {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		_, err := at(path, 0o666).Write([]byte("S3cret"))
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "in-place") || strings.Contains(err.Error(), "S3cret") {
			t.Errorf("got %v", err)
		}
		f := at(path, 0o666)
		f.How = file.InPlace
		if _, err := f.Write([]byte("new")); err != nil {
			t.Error(err)
		}
	})
	contentIs(t, path, "new")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
	_, err := at(filepath.Join(dir, "none", "x"), 0o600).Write([]byte("x"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make the directory") {
		t.Errorf("got %v", err)
	}
	if _, err := at(dir, 0o600).Write([]byte("x")); !errors.Is(err, file.ErrNotAFile) {
		t.Errorf("a directory: %v", err)
	}
}

// asNobody does something with the rights of a user who owns nothing: root may
// write everywhere.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// TestC46_AReadOnlyMount names itself.
func TestC46_AReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, dir, unix.MS_BIND)
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := at(filepath.Join(dir, "x"), 0o600).Write([]byte("x"))
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "writable") {
		t.Errorf("got %v", err)
	}
}

func TestRestorePutsBackWhatWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f := at(path, 0o600)
	none, err := file.Look(path)
	if err != nil || none.Exists {
		t.Fatal(none, err)
	}
	if err := os.WriteFile(path, []byte("S3cret-old"), 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := file.Look(path)
	if err != nil || !old.Has([]byte("S3cret-old")) {
		t.Fatal(old, err)
	}
	write(t, f, "new")
	if err := f.Restore(old); err != nil {
		t.Fatal(err)
	}
	contentIs(t, path, "S3cret-old")
	if mode, _, _, _ := stat(t, path); mode != 0o644 {
		t.Errorf("mode %v", mode)
	}
	for range 2 {
		if err := f.Restore(none); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if s := fmt.Sprintf("%v %+v %#v", old, old, old); strings.Contains(s, "S3cret") {
		t.Error(s)
	}
}

// TestSweepTakesLeftovers of a writer that was killed, and nothing else.
func TestSweepTakesLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x", ".x123456", ".x", ".x12a", ".xy1", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Sweep(filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 5 {
		t.Errorf("%v", entries)
	}
	if _, err := os.Stat(filepath.Join(dir, ".x123456")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the leftover is there")
	}
}
