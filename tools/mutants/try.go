package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/mutants/program"
)

// test is one test of a package, run alone without a mutant.
type test struct {
	name    string
	took    time.Duration
	reached []byte // by the number of the mutant
}

// fate is what the tests did with a mutant.
type fate int

const (
	found   fate = iota // a test failed, or did not end in time
	lived               // all tests that reach it passed
	unasked             // no test executes it with values with which it matters, such as an error
)

// outcome is a mutation and what became of it.
type outcome struct {
	mutation
	fate  fate
	tests []string // that ran with it, up to the one that failed
}

// trial runs the tests of one package.
type trial struct {
	compiled
	short bool
	rapid bool // the tests have properties: one that fails writes no file, and is not made smaller
	jobs  int
	tests []test // the quickest first
	red   []red  // tests that are left out, since they fail without a mutant and so would find every one
}

// firstLimit ends a test without a mutant. With one, each run has limitFactor times what its tests took, and limitMore
// for other work on the machine.
const (
	firstLimit  = 10 * time.Minute
	limitFactor = 8
	limitMore   = 20 * time.Second
)

func (t *trial) args(names []string) []string {
	args := []string{"-test.run=^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.count=1"}
	if t.short {
		args = append(args, "-test.short")
	}
	if t.rapid {
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	return args
}

// red is a test that fails without a mutant.
type red struct {
	name   string
	output []byte
}

// measure runs each test alone without a mutant: how long it takes, and which mutants it reaches. A test that fails
// twice is red.
func (t *trial) measure(ctx context.Context) error {
	names, err := t.Tests(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex // of the tests
	err = parallel(t.jobs, len(names), func(i int) error {
		for try := 0; ; try++ {
			r, err := t.Do(ctx, program.Run{Limit: firstLimit, Args: t.args(names[i : i+1]), Reach: true})
			if err != nil {
				return err
			}
			if !r.Passed && try == 0 {
				continue
			}
			mu.Lock()
			defer mu.Unlock()
			if r.Passed {
				t.tests = append(t.tests, test{names[i], r.Took, r.Reached})
			} else {
				t.red = append(t.red, red{names[i], r.Output})
			}
			return nil
		}
	})
	slices.SortStableFunc(t.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return err
}

// try runs the tests that reach the mutation, until one fails.
func (t *trial) try(ctx context.Context, m mutation) (outcome, error) {
	o := outcome{mutation: m, fate: unasked}
	var reach []test
	for _, one := range t.tests {
		if one.reached[m.id] != 0 {
			reach = append(reach, one)
		}
	}
	for _, batch := range batches(reach) {
		var names []string
		var took time.Duration
		for _, one := range batch {
			names, took = append(names, one.name), took+one.took
		}
		o.tests = append(o.tests, names...)
		r, err := t.Do(ctx, program.Run{Mutant: m.id, Limit: limitFactor*took + limitMore, Args: t.args(names)})
		if err != nil {
			return o, err
		}
		if !r.Passed {
			o.fate = found
			return o, nil
		}
		o.fate = lived
	}
	return o, nil
}

// firstBatch and nextBatch are how long the tests of a run take together: most mutants are found by one that is quick,
// and to start a program for each takes longer than it.
const (
	firstBatch = 300 * time.Millisecond
	nextBatch  = 4 * time.Second
)

// batches divides tests, which are sorted by their time, into runs.
func batches(tests []test) (all [][]test) {
	limit := firstBatch
	for len(tests) > 0 {
		n, took := 1, tests[0].took
		for n < len(tests) && took+tests[n].took <= limit {
			took += tests[n].took
			n++
		}
		all, tests, limit = append(all, tests[:n]), tests[n:], nextBatch
	}
	return all
}

// tryAll tries the mutations, and calls each with every outcome as it comes.
func (t *trial) tryAll(ctx context.Context, some []mutation, each func(outcome)) ([]outcome, error) {
	all := make([]outcome, len(some))
	var mu sync.Mutex // of each
	err := parallel(t.jobs, len(some), func(i int) error {
		o, err := t.try(ctx, some[i])
		if err != nil {
			return err
		}
		all[i] = o
		mu.Lock()
		defer mu.Unlock()
		each(o)
		return nil
	})
	return all, err
}

// parallel calls do for 0 to n-1, as many at a time as there are jobs, and ends after the first error.
func parallel(jobs, n int, do func(int) error) error {
	errs := make([]error, jobs)
	next := make(chan int)
	stop := make(chan struct{})
	var once sync.Once
	var wait sync.WaitGroup
	for j := range jobs {
		wait.Go(func() {
			for i := range next {
				if errs[j] = do(i); errs[j] != nil {
					once.Do(func() { close(stop) })
					return
				}
			}
		})
	}
	func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-stop:
				return
			}
		}
	}()
	wait.Wait()
	return errors.Join(errs...)
}
