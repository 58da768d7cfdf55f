package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// summary is what became of the mutations of one package.
type summary struct {
	folder                   string
	short                    bool
	all                      int // mutations that there are
	accepted                 int // of them, not tried since they are accepted
	skipped                  int // lines without mutations, since they do not compile with a switch
	tests                    int
	outcomes                 []outcome
	stale                    []string
	red                      []red
	compiled, measured, took time.Duration
}

func (s summary) count(f fate) (n int) {
	for _, o := range s.outcomes {
		if o.fate == f {
			n++
		}
	}
	return n
}

// percent is how many of the mutations that were tried are found. One that no test reaches is not found.
func (s summary) percent() float64 {
	if len(s.outcomes) == 0 {
		return 100
	}
	return 100 * float64(s.count(found)) / float64(len(s.outcomes))
}

// maxTests is how many tests of a mutation are named.
const maxTests = 6

// printOutcome prints a mutation that no test found.
func printOutcome(out io.Writer, o outcome) {
	switch o.fate {
	case unasked:
		fmt.Fprintf(out, "not covered\t%s\n", o.mutation)
	case lived:
		names, more := o.tests, ""
		if len(names) > maxTests {
			names, more = names[:maxTests], fmt.Sprintf(" and %d more", len(o.tests)-maxTests)
		}
		fmt.Fprintf(out, "lived\t%s\n\ttests: %s%s\n", o.mutation, strings.Join(names, " "), more)
	case found:
	}
}

// printSummary prints a line for each package, one for each kind, and the sum.
func printSummary(out io.Writer, sums []summary) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w,
		"\npackage\tmutations\taccepted\ttried\tfound\tlived\tnot covered\t%\ttests\tcompiled\tmeasured\tin all\n")
	total := summary{}
	for _, s := range sums {
		name := s.folder
		if s.short {
			name += " -short"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%d\t%.0fs\t%.0fs\t%.0fs\n", name, s.all, s.accepted,
			len(s.outcomes), s.count(found), s.count(lived), s.count(unasked), s.percent(), s.tests,
			s.compiled.Seconds(), s.measured.Seconds(), s.took.Seconds())
		total.outcomes = append(total.outcomes, s.outcomes...)
		total.all, total.accepted, total.took = total.all+s.all, total.accepted+s.accepted, total.took+s.took
	}
	if len(sums) > 1 {
		fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t\t\t\t%.0fs\n", total.all, total.accepted,
			len(total.outcomes), total.count(found), total.count(lived), total.count(unasked), total.percent(),
			total.took.Seconds())
	}
	fmt.Fprint(w, "\nkind\ttried\tfound\t%\n")
	for _, k := range kinds {
		of := summary{}
		for _, o := range total.outcomes {
			if o.kind == k {
				of.outcomes = append(of.outcomes, o)
			}
		}
		if len(of.outcomes) > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\n", k, len(of.outcomes), of.count(found), of.percent())
		}
	}
	_ = w.Flush()
	for _, s := range sums {
		if s.skipped > 0 {
			fmt.Fprintf(out, "%s: %d lines have no mutations, since they do not compile with a switch\n", s.folder, s.skipped)
		}
	}
}
