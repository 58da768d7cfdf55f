package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxRetries is how many failed tests are tried again. More than these are no accident.
const maxRetries = 6

// patience ends a package that hangs. The slowest takes two minutes, and several times as long on a busy machine.
const patience = "-timeout=30m"

// suite is one call of go test.
type suite struct {
	env, flags, packages []string
}

// bounds are what a run must show, beside that nothing fails.
type bounds struct {
	strict bool // no test is skipped but for a reason of mayBeSkipped
	least  int  // this many tests passed
}

// plain is make test: every package, the slowest first. go vet has seen the sources in make lint.
func plain(packages []string, only string) []suite {
	flags := []string{"-count=1", "-vet=off", patience}
	if len(packages) > 0 {
		return []suite{{flags: append(flags, "-run="+only), packages: packages}}
	}
	return []suite{
		{flags: append(flags, "-run="+only), packages: []string{"./lab/e2e/inprocess", "./cmd/gpuaasctl", "./..."}},
		oldTerminal(flags),
	}
}

// oldTerminal is the test of the agent that reports a terminal's success before it has one: a build of its own, for
// drills.
func oldTerminal(flags []string) suite {
	flags = append(slices.Clone(flags), "-tags=oldterminal", "-run=TestOldTerminal")
	return suite{flags: flags, packages: []string{"./agent"}}
}

// test runs go test with the suite's flags and more, into s.
func (u suite) test(ctx context.Context, s io.Writer, more ...string) error {
	argv := slices.Concat([]string{"test", "-json"}, u.flags, more)
	cmd := inGroup(ctx, 20*time.Second, "go", argv...)
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // a property's failure would be repeated alone from a file
	if os.Getenv("GOGC") == "" {
		cmd.Env = append(cmd.Env, "GOGC=400") // compilers and tests end before their garbage is a problem
	}
	cmd.Env = append(cmd.Env, u.env...)
	cmd.Stdout, cmd.Stderr = s, os.Stderr
	return cmd.Run()
}

// inGroup is a program in a process group of its own. At the end of ctx the group is asked to end; it has grace for
// that.
func inGroup(ctx context.Context, grace time.Duration, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd
}

// runSuites runs suites one after the other, tries failed tests once more, and prints what came of all.
func runSuites(ctx context.Context, out io.Writer, suites []suite, b bounds) error {
	began := time.Now()
	total := report{}
	for _, u := range suites {
		s := newStream(out)
		err := u.test(ctx, s, u.packages...)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		unstable, failed := u.retry(ctx, s)
		if err != nil && len(s.broken) == 0 {
			failed = append(failed, ended{test: "go " + strings.Join(u.flags, " ") + ": " + err.Error()})
		}
		total.add(s, unstable, failed)
	}
	return total.print(out, time.Since(began), b)
}

// final are signs of a failure that counts even if it does not repeat.
var final = regexp.MustCompile(`(?m)WARNING: DATA RACE|^panic: |^fatal error: |\[(build|setup) failed\]`)

func (e ended) final() bool { return final.MatchString(e.output) }

// retry tries failed tests once more, each by its name, and returns those that passed and those that failed again.
func (u suite) retry(ctx context.Context, s *stream) (unstable, failed []ended) {
	leaves := innermost(s.failed)
	for _, p := range s.broken {
		own := slices.DeleteFunc(slices.Clone(leaves), func(e ended) bool { return e.pkg != p.pkg })
		switch {
		case len(own) == 0: // it failed as a whole
			failed = append(failed, p)
		case len(leaves) > maxRetries, slices.ContainsFunc(append(own, p), ended.final):
			failed = append(failed, own...)
		default:
			for _, e := range own {
				var out bytes.Buffer
				if u.test(ctx, newStream(&out), "-run="+exactly(e.test), e.pkg) == nil {
					unstable = append(unstable, e)
				} else {
					failed = append(failed, e)
				}
			}
		}
	}
	return unstable, failed
}

// innermost returns the failed tests none of whose subtests failed.
func innermost(failed []ended) (leaves []ended) {
	for _, e := range failed {
		if !slices.ContainsFunc(failed, func(sub ended) bool {
			return sub.pkg == e.pkg && strings.HasPrefix(sub.test, e.test+"/")
		}) {
			leaves = append(leaves, e)
		}
	}
	return leaves
}

// exactly is the expression of go test for one test: TestA/x is ^TestA$/^x$.
func exactly(test string) string {
	levels := strings.Split(test, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}

// report is what came of suites.
type report struct {
	passed, packages, skipped []ended
	unstable, failed          []ended
}

func (r *report) add(s *stream, unstable, failed []ended) {
	r.passed, r.packages = append(r.passed, s.passed...), append(r.packages, s.packages...)
	r.skipped = append(r.skipped, s.skipped...)
	r.unstable, r.failed = append(r.unstable, unstable...), append(r.failed, failed...)
}

// slowest is how many packages and tests are listed by their time.
const slowest = 8

// print prints the slowest, what was skipped, what is unstable and what failed, and last the counts. The error says
// what the bounds refuse.
func (r *report) print(out io.Writer, took time.Duration, b bounds) error {
	list(out, "the slowest packages", r.packages)
	list(out, "the slowest tests", r.passed)
	lacking := r.printSkips(out)
	for _, e := range r.unstable {
		fmt.Fprintf(out, "\nunstable: %s failed, and passed when it was tried once more:\n%s", e,
			strings.ReplaceAll(e.output, "--- FAIL", "... FAIL"))
	}
	for _, e := range r.failed {
		fmt.Fprintf(out, "\nfailed: %s\n%s", e, e.output)
	}
	failed := len(r.failed)
	if b.strict {
		failed += len(lacking)
	}
	fmt.Fprintf(out, "\n%s, %s\n", counts{len(r.passed), len(r.skipped), len(r.unstable), failed},
		took.Round(time.Second))
	var wrong []error
	for _, e := range r.failed {
		wrong = append(wrong, fmt.Errorf("failed: %s", e))
	}
	for _, e := range lacking {
		if b.strict {
			wrong = append(wrong, fmt.Errorf("skipped: %s: %q", e, e.reason()))
		}
	}
	if len(r.passed) < b.least {
		wrong = append(wrong, fmt.Errorf("%d tests passed, want at least %d", len(r.passed), b.least))
	}
	return errors.Join(wrong...)
}

// list prints the slowest.
func list(out io.Writer, title string, all []ended) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b ended) int { return int(1000*b.seconds) - int(1000*a.seconds) })
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, e := range all[:min(len(all), slowest)] {
		fmt.Fprintf(out, "%8.1fs  %s\n", e.seconds, e)
	}
}
