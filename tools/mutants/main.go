// Command mutants shows whether the tests of the packages that decide can fail: it makes small mistakes in their
// sources (a condition negated, a bound moved by one, && for ||, a case dropped, an error ignored) and runs each
// package's own tests with one mistake at a time. A mistake that no test finds is printed with its file and line: a
// rule that no test holds. `make mutants` calls it.
//
//	go run ./tools/mutants [-n COUNT] [-seed SEED] [-all] [-full] [-list] [-min PERCENT] [-packages LIST] [-files REGEXP]
//
// Each run tries a sample, whose seed is printed; -all tries every mutation. A package is compiled once, with all of
// its mutations behind switches; a test is run with a mutation only if it executes the changed code. The libraries
// that there are (gremlins, go-mutesting, ooze) compile a package for each mutation, which takes longer here than its
// tests do. Mutations that change nothing, or that no test of the package can see, are in accepted.txt with the
// reason. Exit status: 0, 1 (tests fail without a mutation, a stale line in accepted.txt, fewer found than -min), 2
// usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// decide are the packages whose mistakes would be wrong verdicts, wrong recoveries, or open doors; full marks those
// whose short tests leave out what holds their rules.
var decide = []struct {
	folder string
	full   bool
}{
	{"preflight", false}, {"diag", false}, {"diag/classify", false}, {"agent", true}, {"agent/credstore", true},
	{"agent/update", true},
	{"chaos/drill", false}, {"chaos/step", false}, {"chaos/node", true}, {"lab/platform", true},
	{"lab/platform/store", true}, {"preflight/vantage", true}, {"gpu/policy", false}, {"gpu/policy/judge", false},
	{"internal/owned", true}, {"profile", true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Stderr, ".", os.Args[1:]))
}

// options are the command line.
type options struct {
	n         int
	seed      uint64
	all, list bool
	full      bool
	least     float64
	jobs      int
	packages  string
	files     *regexp.Regexp
	accepted  string
}

func parse(errs io.Writer, args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&o.n, "n", 25, "how many mutations of each package are tried")
	flags.Uint64Var(&o.seed, "seed", 0, "draws the sample (default: a new one)")
	flags.BoolVar(&o.all, "all", false, "try every mutation")
	flags.BoolVar(&o.full, "full", false, "without -short in every package")
	flags.BoolVar(&o.list, "list", false, "print the mutations, and try none")
	flags.Float64Var(&o.least, "min", 0, "fail if fewer than this `PERCENT` of a package's mutations are found")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many tests run at a time")
	flags.StringVar(&o.packages, "packages", "", "folders, with commas (default: the packages that decide)")
	flags.StringVar(&o.accepted, "accepted", "tools/mutants/accepted.txt", "the list of accepted mutations")
	files := flags.String("files", "", "only files whose path matches this `REGEXP`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	o.files, err = regexp.Compile(*files)
	switch {
	case err != nil:
		err = fmt.Errorf("-files: %w", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.n < 1 || o.jobs < 1:
		err = fmt.Errorf("-n and -jobs are at least 1")
	}
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return o, err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	return o, nil
}

// run is main with its environment as parameters; it returns the exit status.
func run(ctx context.Context, out, errs io.Writer, root string, args []string) int {
	o, err := parse(errs, args)
	if err != nil {
		return 2
	}
	code, err := runAll(ctx, out, root, o)
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 1
	}
	return code
}

func runAll(ctx context.Context, out io.Writer, root string, o options) (int, error) {
	accept, err := readAccepted(filepath.Join(root, filepath.FromSlash(o.accepted)))
	if err != nil {
		return 1, err
	}
	if !o.all && !o.list {
		fmt.Fprintf(out, "%d mutations of each package, -seed %d\n", o.n, o.seed)
	}
	code := 0
	var sums []summary
	for _, p := range decide {
		if o.packages != "" {
			break
		}
		s, err := runOne(ctx, out, root, p.folder, p.full || o.full, accept, o)
		if err != nil {
			return 1, fmt.Errorf("%s: %w", p.folder, err)
		}
		sums = append(sums, s)
	}
	for folder := range strings.SplitSeq(o.packages, ",") {
		if o.packages == "" {
			break
		}
		folder = strings.TrimPrefix(strings.TrimSuffix(folder, "/"), "./")
		full := o.full
		for _, p := range decide {
			full = full || (p.folder == folder && p.full)
		}
		s, err := runOne(ctx, out, root, folder, full, accept, o)
		if err != nil {
			return 1, fmt.Errorf("%s: %w", folder, err)
		}
		sums = append(sums, s)
	}
	if o.list {
		return 0, nil
	}
	printSummary(out, sums)
	for _, s := range sums {
		for _, r := range s.red {
			fmt.Fprintf(out, "%s: %s is left out: it fails without a mutant:\n%s\n", s.folder, r.name, r.output)
			code = 1
		}
		for _, stale := range s.stale {
			fmt.Fprintf(out, "%s: no such mutation any more: %s\n", o.accepted, stale)
			code = 1
		}
		if s.percent() < o.least {
			fmt.Fprintf(out, "%s: %.0f %% found, want %.0f %%\n", s.folder, s.percent(), o.least)
			code = 1
		}
	}
	return code, nil
}

// runOne tries the mutations of one package.
func runOne(ctx context.Context, out io.Writer, root, folder string, full bool, accept accepted, o options,
) (summary, error) {
	sum := summary{folder: folder, short: !full}
	began := time.Now()
	s, err := load(ctx, filepath.Join(root, filepath.FromSlash(folder)))
	if err != nil {
		return sum, err
	}
	if o.list {
		all, _ := s.find(nil)
		for _, m := range all {
			if o.files.MatchString(m.file) {
				fmt.Fprintln(out, m)
			}
		}
		return sum, nil
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return sum, err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { //nolint:gosec // a test may start itself as another user
		return sum, err
	}
	c, err := s.compile(ctx, temp)
	if err != nil {
		return sum, err
	}
	sum.compiled = time.Since(began)
	some := slices.DeleteFunc(slices.Clone(c.all), func(m mutation) bool { return !o.files.MatchString(m.file) })
	sum.all = len(some)
	some, sum.accepted = accept.leaveOut(some)
	sum.stale = accept.stale(s.rel, c.all)
	if !o.all {
		some = sample(some, o.n, o.seed)
	}
	t := trial{compiled: c, short: !full, rapid: s.rapid, jobs: o.jobs}
	if err := t.measure(ctx); err != nil {
		return sum, err
	}
	sum.red = t.red
	sum.tests, sum.measured = len(t.tests), time.Since(began)-sum.compiled
	sum.outcomes, err = t.tryAll(ctx, some, func(o outcome) { printOutcome(out, o) })
	sum.took, sum.skipped = time.Since(began), c.skipped
	return sum, err
}

// sample returns at most n mutations, in the order of the source.
func sample(all []mutation, n int, seed uint64) []mutation {
	all = slices.Clone(all)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample, which is to be drawn again from its seed
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(n, len(all))]
	slices.SortFunc(all, func(a, b mutation) int { return a.id - b.id })
	return all
}
