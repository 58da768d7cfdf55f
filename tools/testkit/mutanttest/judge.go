package mutanttest

import (
	"encoding/json"
	"regexp"
	"strings"
)

// result is what a mutant's test shows about the mutant.
type result string

const (
	killed  result = "killed"  // the test failed
	skipped result = "skipped" // the test, or a part of it, was skipped: another machine may detect the mutant
	lives   result = "lives"   // the test ran and passed, or did not get to run
)

// passed is why a mutant lives whose test ran to its end.
const passed = "it passed"

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action string // "run", "output", "pass", "fail", "skip"
	Test   string // "TestX/part"; absent in lines about the package
	Output string
}

// skipReason matches the line that testing prints for t.Skip: "    x_test.go:12: skipped: needs nft".
var skipReason = regexp.MustCompile(`^\s+\S+\.go:\d+: (?:skipped: )?(.+)`)

// judge reads the output of a test's program as events, as of `go test -json -run ^test$`. why explains the result: for
// skipped, it is the reason of the test or of its first skipped part.
func judge(out []byte, test string) (r result, why string) {
	ended := map[string]string{} // how each test ended, by its name
	reason := map[string]string{}
	failed, partSkipped := false, ""
	for _, e := range events(out) {
		if e.Test != test && !strings.HasPrefix(e.Test, test+"/") {
			continue
		}
		switch e.Action {
		case "output":
			failed = failed || strings.HasPrefix(e.Output, "--- FAIL: "+test+" ")
			if m := skipReason.FindStringSubmatch(e.Output); m != nil {
				reason[e.Test] = strings.TrimSpace(m[1]) // the last one is from t.Skip
			}
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
			if e.Action == "skip" && e.Test != test && partSkipped == "" {
				partSkipped = e.Test
			}
		}
	}
	switch {
	case failed:
		return killed, "it failed"
	case ended[test] == "" || ended[test] == "fail": // test2json's word for a program that ended early
		return lives, "the test did not run to its end"
	case ended[test] == "skip":
		return skipped, reason[test]
	case partSkipped != "":
		return skipped, partSkipped + ": " + reason[partSkipped]
	}
	return lives, passed
}

// events returns the lines of out that are events; the go command also prints plain text.
func events(out []byte) []event {
	var all []event
	for line := range strings.Lines(string(out)) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			all = append(all, e)
		}
	}
	return all
}

// printed returns the readable part of out: the output in the events, and the lines that are not events.
func printed(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			line = e.Output
		}
		b.WriteString(line)
	}
	return b.String()
}
