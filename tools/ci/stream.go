package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// maxOutput bounds what is kept of one test's output, in bytes: its beginning.
const maxOutput = 1 << 20

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// ended is a test or a package that has ended.
type ended struct {
	pkg, test string
	seconds   float64
	output    string // of a failure or a skip
}

func (e ended) String() string { return strings.TrimSpace(short(e.pkg) + " " + e.test) }

// stream reads `go test -json`, printing a line for each package. Other lines are printed as they are.
type stream struct {
	out      io.Writer
	partial  []byte // a line that has not ended yet
	printed  map[string]*strings.Builder
	counts   map[string]int // of the running packages: tests that passed
	passed   []ended        // tests
	failed   []ended        // tests, innermost first, as go test reports them
	skipped  []ended        // tests
	packages []ended        // that ran
	broken   []ended        // packages that failed
}

func newStream(out io.Writer) *stream {
	return &stream{out: out, printed: map[string]*strings.Builder{}, counts: map[string]int{}}
}

// Write adds a part of the stream.
func (s *stream) Write(b []byte) (int, error) {
	s.partial = append(s.partial, b...)
	for {
		line, rest, whole := bytes.Cut(s.partial, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		s.partial = rest
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			fmt.Fprintf(s.out, "%s\n", line)
			continue
		}
		s.add(e)
	}
}

func (s *stream) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if s.printed[key] == nil {
			s.printed[key] = &strings.Builder{}
		}
		if s.printed[key].Len() < maxOutput {
			s.printed[key].WriteString(e.Output)
		}
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass", "fail", "skip":
		done := ended{pkg: e.Package, test: e.Test, seconds: e.Elapsed}
		if b := s.printed[key]; b != nil {
			done.output = b.String()
		}
		delete(s.printed, key)
		s.end(e.Action, done)
	}
}

// end adds a test or a package that has ended.
func (s *stream) end(how string, e ended) {
	switch {
	case e.test == "" && how == "skip": // it has no tests
	case e.test == "":
		s.packages = append(s.packages, e)
		word := "ok  "
		if how == "fail" {
			word = "FAIL"
			e.output += s.unfinished(e.pkg)
			s.broken = append(s.broken, e)
		}
		fmt.Fprintf(s.out, "%s %7.1fs  %s, %d passed\n", word, e.seconds, short(e.pkg), s.counts[e.pkg])
	case how == "pass":
		s.counts[e.pkg]++
		e.output = ""
		s.passed = append(s.passed, e)
	case how == "fail":
		s.failed = append(s.failed, e)
	default:
		s.skipped = append(s.skipped, e)
	}
}

// unfinished returns what tests printed that had not ended when their package did: it panicked, or was stopped.
func (s *stream) unfinished(pkg string) string {
	var all strings.Builder
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for key := range s.printed {
			if strings.HasPrefix(key, pkg+" ") && !yield(key) {
				return
			}
		}
	}) {
		all.WriteString(s.printed[key].String())
		delete(s.printed, key)
	}
	return all.String()
}

// skipReason matches the line that testing prints for t.Skip: "    x_test.go:12: skipped: needs nft".
var skipReason = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (?:skipped: )?(.+)$`)

// reason returns why a test was skipped.
func (e *ended) reason() string {
	all := skipReason.FindAllStringSubmatch(e.output, -1)
	if len(all) == 0 {
		return ""
	}
	return strings.TrimSpace(all[len(all)-1][1])
}

// short is a package's folder.
func short(pkg string) string { return strings.TrimPrefix(pkg, module) }

// module is the beginning of this module's packages.
const module = "github.com/gpuaas/gpuaasctl/"
