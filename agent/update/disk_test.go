package update

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// programOf returns the head of a program for a machine.
func programOf(kind, machine byte) string {
	return elfMagic + strings.Repeat("\x00", 10) + string([]byte{kind, 0, machine, 0}) + "rest"
}

var ownMachine = map[string]byte{"amd64": elfX86, "arm64": elfARM64}[runtime.GOARCH]

func shaOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestPackagesAreChecked: a package gets its name once it has its digest and is a program for this machine.
func TestPackagesAreChecked(t *testing.T) {
	good := programOf(elfExec, ownMachine)
	for name, tc := range map[string]struct {
		text string
		sha  string
		want string
	}{
		"a program":         {good, shaOf(good), ""},
		"one to be moved":   {programOf(elfDyn, ownMachine), shaOf(programOf(elfDyn, ownMachine)), ""},
		"the shortest":      {good[:20], shaOf(good[:20]), ""},
		"one byte less":     {good[:19], shaOf(good[:19]), "is not a program"},
		"an object":         {programOf(1, ownMachine), shaOf(programOf(1, ownMachine)), "for machine"},
		"another machine's": {programOf(elfExec, 8), shaOf(programOf(elfExec, 8)), "for machine 8"},
		"a script":          {"#!/bin/sh\nexit 0 # no ELF", shaOf("#!/bin/sh\nexit 0 # no ELF"), "is not a program"},
		"another digest":    {good, shaOf("x"), ErrDigest.Error()},
	} {
		d, _ := durabletest.NewDir()
		p := Packages{Disk: d}
		gets := 0
		get := func(take func(io.Reader) error) error { gets++; return take(strings.NewReader(tc.text)) }
		err := p.Fetch(tc.sha, get)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) ||
			(p.Check(tc.sha) == nil) != (tc.want == "") {
			t.Errorf("%s: %v, then %v", name, err, p.Check(tc.sha))
		}
		if names, _ := d.List(dirVersions); tc.want != "" && len(names) > 0 {
			t.Errorf("%s: %v stays", name, names)
		}
		if again := p.Fetch(tc.sha, get); tc.want == "" && (again != nil || gets != 1) {
			t.Errorf("%s: fetched %d times, %v", name, gets, again)
		}
	}
}

// TestHeadsArriveInPieces: the head of a program is kept, however it is cut.
func TestHeadsArriveInPieces(t *testing.T) {
	good := programOf(elfExec, ownMachine)
	for _, piece := range []int{1, 3, 19, 20, 21} {
		var h header
		for pieces := range slices.Chunk([]byte(good), piece) {
			if n, err := h.Write(pieces); n != len(pieces) || err != nil {
				t.Fatal(n, err)
			}
		}
		if string(h.b) != good[:20] || h.runsHere() != nil {
			t.Errorf("in pieces of %d: %q, %v", piece, h.b, h.runsHere())
		}
	}
}

// TestPackagesOnTheDisk: a damaged file is not intact, and what is not kept is removed.
func TestPackagesOnTheDisk(t *testing.T) {
	d, _ := durabletest.NewDir()
	p := Packages{Disk: d}
	for _, sha := range []string{"a", "b", "c"} {
		if err := d.Write(name(sha), []byte(sha), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Check("a"); !errors.Is(err, ErrDigest) {
		t.Errorf("another digest: %v", err)
	}
	if err := p.Check("missing"); err == nil || errors.Is(err, ErrDigest) {
		t.Errorf("no file: %v", err)
	}
	if err := p.Prune([]string{"b"}); err != nil {
		t.Fatal(err)
	}
	if names, _ := d.List(dirVersions); !slices.Equal(names, []string{"b"}) {
		t.Errorf("left: %v", names)
	}
	if _, err := Digest(t.TempDir() + "/none"); err == nil {
		t.Error("a digest of no file")
	}
	if _, err := Digest(t.TempDir()); err == nil {
		t.Error("a digest of a folder")
	}
}

// TestDamagedJournals: a journal that cannot be used is kept aside, and a new one begins.
func TestDamagedJournals(t *testing.T) {
	store := func(Note) error { return nil }
	for text, kept := range map[string]bool{`{"format":1,"id":"j"}`: true, `{"format":2,"id":"j"}`: false,
		`{"format":1}`: false, "torn": false, `{"format":1,"id":"j","skip":7}`: false} {
		d, _ := durabletest.NewDir()
		if err := d.Write(fileJournal, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := Open(d, store)
		if err != nil {
			t.Fatal(err)
		}
		aside, _ := d.Read(fileDamaged)
		if j := k.Journal(); (j.ID == "j") != kept || j.ID == "" || j.Format != 1 || (string(aside) == text) == kept {
			t.Errorf("%s: %+v, aside %q", text, j, aside)
		}
	}
	disk := durabletest.New(false)
	d := durable.Dir{FS: disk, Root: "/state"}
	if err := d.Write(fileJournal, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk.Fault = func(string, string) error { return errors.New("read-only") }
	if k, err := Open(d, store); err == nil || k != nil {
		t.Errorf("a disk that takes nothing: %v, %v", k, err)
	}
}

// TestStepsAreOnTheDiskFirst: a step that cannot be written is not taken; a note that cannot be stored stays and is
// stored with the next step; a step that changes nothing writes nothing.
func TestStepsAreOnTheDiskFirst(t *testing.T) {
	disk := durabletest.New(false)
	d := durable.Dir{FS: disk, Root: "/state"}
	var stored []string
	var refuses error
	k, err := Open(d, func(n Note) error {
		if refuses == nil {
			stored = append(stored, n.Decision)
		}
		return refuses
	})
	if err != nil {
		t.Fatal(err)
	}
	noted := func(what string) func(Journal) Journal {
		return func(j Journal) Journal { return j.Recovered(what, testNow) }
	}
	if j, err := k.Do(noted("one")); err != nil || len(stored) != 1 || j.Noted != 1 ||
		len(k.Journal().Notes) != 0 {
		t.Errorf("%v, stored %v, %+v", err, stored, j)
	}
	before := disk.Len()
	if _, err := k.Do(func(j Journal) Journal { return j }); err != nil || disk.Len() != before {
		t.Errorf("a step that changes nothing: %v, %d writes", err, disk.Len()-before)
	}
	refuses = errors.New("full")
	if j, err := k.Do(noted("two")); err == nil || j.Noted != 2 ||
		len(k.Journal().Notes) != 1 {
		t.Errorf("a note that is not stored: %v, %+v", err, j)
	}
	refuses = nil
	again, err := Open(d, func(n Note) error { stored = append(stored, n.Text); return nil })
	if err != nil || len(again.Journal().Notes) != 0 || stored[len(stored)-1] != "two" {
		t.Errorf("the next start: %v, stored %v", err, stored)
	}
	disk.Fault = func(string, string) error { return errors.New("read-only") }
	if j, err := again.Do(noted("three")); err == nil || j.Noted != 2 || again.Journal().Noted != 2 {
		t.Errorf("a step that is not written: %v, %+v", err, j)
	}
	why := errors.New("cannot be read")
	if j, err := Unreadable(why).Do(noted("x")); !errors.Is(err, why) || j.Noted != 0 {
		t.Errorf("an unreadable journal: %v, %+v", err, j)
	}
}
