package mutate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// testPackage is a package whose tests may kill a mutant.
type testPackage struct {
	dir, path string
	rapid     bool // it has property tests that take -rapid. flags
}

func loadTests(ctx context.Context, dir string, patterns []string) ([]testPackage, error) {
	var out []testPackage
	for _, pattern := range patterns {
		list, err := output(ctx, dir, "go", "list", "-f", "{{.Dir}}\t{{.ImportPath}}\t{{.TestImports}} {{.XTestImports}}", pattern)
		if err != nil {
			return nil, fmt.Errorf("reading test package %s: %w", pattern, err)
		}
		for line := range strings.Lines(string(list)) {
			field := strings.SplitN(line, "\t", 3)
			out = append(out, testPackage{dir: field[0], path: field[1], rapid: strings.Contains(field[2], "pgregory.net/rapid")})
		}
	}
	return out, nil
}

// build compiles the tests of a package with a batch of mutants in them; no
// mutants: the tests as they are.
func (t *target) build(ctx context.Context, tests testPackage, batch []*Mutant, dir string) (file string, err error) {
	file = filepath.Join(dir, strings.ReplaceAll(tests.path, "/", "_")+".test")
	args := []string{"test", "-c", "-vet=off", "-o", file} // vet finds mutants, too
	if len(batch) > 0 {
		overlay, err := t.overlay(batch, dir)
		if err != nil {
			return "", fmt.Errorf("writing the overlay of %s: %w", t.ImportPath, err)
		}
		args = append(args, "-overlay", overlay)
	}
	if _, err := output(ctx, t.Dir, "go", append(args, tests.path)...); err != nil {
		return "", fmt.Errorf("compiling the tests of %s: %w", tests.path, err)
	}
	return file, nil
}

// overlay writes the files that stand in for the package's own.
func (t *target) overlay(batch []*Mutant, dir string) (string, error) {
	replace := map[string]string{}
	put := func(name string, src []byte) error {
		file := filepath.Join(dir, name)
		replace[filepath.Join(t.Dir, name)] = file
		return os.WriteFile(file, src, 0o600)
	}
	if err := put(switchFile, switchSource(t.Name)); err != nil {
		return "", err
	}
	for _, name := range t.GoFiles {
		if ms := inFile(batch, name); len(ms) > 0 {
			src, _ := instrument(t.sources[name], ms)
			if err := put(name, src); err != nil {
				return "", err
			}
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, b, 0o600)
}
