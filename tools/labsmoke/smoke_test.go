package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExpressionMatchesRows: the rows' tests are matched, level by level as go test does, and no other ones are.
func TestExpressionMatchesRows(t *testing.T) {
	want, run, env := expression(rowsOf("fault:disk-full", "drill:agent-stopped", "fault:pty-delayed", "drill:disk-full"))
	all := []string{"TestFaults/disk-full", "TestFaults/pty-delayed", "drill:agent-stopped", "drill:disk-full"}
	if !slices.Equal(want, all) ||
		!slices.Equal(env, []string{"GPUAASCTL_DRILLS=agent-stopped,disk-full"}) {
		t.Error(want, env)
	}
	levels := strings.Split(run, "/")
	for name, matched := range map[string]bool{
		"TestFaults/disk-full": true, "TestFaults/root-disk-full": false, "TestFaults/pty-delayed": true,
		"TestDrills/platform": true, "TestDrills/nodes/agent-stopped": true, "TestFaultsX": false, "TestHealthy": false,
	} {
		is := true
		for i, part := range strings.Split(name, "/") {
			is = is && (i >= len(levels) || regexp.MustCompile(levels[i]).MatchString(part))
		}
		if is != matched {
			t.Errorf("%s matches %s: %t", run, name, is)
		}
	}
	if _, run, env := expression(rowsOf("fault:disk-full")); strings.Contains(run, "Drills") || env != nil {
		t.Errorf("drills without one: %s %v", run, env)
	}
}

// TestWhatDidNotRunIsFound: a test or a drill that the output does not name as passed is missing.
func TestWhatDidNotRunIsFound(t *testing.T) {
	const log = `=== RUN   TestFaults/disk-full
    --- PASS: TestFaults/disk-full (8.61s)
    --- FAIL: TestFaults/pty-delayed (8.61s)
    drills_test.go:146: agent-stopped on compute-node-01: pass, detected within 6.2 s of 30 s, recovered, in 9 s
    drills_test.go:146: api-dns-broken on compute-node-01: fail, detected never, recovered, in 9 s
`
	missing := notPassed(log, []string{"TestFaults/disk-full", "TestFaults/pty-delayed", "TestFaults/agent-stopped",
		"drill:agent-stopped", "drill:api-dns-broken", "drill:disk-full"})
	want := []string{"TestFaults/pty-delayed", "TestFaults/agent-stopped", "drill:api-dns-broken", "drill:disk-full"}
	if !slices.Equal(missing, want) {
		t.Errorf("missing %v", missing)
	}
}

// TestOptions: a run says how to repeat it.
func TestOptions(t *testing.T) {
	o, err := parse([]string{"-due", "3"}, func(string) string { return "42" })
	if err != nil || o.command() != "go run ./tools/labsmoke -seed 42 -commits 50 -due 3 -draw 6" {
		t.Errorf("%q, %v", o.command(), err)
	}
	if o, err = parse(nil, func(string) string { return "" }); err != nil || o.seed == 0 {
		t.Errorf("no seed of the hour: %d, %v", o.seed, err)
	}
	for _, wrong := range [][]string{{"-seed", "x"}, {"disk-full"}} {
		if _, err := parse(wrong, func(string) string { return "" }); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
	if _, err := selected(t.Context(), nil, options{rows: "fault:unknown"}); err == nil {
		t.Error("an unknown row is accepted")
	}
}
