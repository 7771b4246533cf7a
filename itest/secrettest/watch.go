package secrettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Watch keeps secrets, and what must hold none of them.
type Watch struct {
	dir string // of links to the files, and of what was printed

	mu      sync.Mutex
	secrets map[string]string // the value: what it is
	files   map[string]string // where it was: the link
	kept    int
}

// New makes a Watch that keeps what is looked at below dir. Files that are named
// must be on the file system that dir is on.
func New(dir string) *Watch {
	return &Watch{dir: dir, secrets: map[string]string{}, files: map[string]string{}}
}

// Secret names a value that must not be seen, and what it is. What has less than 8
// bytes could not be told from chance and is passed over.
func (w *Watch) Secret(what, value string) {
	if len(value) < shortest {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secrets[value] == "" {
		w.secrets[value] = what
	}
}

// Secrets counts the secrets.
func (w *Watch) Secrets() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.secrets)
}

// Kinds counts the secrets by what they are.
func (w *Watch) Kinds() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, what := range w.secrets {
		out[what]++
	}
	return out
}

// File names a file that is looked at, as it is in the end; naming it again changes
// nothing.
func (w *Watch) File(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("secrettest: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if link, ok := w.files[path]; ok && same(link, path) {
		return nil
	}
	return w.link(path)
}

func same(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// link links a file into the Watch's directory. The caller holds w.mu.
func (w *Watch) link(path string) error {
	w.kept++
	link := filepath.Join(w.dir, fmt.Sprintf("%d-%s", w.kept, filepath.Base(path)))
	if err := os.Link(path, link); err != nil {
		return fmt.Errorf("secrettest: keeping %s to look at it: %w", path, err)
	}
	key := path
	for n := 2; w.files[key] != ""; n++ { // another file had the path
		key = fmt.Sprintf("%s (%d)", path, n)
	}
	w.files[key] = link
	return nil
}

// Tree names every file that a directory has now.
func (w *Watch) Tree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went as we looked
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if err := w.File(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Print keeps what was printed, answered or published, and says where.
func (w *Watch) Print(where string, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept++
	file := filepath.Join(w.dir, fmt.Sprintf("%d-printed", w.kept))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("secrettest: keeping what %s printed: %w", where, err)
	}
	w.files[fmt.Sprintf("%s (%d)", where, w.kept)] = file
	return nil
}

// Report is what was found.
type Report struct {
	// Secrets, Files and Bytes count what was looked for and at.
	Secrets, Files int
	Bytes          int64
	// Leaks are the places with a secret, each with the secret's kind.
	Leaks []string
}

// String tells how much was looked at.
func (r Report) String() string {
	return fmt.Sprintf("%d secrets looked for in %d files of %d bytes: %d places with one", r.Secrets, r.Files, r.Bytes, len(r.Leaks))
}

// maxLeaks bounds what is named.
const maxLeaks = 50

// Look looks for every secret in all that was kept.
func (w *Watch) Look() (Report, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Report{Secrets: len(w.secrets)}
	n := newNeedles(w.secrets)
	for _, where := range slices.Sorted(maps.Keys(w.files)) {
		text, err := os.ReadFile(w.files[where])
		if err != nil {
			return r, fmt.Errorf("secrettest: looking at %s: %w", where, err)
		}
		r.Files++
		r.Bytes += int64(len(text))
		for what, at := range n.in(text) {
			if len(r.Leaks) < maxLeaks {
				r.Leaks = append(r.Leaks, fmt.Sprintf("%s is in %s at byte %d, line %d", what, where, at, 1+strings.Count(string(text[:at]), "\n")))
			}
		}
	}
	slices.Sort(r.Leaks)
	return r, nil
}

// needles finds many texts at once, by their first eight bytes.
type needles map[uint64][]needle

type needle struct{ text, what string }

func newNeedles(secrets map[string]string) needles {
	n := needles{}
	for value, what := range secrets {
		for _, f := range forms(value) {
			head := binary.LittleEndian.Uint64([]byte(f[:shortest]))
			n[head] = append(n[head], needle{f, what})
		}
	}
	return n
}

// in gives what is in a text, and where first.
func (n needles) in(text []byte) map[string]int {
	found := map[string]int{}
	if len(n) == 0 {
		return found
	}
	for i := 0; i+shortest <= len(text); i++ {
		for _, c := range n[binary.LittleEndian.Uint64(text[i:])] {
			if _, known := found[c.what]; !known && len(text)-i >= len(c.text) && string(text[i:i+len(c.text)]) == c.text {
				found[c.what] = i
			}
		}
	}
	return found
}
