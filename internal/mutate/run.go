package mutate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Config says what to mutate and how.
type Config struct {
	// Dir is where the package patterns are read from, inside the module.
	Dir string
	// Package is mutated; Tests are the packages whose tests may kill a
	// mutant, none: its own.
	Package string
	Tests   []string
	// Skip leaves out tests whose names match: those that can't tell mutants
	// apart and only take time.
	Skip string
	// Only narrows to mutants whose file:function matches.
	Only *regexp.Regexp
	// Sample is how many mutants to try, evenly spread; 0: all.
	Sample int
	// Parallel is how many test binaries run at once, at least 1.
	Parallel int
	// Equivalent holds the survivors that are known.
	Equivalent Equivalents
	// Verbose has killed mutants printed too.
	Verbose bool
}

// job is a mutant with the binaries that may kill it.
type job struct {
	mutant *Mutant
	suites []*suite
}

// Run tries all mutants of a package, writes one line for each survivor as it
// goes, in the order of the source, and gives the report. The error is about
// the tools or the unmutated tests; how the mutants fared is in the report.
func Run(ctx context.Context, cfg Config, w io.Writer) (*Report, error) {
	if len(cfg.Tests) == 0 {
		cfg.Tests = []string{cfg.Package}
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	begin := time.Now()
	t, err := load(ctx, cfg.Dir, cfg.Package)
	if err != nil {
		return nil, err
	}
	tests, err := loadTests(ctx, cfg.Dir, cfg.Tests)
	if err != nil {
		return nil, err
	}
	suites, err := t.baseline(ctx, cfg, tests, dir)
	if err != nil {
		return nil, err
	}
	all, err := t.mutants()
	if err != nil {
		return nil, err
	}
	batches, err := t.compiling(all)
	if err != nil {
		return nil, err
	}
	whole := cfg.Only == nil && cfg.Sample == 0
	batches = narrow(batches, cfg)
	var jobs []job
	for i, batch := range batches {
		built, err := t.buildBatch(ctx, cfg, suites, batch, fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			return nil, err
		}
		for _, m := range batch {
			jobs = append(jobs, job{mutant: m, suites: built})
		}
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.mutant.number, b.mutant.number) })
	report := &Report{Package: t.ImportPath, Found: len(all), whole: whole}
	err = try(ctx, cfg, jobs, func(m *Mutant, v verdict) { report.add(w, cfg, m, v) })
	report.Took = time.Since(begin)
	report.Stale = cfg.Equivalent.unused(report, all)
	return report, err
}

// narrow applies Only and Sample.
func narrow(batches [][]*Mutant, cfg Config) (out [][]*Mutant) {
	var all []*Mutant
	for _, b := range batches {
		for _, m := range b {
			if cfg.Only == nil || cfg.Only.MatchString(m.File+":"+m.Func) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Mutant) int { return cmp.Compare(a.number, b.number) })
	keep := map[*Mutant]bool{}
	n := len(all)
	if cfg.Sample > 0 {
		n = min(n, cfg.Sample)
	}
	for i := range n {
		keep[all[i*len(all)/n]] = true
	}
	for _, b := range batches {
		if b = slices.DeleteFunc(slices.Clone(b), func(m *Mutant) bool { return !keep[m] }); len(b) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// baseline runs the unmutated tests, which must pass, and puts the fastest
// first.
func (t *target) baseline(ctx context.Context, cfg Config, tests []testPackage, dir string) ([]*suite, error) {
	var out []*suite
	for _, tp := range tests {
		file, err := t.build(ctx, tp, nil, dir)
		if err != nil {
			return nil, err
		}
		s := &suite{testPackage: tp, file: file}
		begin := time.Now()
		if err := s.mustPass(ctx, cfg.Skip); err != nil {
			return nil, err
		}
		s.timeout = slowdown*time.Since(begin) + leastTime
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b *suite) int { return cmp.Compare(a.timeout, b.timeout) })
	return out, nil
}

func (s *suite) mustPass(ctx context.Context, skip string) error {
	v, err := s.run(ctx, 0, skip)
	if err == nil && v.killer != "" {
		return fmt.Errorf("the tests of %s fail without any mutant (%s): make them pass first", s.path, v.killer)
	}
	return err
}

// buildBatch compiles the suites with a batch in them.
func (t *target) buildBatch(ctx context.Context, cfg Config, suites []*suite, batch []*Mutant, dir string) ([]*suite, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var out []*suite
	for _, s := range suites {
		file, err := t.build(ctx, s.testPackage, batch, dir)
		if err != nil {
			return nil, err
		}
		built := &suite{testPackage: s.testPackage, file: file, timeout: s.timeout}
		if !batch[0].outside {
			if err := built.mustPass(ctx, cfg.Skip); err != nil {
				return nil, fmt.Errorf("with the mutants compiled in but none in force: %w", err)
			}
		}
		out = append(out, built)
	}
	return out, nil
}

// try runs the jobs, cfg.Parallel at once, and tells their verdicts in order.
func try(ctx context.Context, cfg Config, jobs []job, tell func(*Mutant, verdict)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := make([]chan verdict, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for i := range verdicts {
		verdicts[i] = make(chan verdict, 1)
	}
	for range max(cfg.Parallel, 1) {
		workers.Go(func() {
			for i := range next {
				v, err := jobs[i].try(ctx, cfg.Skip)
				if err != nil {
					cancel(err)
				}
				verdicts[i] <- v
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range jobs {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	defer workers.Wait()
	for i, j := range jobs {
		select {
		case v := <-verdicts[i]:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tell(j.mutant, v)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (j job) try(ctx context.Context, skip string) (verdict, error) {
	for _, s := range j.suites {
		if v, err := s.run(ctx, j.mutant.number, skip); err != nil || v.killer != "" {
			return v, err
		}
	}
	return verdict{}, nil
}
