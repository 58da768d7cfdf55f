//go:build linux

package node

import (
	"context"

	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// at returns a change of a file, after Snapshot.
func at(t *testing.T, f step.File) (*System, Location) {
	t.Helper()
	s := &System{}
	location := Location{Run: "r", Step: "s", Change: step.Change{File: &f}}
	note, err := s.Snapshot(context.Background(), location)
	if err != nil {
		t.Fatal(err)
	}
	location.Note = note
	return s, location
}

func fine(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func looks(t *testing.T, s *System, location Location, want PlaceState) {
	t.Helper()
	got, err := s.Compare(context.Background(), location)
	if err != nil || got.State != want {
		t.Fatalf("looks like %v (%s) %v, want %v", got.State, got.Text, err, want)
	}
}

// TestFileComesBack requires the original inode, times and mode, not a copy of the content.
func TestFileComesBack(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]step.File{"other text": {Text: "drill"}, "empty": {}, "link": {Link: "/dev/null"},
		"absent": {Absent: true}} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(t.TempDir(), "f")
			fine(t, os.WriteFile(p, []byte("original"), 0o640))
			before, err := fileText(p)
			fine(t, err)
			change.Path = p
			s, location := at(t, change)
			looks(t, s, location, Before)
			fine(t, s.Make(ctx, location))
			looks(t, s, location, Injected)
			if now, _ := fileText(p); now == before {
				t.Fatal("nothing was done")
			}
			fine(t, s.Undo(ctx, location))
			looks(t, s, location, Before)
			if after, err := fileText(p); err != nil || after != before {
				t.Errorf("%s\n%s", before, after)
			}
			if entries, _ := os.ReadDir(filepath.Dir(p)); len(entries) != 1 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

// TestFileFolders: parent folders are removed again, unless another process uses them.
func TestFileFolders(t *testing.T) {
	ctx := context.Background()
	for _, foreign := range []bool{false, true} {
		dir := t.TempDir()
		s, location := at(t, step.File{Path: dir + "/a/b/f", Text: "drill"})
		fine(t, s.Make(ctx, location))
		if foreign {
			fine(t, os.WriteFile(dir+"/a/theirs", nil, 0o600))
		}
		fine(t, s.Undo(ctx, location))
		looks(t, s, location, Before)
		entries, _ := os.ReadDir(dir)
		if foreign != (len(entries) == 1) {
			t.Errorf("foreign %v: left %v", foreign, entries)
		}
	}
	dir := t.TempDir() // another process has removed the inner one
	s, location := at(t, step.File{Path: dir + "/a/b/f", Text: "drill"})
	fine(t, s.Make(ctx, location))
	fine(t, os.RemoveAll(dir+"/a/b"))
	looks(t, s, location, Injected)
	fine(t, s.Undo(ctx, location))
	looks(t, s, location, Before)
}

// TestFileForeign: another process's file stays, with the original next to it.
func TestFileForeign(t *testing.T) {
	ctx := context.Background()
	write := func(p, text string) func(*testing.T) {
		return func(t *testing.T) { fine(t, os.WriteFile(p, []byte(text), 0o600)) }
	}
	p := filepath.Join(t.TempDir(), "f")
	parked := step.Parked(p, "r", "s", 0)
	for name, tc := range map[string]struct {
		there  bool
		change step.File
		edit   func(*testing.T)
		want   PlaceState
	}{
		"edited":              {true, step.File{Text: "drill"}, write(p, "theirs"), Foreign},
		"created again":       {true, step.File{Absent: true}, write(p, "theirs"), Foreign},
		"edited, none before": {false, step.File{Text: "drill"}, write(p, "theirs"), Foreign},
		"removed":             {true, step.File{Text: "drill"}, func(t *testing.T) { fine(t, os.Remove(p)) }, Foreign},
		"removed, none was":   {false, step.File{Text: "drill"}, func(t *testing.T) { fine(t, os.Remove(p)) }, Before},
		"original removed": {true, step.File{Text: "drill"}, func(t *testing.T) { fine(t, os.Remove(parked)) },
			Foreign},
		"restored by hand": {true, step.File{Text: "drill"}, func(t *testing.T) { fine(t, os.Rename(parked, p)) },
			Before},
		"removed, and yields": {true, step.File{Text: "drill", Yields: true}, func(t *testing.T) {
			fine(t, os.Remove(p))
		}, Foreign},
		"replaced as it should be": {true, step.File{Text: "drill", Yields: true}, write(p, "theirs"), Injected},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(p)
			os.Remove(parked)
			if tc.there {
				write(p, "original")(t)
			}
			tc.change.Path = p
			s, location := at(t, tc.change)
			fine(t, s.Make(ctx, location))
			tc.edit(t)
			looks(t, s, location, tc.want)
			if tc.change.Yields && tc.want == Injected {
				fine(t, s.Undo(ctx, location))
				looks(t, s, location, Before)
				if b, _ := os.ReadFile(p); string(b) != "theirs" {
					t.Errorf("%q", b)
				}
			}
		})
	}
}

// TestFileJustNow: an edit between the comparison and the undo survives, and the original stays parked next to it.
func TestFileJustNow(t *testing.T) {
	for name, f := range map[string]step.File{"text": {Text: "drill"}, "absent": {Absent: true}} {
		p := filepath.Join(t.TempDir(), "f")
		fine(t, os.WriteFile(p, []byte("original"), 0o600))
		f.Path = p
		s, location := at(t, f)
		fine(t, s.Make(context.Background(), location))
		fine(t, os.WriteFile(p, []byte("theirs"), 0o600))
		if s.Undo(context.Background(), location) == nil {
			t.Errorf("%s: undone", name)
		}
		theirs, _ := os.ReadFile(p)
		original, _ := os.ReadFile(step.Parked(p, "r", "s", 0))
		if string(theirs) != "theirs" || string(original) != "original" {
			t.Errorf("%s: %q there, %q parked", name, theirs, original)
		}
	}
}

// TestFileStagedOver: a file that another process puts at the staging path, after the comparison, is theirs.
func TestFileStagedOver(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	fine(t, os.WriteFile(p, []byte("original"), 0o600))
	s, location := at(t, step.File{Path: p, Text: "drill"})
	parked := step.Parked(p, "r", "s", 0)
	fine(t, os.WriteFile(parked, []byte("theirs"), 0o600))
	if s.Make(context.Background(), location) == nil {
		t.Error("made over somebody's file")
	}
	theirs, _ := os.ReadFile(parked)
	original, _ := os.ReadFile(p)
	if string(theirs) != "theirs" || string(original) != "original" {
		t.Errorf("%q staged, %q there", theirs, original)
	}
}

// TestFileHalfWay: a crash between two system calls leaves a state that can be reverted.
func TestFileHalfWay(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	p := filepath.Join(dir, "f")
	fine(t, os.WriteFile(p, []byte("original"), 0o600))
	before, _ := fileText(p)
	s, location := at(t, step.File{Path: p, Text: "drill"})
	fine(t, os.WriteFile(step.Parked(p, "r", "s", 0), []byte("dri"), 0o600)) // died while staging
	looks(t, s, location, Injected)
	fine(t, s.Undo(ctx, location))
	looks(t, s, location, Before)
	fine(t, s.Make(ctx, location))
	fine(t, rename(step.Parked(p, "r", "s", 0), p, 2)) // died right after the reverse exchange
	looks(t, s, location, Injected)
	fine(t, s.Undo(ctx, location))
	looks(t, s, location, Before)
	if after, _ := fileText(p); after != before {
		t.Errorf("%s\n%s", before, after)
	}
	s, location = at(t, step.File{Path: dir + "/x/y", Text: "drill"})
	fine(t, os.Mkdir(dir+"/x", 0o755)) // died after the first folder
	looks(t, s, location, Injected)
	fine(t, s.Undo(ctx, location))
	looks(t, s, location, Before)
}

// TestFileRefuses checks that changes without an effect are refused.
func TestFileRefuses(t *testing.T) {
	dir := t.TempDir()
	fine(t, os.WriteFile(dir+"/f", []byte("same"), 0o600))
	for name, f := range map[string]step.File{
		"same": {Path: dir + "/f", Text: "same"}, "absent": {Path: dir + "/g", Absent: true},
		"folder": {Path: dir, Text: "x"},
	} {
		var s System
		at := Location{Run: "r", Step: "s", Change: step.Change{File: &f}}
		if note, err := s.Snapshot(context.Background(), at); err == nil {
			t.Errorf("%s: %s", name, note)
		}
	}
}
