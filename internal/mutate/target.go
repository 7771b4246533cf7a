package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is the package that is mutated.
type target struct {
	Dir        string
	ImportPath string
	Name       string
	GoFiles    []string
	Module     struct{ Dir string }

	sources map[string][]byte // by file name
	imports types.Importer
}

// load reads a package and what its type check needs.
func load(ctx context.Context, dir, pattern string) (*target, error) {
	out, err := output(ctx, dir, "go", "list", "-json=Dir,ImportPath,Name,GoFiles,Module", pattern)
	if err != nil {
		return nil, fmt.Errorf("reading package %s: %w", pattern, err)
	}
	t := &target{sources: map[string][]byte{}}
	dec := json.NewDecoder(bytes.NewReader(out))
	if err := dec.Decode(t); err != nil {
		return nil, fmt.Errorf("reading package %s: %w", pattern, err)
	}
	if dec.More() {
		return nil, fmt.Errorf("reading package %s: it names more than one package; name one", pattern)
	}
	for _, name := range t.GoFiles {
		if t.sources[name], err = os.ReadFile(filepath.Join(t.Dir, name)); err != nil {
			return nil, fmt.Errorf("reading package %s: %w", pattern, err)
		}
	}
	// os and strconv are what the switch needs (instrument.go).
	out, err = output(ctx, dir, "go", "list", "-deps", "-export", "-f", "{{.ImportPath}}\t{{.Export}}", pattern, "os", "strconv")
	if err != nil {
		return nil, fmt.Errorf("compiling what %s imports: %w", pattern, err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		exports[path] = file
	}
	t.imports = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return t, nil
}

// mutants gives all mutants of the package, in the order of its files.
func (t *target) mutants() ([]*Mutant, error) {
	fset, files, info := token.NewFileSet(), []*ast.File{}, &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	for _, name := range t.GoFiles {
		file, err := parser.ParseFile(fset, name, t.sources[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	pkg, err := (&types.Config{Importer: t.imports}).Check(t.ImportPath, fset, files, info)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", t.ImportPath, err)
	}
	var all []*Mutant
	for i, file := range files {
		path, err := filepath.Rel(t.Module.Dir, filepath.Join(t.Dir, t.GoFiles[i]))
		if err != nil {
			return nil, err
		}
		f := &finder{fset: fset, info: info, pkg: pkg, path: filepath.ToSlash(path), src: t.sources[t.GoFiles[i]]}
		all = append(all, f.find(file)...)
	}
	for i, m := range all {
		m.number = i + 1
	}
	return all, nil
}

// inFile gives the mutants of a file of the package.
func inFile(mutants []*Mutant, name string) (out []*Mutant) {
	for _, m := range mutants {
		if filepath.Base(m.File) == name {
			out = append(out, m)
		}
	}
	return out
}

// compiling gives the mutants that compile, in batches that can be built
// together: those in functions, and each of the others.
func (t *target) compiling(mutants []*Mutant) ([][]*Mutant, error) {
	var batches [][]*Mutant
	var together []*Mutant
	for _, m := range mutants {
		if !m.outside {
			together = append(together, m)
			continue
		}
		if bad, err := t.check([]*Mutant{m}); err == nil && len(bad) == 0 {
			batches = append(batches, []*Mutant{m})
		}
	}
	// An error may hide another one, so that one look is not enough.
	for len(together) > 0 {
		bad, err := t.check(together)
		if err != nil {
			return nil, err
		}
		if len(bad) == 0 {
			return append([][]*Mutant{together}, batches...), nil
		}
		together = slices.DeleteFunc(together, func(m *Mutant) bool { return bad[m] })
	}
	return batches, nil
}

// check type-checks the package with mutants in it and gives those with errors.
func (t *target) check(mutants []*Mutant) (bad map[*Mutant]bool, err error) {
	fset, files := token.NewFileSet(), []*ast.File{}
	bad = map[*Mutant]bool{}
	placed := map[string][]place{}
	for _, name := range append(slices.Clone(t.GoFiles), switchFile) {
		src := switchSource(t.Name)
		if name != switchFile {
			src, placed[name] = instrument(t.sources[name], inFile(mutants, name))
		}
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parsing %s with its mutants in it: %w", name, err)
		}
		files = append(files, file)
	}
	var strange error
	conf := types.Config{Importer: t.imports, Error: func(err error) {
		var te types.Error
		if !errors.As(err, &te) {
			strange = errors.Join(strange, err)
			return
		}
		at := te.Fset.Position(te.Pos)
		for _, p := range placed[at.Filename] {
			if p.start <= at.Offset && at.Offset < p.end {
				bad[p.mutant] = true
				return
			}
		}
		strange = errors.Join(strange, err)
	}}
	_, _ = conf.Check(t.ImportPath, fset, files, nil) // its errors went to Error
	if len(bad) == 0 && strange != nil {
		return nil, fmt.Errorf("checking %s with its mutants in it: %w", t.ImportPath, strange)
	}
	return bad, nil
}

// output runs a command of the toolchain in dir; what it says on standard error
// is in the error.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
