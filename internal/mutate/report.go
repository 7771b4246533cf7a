package mutate

import (
	"fmt"
	"io"
	"path"
	"slices"
	"time"
)

// Report tells how a package's mutants fared.
type Report struct {
	Package string
	// Found counts all mutants, also those that do not compile or were not
	// sampled. Tried is Killed, the survivors and the equivalent ones.
	Found, Tried, Killed int
	Survivors            []*Mutant
	// Equivalent are the survivors that the table lists, with its reasons.
	Equivalent []*Mutant
	// Stale are rows of the table that are wrong: the mutant is gone, or
	// killed.
	Stale []string
	Took  time.Duration

	reasons map[*Mutant]string
	killed  map[known]string
	whole   bool // all mutants were tried
}

// Score gives the share of mutants killed, in percent, of those that can be.
func (r *Report) Score() float64 {
	if of := r.Killed + len(r.Survivors); of > 0 {
		return 100 * float64(r.Killed) / float64(of)
	}
	return 100
}

func (r *Report) add(w io.Writer, cfg Config, m *Mutant, v verdict) {
	if r.killed == nil {
		r.killed, r.reasons = map[known]string{}, map[*Mutant]string{}
	}
	r.Tried++
	why, listed := cfg.Equivalent.reason(m)
	switch {
	case v.killer != "":
		r.Killed++
		r.killed[known{m.File, m.Func, m.Mutation()}] = v.killer
		if cfg.Verbose {
			fmt.Fprintf(w, "killed    %s (by %s)\n", m, v.killer)
		}
	case listed:
		r.Equivalent = append(r.Equivalent, m)
		r.reasons[m] = why
		if cfg.Verbose {
			fmt.Fprintf(w, "listed    %s (%s)\n", m, why)
		}
	default:
		r.Survivors = append(r.Survivors, m)
		fmt.Fprintf(w, "survived  %s\n", m)
	}
}

// Print writes the sums, and what is wrong with the table.
func (r *Report) Print(w io.Writer) {
	for _, s := range r.Stale {
		fmt.Fprintf(w, "stale     %s\n", s)
	}
	fmt.Fprintf(w, "%s: %d mutants, %d compile and were tried, %d killed, %d survived, %d listed as equivalent: %.1f %% in %s\n",
		r.Package, r.Found, r.Tried, r.Killed, len(r.Survivors), len(r.Equivalent), r.Score(), r.Took.Round(time.Second))
}

// Rows writes the survivors as rows of the table, for who finds them
// equivalent to give the reason.
func (r *Report) Rows(w io.Writer) {
	for _, m := range r.Survivors {
		fmt.Fprintln(w, m.row(""))
	}
}

// unused gives the table's rows about this package that do not hold. A run of
// a part can't tell of a row that its mutant is gone.
func (e Equivalents) unused(r *Report, all []*Mutant) (out []string) {
	if len(all) == 0 {
		return nil
	}
	exists := map[known]bool{}
	for _, m := range all {
		exists[known{m.File, m.Func, m.Mutation()}] = true
	}
	for k := range e {
		switch by, killed := r.killed[k], r.killed[k] != ""; {
		case path.Dir(k.file) != path.Dir(all[0].File):
		case killed:
			out = append(out, fmt.Sprintf("%s: it is listed as equivalent, and killed by %s", k, by))
		case !exists[k]:
			out = append(out, fmt.Sprintf("%s: it is listed as equivalent, and there is no such mutant any more", k))
		}
	}
	slices.Sort(out)
	return out
}
