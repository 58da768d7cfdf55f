package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBest: the file is valid, a figure that fell back is named with how much, chance is not, and only -keep writes
// what is better.
func TestBest(t *testing.T) {
	if _, err := readBest("best.yaml"); err != nil {
		t.Fatal(err)
	}
	const head = "# The best.\n"
	path := filepath.Join(t.TempDir(), "best.yaml")
	rows := head + "- figure: a ratio\n  best: 10\n  unit: x\n  since: \"2026-11-21\"\n" +
		"- figure: trips\n  best: 8\n  unit: round trips\n  since: \"2026-11-21\"\n"
	for name, c := range map[string]struct {
		ratio, trips float64
		want         [2]string // what is said of each
		fell         bool
	}{
		"as before":     {10, 8, [2]string{"", ""}, false},
		"by chance":     {9.6, 8.4, [2]string{"", ""}, false},
		"fell back":     {8, 9.2, [2]string{"FELL BACK: 20 % less", "FELL BACK: 1.2 more"}, true},
		"better":        {12, 7, [2]string{"better than ever", "better than ever"}, false},
		"one of each":   {12, 10.8, [2]string{"better than ever", "FELL BACK: 2.8 more"}, true},
		"only in print": {10.04, 7.96, [2]string{"", ""}, false},
	} {
		if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
		tb := &table{Began: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
		tb.keep("a ratio", c.ratio, unitRatio)
		tb.keep("trips", c.trips, unitTrips)
		if err := tb.compareBest(path, false); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := tb.Lines[i].Against; got != want {
				t.Errorf("%s: %s is %q, want %q", name, tb.Lines[i].What, got, want)
			}
		}
		if fell := len(tb.Notes) == 1 && strings.Contains(tb.Notes[0], "FELL BACK"); fell != c.fell {
			t.Errorf("%s: notes %q", name, tb.Notes)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != rows {
			t.Errorf("%s: the file is changed without -keep: %v\n%s", name, err, now)
		}
	}
	tb := &table{Began: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
	tb.keep("a ratio", 12.34, unitRatio)
	tb.keep("trips", 9, unitTrips)
	tb.keep("a new one", 3, unitTrips)
	if err := tb.compareBest(path, true); err != nil {
		t.Fatal(err)
	}
	all, err := readBest(path)
	want := []kept{{"a new one", 3, unitTrips, "2026-11-28"}, {"a ratio", 12.3, unitRatio, "2026-11-28"},
		{"trips", 8, unitTrips, "2026-11-21"}}
	if err != nil || len(all) != len(want) {
		t.Fatalf("%v %+v", err, all)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("row %d is %+v, want %+v", i, all[i], want[i])
		}
	}
	if now, _ := os.ReadFile(path); !strings.HasPrefix(string(now), head) {
		t.Errorf("the comment is gone:\n%s", now)
	}
}

// TestBadBest: a row without a value or unit, or twice, is refused.
func TestBadBest(t *testing.T) {
	const row = "- figure: a\n  best: 1\n  unit: x\n"
	for name, text := range map[string]string{
		"twice": row + row, "no value": "- figure: a\n  unit: x\n", "another unit": "- figure: a\n  best: 1\n  unit: s\n",
		"another field": row + "  worst: 2\n", "no list": "figure: a\n",
	} {
		path := filepath.Join(t.TempDir(), "best.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := readBest(path); err == nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestWritePaths: the traced paths replace the block of the page, and nothing else.
func TestWritePaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wire.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tb := &table{}
	tb.addPath(tripPath{"cold walk", "node", [][]string{{"TCP"}, {"a", "b"}}})
	write("before\n" + wireBegins + "old\n" + wireEnds + "after\n")
	if err := tb.writePaths(path, true); err != nil {
		t.Fatal(err)
	}
	want := "before\n" + wireBegins + "**cold walk, to the node: 2**\n\n| trip | what is sent |\n|--:|---|\n" +
		"| 1 | TCP |\n| 2 | a, b |\n" + wireEnds + "after\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	write("no block\n")
	if err := tb.writePaths(path, true); err == nil {
		t.Error("a page without a block is no error")
	}
}
