package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func rowsOf(lines ...string) (rows []row) {
	for _, line := range lines {
		f := strings.Fields(line)
		kind, name, _ := strings.Cut(f[0], ":")
		rows = append(rows, row{kind: kind, name: name, files: f[1:]})
	}
	return rows
}

func set(files ...string) map[string]bool {
	s := map[string]bool{}
	for _, f := range files {
		s[f] = true
	}
	return s
}

func names(rows []row) (all []string) {
	for _, r := range rows {
		all = append(all, r.String())
	}
	return all
}

func dueNames(all []due) (names []string) {
	for _, d := range all {
		names = append(names, d.row.String())
	}
	return names
}

// TestChooseExercisesWhatChanged: for every seed, what is tried exercises all changed files before any of them twice.
func TestChooseExercisesWhatChanged(t *testing.T) {
	rows := rowsOf("fault:a hop.go", "fault:b hop.go probe.go", "fault:c kind.go", "drill:a hop.go", "drill:b other.go")
	for seed := range uint64(20) {
		s := choose(set("hop.go", "probe.go", "kind.go"), rows, 2, 0, seed)
		if got := dueNames(s.due); !slices.Equal(got, []string{"fault:b", "fault:c"}) {
			t.Errorf("seed %d: due %v", seed, got)
		}
		left := dueNames(s.left)
		slices.Sort(left)
		if !slices.Equal(left, []string{"drill:a", "fault:a"}) || s.left[0].why != coveredWhy || len(s.drawn) != 0 {
			t.Errorf("seed %d: left out %v (%s), drawn %v", seed, left, s.left[0].why, s.drawn)
		}
		if got := dueNames(choose(set("hop.go", "kind.go"), rows, 9, 0, seed).due); len(got) != 4 {
			t.Errorf("seed %d: with room for all, due %v", seed, got)
		}
	}
}

// TestChooseSaysThatTheBoundLeftOut: a changed file that nothing tried exercises has its own reason.
func TestChooseSaysThatTheBoundLeftOut(t *testing.T) {
	rows := rowsOf("fault:a x.go y.go", "fault:b z.go")
	s := choose(set("x.go", "y.go", "z.go"), rows, 1, 6, 1)
	if len(s.left) != 1 || s.left[0].row.name != "b" || s.left[0].why != boundWhy {
		t.Errorf("left out %v", s.left)
	}
	if got := names(s.drawn); !slices.Equal(got, []string{"fault:b"}) { // what is left can be drawn, and only it
		t.Errorf("drawn %v", got)
	}
}

// TestChooseDrawsBySeed: a seed repeats what it drew, others draw other rows, and none draws what is due.
func TestChooseDrawsBySeed(t *testing.T) {
	var rows []row
	for i := range 40 {
		rows = append(rows, row{kind: "drill", name: fmt.Sprint(i), files: []string{fmt.Sprintf("%d.go", i)}})
	}
	drawn := map[string]bool{}
	for seed := range uint64(100) {
		s := choose(set("3.go"), rows, 8, 6, seed)
		all := names(s.rows())
		if again := names(choose(set("3.go"), rows, 8, 6, seed).rows()); !slices.Equal(all, again) {
			t.Fatalf("seed %d: %v, then %v", seed, all, again)
		}
		if len(s.due) != 1 || len(s.drawn) != 6 || slices.Index(all, "drill:3") != 0 ||
			len(slices.Compact(slices.Sorted(slices.Values(all)))) != 7 {
			t.Errorf("seed %d: %v", seed, all)
		}
		for _, name := range all {
			drawn[name] = true
		}
	}
	if len(drawn) != 40 {
		t.Errorf("100 seeds draw %d rows of 40", len(drawn))
	}
	if s := choose(nil, rows, 8, 6, 1); len(s.due) != 0 || len(s.drawn) != 6 {
		t.Errorf("without a history: %v", s)
	}
}
