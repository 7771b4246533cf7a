// Command mutate runs mutation tests: see package mutate and docs/mutation.md.
//
//	mutate [flags] PACKAGE[=TESTPACKAGE,...] ...
//
// It ends with 1 when too few mutants were killed or the table of equivalent
// ones is stale, and with 2 when it could not tell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/leasesvc/leasesvc/internal/mutate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	least := fs.Float64("min", 0, "end with 1 when less than this share of a package's mutants is killed, in `percent`")
	table := fs.String("equivalent", "", "Markdown `file` with the table of equivalent mutants")
	only := fs.String("only", "", "try only mutants whose file:function matches this `regexp`")
	rows := fs.Bool("rows", false, "print the survivors as rows of that table, too")
	var cfg mutate.Config
	fs.StringVar(&cfg.Skip, "skip", "", "leave out tests whose names match this `regexp`")
	fs.IntVar(&cfg.Sample, "sample", 0, "try only `n` mutants of each package, evenly spread")
	fs.IntVar(&cfg.Parallel, "parallel", 2, "run `n` test binaries at once")
	fs.BoolVar(&cfg.Verbose, "v", false, "print killed mutants, too, and by which test")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() == 0 {
		fmt.Fprintln(stderr, "mutate: name a package to mutate, such as ./leasecore=./leasecore,./projector")
		return 2
	}
	err := prepare(&cfg, *table, *only)
	below := false
	for _, arg := range fs.Args() {
		if err != nil {
			break
		}
		pkg, tests, more := strings.Cut(arg, "=")
		cfg.Package, cfg.Tests = pkg, nil
		if more {
			cfg.Tests = strings.Split(tests, ",")
		}
		var r *mutate.Report
		if r, err = mutate.Run(ctx, cfg, stdout); err != nil {
			break
		}
		if *rows {
			r.Rows(stdout)
		}
		r.Print(stdout)
		below = below || r.Score() < *least || len(r.Stale) > 0
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	case below:
		fmt.Fprintf(stderr, "mutate: at least %g %% of the mutants must be killed, and the table of equivalent ones must hold; docs/mutation.md tells what to do\n", *least)
		return 1
	}
	return 0
}

func prepare(cfg *mutate.Config, table, only string) (err error) {
	if only != "" {
		if cfg.Only, err = regexp.Compile(only); err != nil {
			return fmt.Errorf("reading -only: %w", err)
		}
	}
	if table == "" {
		return nil
	}
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	cfg.Equivalent, err = mutate.ReadEquivalents(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", table, err)
	}
	return nil
}
