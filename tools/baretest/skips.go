//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// mayBeSkipped are the accepted reasons for skipping a test when root runs the tests on a machine that has what
// README.md requires.
var mayBeSkipped = [...]struct {
	reason *regexp.Regexp
	why    string
}{
	{regexp.MustCompile(`needs GPUAASCTL_(LAB|MATRIX)_TESTS=1`), "the lab suite is run by make test-lab"},
	{regexp.MustCompile(`GPUAASCTL_AXE`), "pages are looked at in a browser by make test-html"},
	{regexp.MustCompile(`^root may$`), "what only others than root are refused"},
	{regexp.MustCompile(`needs OpenSSH's sshd`), "its package would start a server on the user's host; run at the end"},
	{regexp.MustCompile(`needs a C compiler`), "gpuaas-gpu-probe is built without NVML there, which is all of it"},
	{regexp.MustCompile(`needs GPUAAS_NVML_LIBRARY`), "a driver's library is brought by hand"},
	{regexp.MustCompile(`needs (libnvidia-\S+|python3-pynvml|nvtop|libncursesw6|python3) \(`), "from Debian's contrib and non-free, for " +
		"gpuaas-gpu-probe with NVML, which is not built there"},
	{regexp.MustCompile(`needs systemd-analyze`), "it comes with the lab's packages; make test-lab runs that test, too"},
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// summary reads the output of make and `go test -json`. It shows a line for each package, everything that failed, and
// lines that are not events.
type summary struct {
	out     io.Writer
	partial []byte              // a line that has not ended yet
	printed map[string][]string // what each test printed, by package and name
	passed  int
	allowed int
	wrongs  []string
}

func newSummary(out io.Writer) *summary { return &summary{out: out, printed: map[string][]string{}} }

// Write adds a part of the stream.
func (s *summary) Write(b []byte) (int, error) {
	s.partial = append(s.partial, b...)
	for {
		line, rest, whole := strings.Cut(string(s.partial), "\n")
		if !whole {
			return len(b), nil
		}
		s.partial = []byte(rest)
		var e event
		if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
			fmt.Fprintln(s.out, line)
			continue
		}
		s.take(e)
	}
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Test == "" {
			fmt.Fprint(s.out, e.Output)
			return
		}
		s.printed[key] = append(s.printed[key], e.Output)
		return
	case "pass":
		if e.Test != "" {
			s.passed++
		}
	case "fail":
		fmt.Fprint(s.out, strings.Join(s.printed[key], ""))
		s.wrongs = append(s.wrongs, "failed: "+key)
	case "skip":
		if e.Test != "" {
			s.skip(key)
		}
	}
	delete(s.printed, key)
}

// skipReason matches the line that testing prints for t.Skip: "    x_test.go:12: skipped: needs nft".
var skipReason = regexp.MustCompile(`^\s+\S+\.go:\d+: (?:skipped: )?(.+)`)

func (s *summary) skip(key string) {
	reason := ""
	for _, line := range s.printed[key] {
		if m := skipReason.FindStringSubmatch(line); m != nil {
			reason = strings.TrimSpace(m[1])
		}
	}
	for _, may := range mayBeSkipped {
		if may.reason.MatchString(reason) {
			s.allowed++
			return
		}
	}
	s.wrongs = append(s.wrongs, fmt.Sprintf("skipped: %s: %q", key, reason))
}

// leastPassed is how many tests must pass in a run of all packages, so that running nothing is not a success.
const leastPassed = 1000

// leastOf returns leastPassed, or 0 if only some packages were selected.
func leastOf(packages []string) int {
	if len(packages) > 0 && !slices.Contains(packages, "./...") {
		return 1
	}
	return leastPassed
}

// wrong lists what kept the run from showing that a bare machine suffices. least tests must have passed.
func (s *summary) wrong(least int) []string {
	all := slices.Clone(s.wrongs)
	if s.passed < least {
		all = append(all, fmt.Sprintf("%d tests passed, want at least %d", s.passed, least))
	}
	return all
}

func (s *summary) counts() string {
	return fmt.Sprintf("%d passed, %d skipped as expected, %d failed or skipped for lack of something",
		s.passed, s.allowed, len(s.wrongs))
}
