package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

const root = "../.."

// TestEveryRowCanBeDue: every fault and every drill is a row, of which some change in the sources makes it due; every
// hop and every kind of fault has a source.
func TestEveryRowCanBeDue(t *testing.T) {
	rows, err := allRows(root)
	if err != nil {
		t.Fatal(err)
	}
	drills, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(golden.Faults()) + len(drills); len(rows) != want || want < 90 {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		if r.hop != "none" && !slices.ContainsFunc(r.files, func(f string) bool {
			return strings.HasPrefix(f,
				"preflight/")
		}) {
			t.Errorf("%s: no file of its hop: %q", r, r.files)
		}
		for _, f := range r.files {
			path, _, _ := strings.Cut(f, "#")
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %v", r, err)
			}
		}
	}
	src, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range preflight.Chain() {
		if len(src.hops[h.ID]) == 0 {
			t.Errorf("%s has no source", h.ID)
		}
	}
	for _, k := range chaos.Kinds() {
		if src.kinds[k.Name] == "" {
			t.Errorf("%s has no source", k.Name)
		}
	}
}

// TestChoose: few rows exercise all that changed, the bound holds, and the seed draws others.
func TestChoose(t *testing.T) {
	rows := []row{
		{kind: "fault", name: "a", files: []string{"x", "y"}}, {kind: "fault", name: "b", files: []string{"x"}},
		{kind: "drill", name: "c", files: []string{"z"}}, {kind: "drill", name: "d", files: []string{"w"}},
		{kind: "drill", name: "e"}, {kind: "fault", name: "f"},
	}
	changed := map[string]bool{"x": true, "y": true, "z": true}
	s := choose(changed, rows, 8, 2, 1)
	if got := s.names("fault"); !slices.Contains(got, "a") || len(s.due) != 2 || len(s.drawn) != 2 {
		t.Errorf("due %v, drawn %v", s.due, s.drawn)
	}
	if len(s.left) != 1 || s.left[0].row.name != "b" || s.left[0].why != coveredWhy {
		t.Errorf("left %v", s.left)
	}
	if s := choose(changed, rows, 1, 0, 1); len(s.due) != 1 || s.due[0].row.name != "a" ||
		!slices.ContainsFunc(s.left, func(d due) bool { return d.row.name == "c" && d.why == boundWhy }) {
		t.Errorf("due %v, left %v", s.due, s.left)
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		for _, r := range choose(nil, rows, 8, 2, seed).drawn {
			seen[r.name] = true
		}
	}
	if len(seen) != len(rows) {
		t.Errorf("of 20 seeds only %v were drawn", slices.Sorted(maps.Keys(seen)))
	}
}

// TestExpression: the expression matches the selected tests of the lab suite and no others.
func TestExpression(t *testing.T) {
	s := selection{drawn: []row{{kind: "fault", name: "a"}, {kind: "drill", name: "d"}}}
	levels := strings.Split(s.expression(), "/")
	matches := func(test string) bool {
		for i, part := range strings.Split(test, "/") {
			if i < len(levels) && !regexp.MustCompile(levels[i]).MatchString(part) {
				return false
			}
		}
		return true
	}
	for test, want := range map[string]bool{"TestHealthyAgainAndAgain": true, "TestFaults/a": true, "TestFaults/ab": false,
		"TestDrills/nodes/d": true, "TestDrills/platform": true, "TestCrashMatrix/a": false} {
		if matches(test) != want {
			t.Errorf("%s: %s matches: %t", s.expression(), test, !want)
		}
	}
	if s := (selection{}); s.expression() != "^(TestHealthyAgainAndAgain)$/^()$" {
		t.Errorf("of none: %s", s.expression())
	}
	if got := s.env(); !slices.Equal(got, []string{"GPUAASCTL_DRILLS=d"}) {
		t.Errorf("%q", got)
	}
}

// TestIdleLines: a moved file, and one whose imports or comments differ, has not changed.
func TestIdleLines(t *testing.T) {
	diff := `diff --git a/old.go b/new.go
similarity index 98%
rename from old.go
rename to new.go
--- a/old.go
+++ b/new.go
@@ -3 +3 @@ package p
-	"github.com/x/old"
+	"github.com/x/new"
@@ -9,0 +10 @@ func f() {
+	// a comment
diff --git a/b.go b/b.go
--- a/b.go
+++ b/b.go
@@ -5 +5 @@ func g() {
-	return 1
+	return 2
diff --git a/gone.yaml b/gone.yaml
--- a/gone.yaml
+++ /dev/null
@@ -1 +0,0 @@
-a: 1
`
	got := changedLines(diff)
	if len(got) != 2 || !slices.Equal(got["b.go"], []int{5, 5}) || len(got["gone.yaml"]) != 1 {
		t.Errorf("%v", got)
	}
}
