package owned

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// stranger is the id of a user who is neither root nor the caller.
const stranger = 65534

// TestWhoseFile makes every kind of file and path, and checks which may be used.
func TestWhoseFile(t *testing.T) {
	me := os.Geteuid()
	for _, c := range [...]struct {
		name string
		make func(t *testing.T, dir string) string // returns the file to open
		want string                                // in the error; "" if the file may be used
	}{
		{"ours", func(t *testing.T, dir string) string { return file(t, dir+"/f", me, 0o644) }, ""},
		{"a stranger's", func(t *testing.T, dir string) string { return file(t, dir+"/f", stranger, 0o600) },
			"/f belongs to user 65534"},
		{"writable by all", func(t *testing.T, dir string) string { return file(t, dir+"/f", me, 0o666) },
			"can be written by others (mode 0666); run: chmod go-w "},
		{"writable by root's group", func(t *testing.T, dir string) string { return file(t, dir+"/f", 0, 0o664) }, ""},
		{"by a stranger's link in our folder", func(t *testing.T, dir string) string {
			file(t, dir+"/f", me, 0o644)
			return link(t, dir+"/l", "f", stranger)
		}, ""},
		{"by forty links", func(t *testing.T, dir string) string { return links(t, dir, 40) }, ""},
		{"by more", func(t *testing.T, dir string) string { return links(t, dir, 41) }, "too many levels of symbolic links"},
		{"writable by its group, a folder", func(t *testing.T, dir string) string {
			return file(t, groupFile(t, folder(t, dir+"/d", me, 0o775))+"/f", me, 0o644)
		}, "/d can be written by its group (mode 0775); run: chmod go-w "},
		{"none", func(t *testing.T, dir string) string { return dir + "/none" }, "no such file"},
		{"by a link to none", func(t *testing.T, dir string) string { return link(t, dir+"/l", "none", me) }, "no such file"},
		{"writable by an unknown group", func(t *testing.T, dir string) string {
			return groupFile(t, file(t, dir+"/f", me, 0o664))
		}, "can be written by others (mode 0664)"},
		{"in a stranger's folder", func(t *testing.T, dir string) string {
			return file(t, folder(t, dir+"/d", stranger, 0o755)+"/f", me, 0o644)
		}, "/d belongs to user 65534"},
		{"below a stranger's folder", func(t *testing.T, dir string) string {
			folder(t, dir+"/d", stranger, 0o755)
			return file(t, folder(t, dir+"/d/e", me, 0o755)+"/f", me, 0o644)
		}, "/d belongs to user 65534"},
		{"in a folder of all", func(t *testing.T, dir string) string {
			return file(t, folder(t, dir+"/d", me, 0o777)+"/f", me, 0o644)
		}, "/d can be written by others (mode 0777); run: chmod go-w "},
		{"ours in a sticky folder", func(t *testing.T, dir string) string {
			return file(t, folder(t, dir+"/d", me, 0o777|os.ModeSticky)+"/f", me, 0o644)
		}, ""},
		{"a stranger's in a sticky folder", func(t *testing.T, dir string) string {
			return file(t, folder(t, dir+"/d", me, 0o777|os.ModeSticky)+"/f", stranger, 0o644)
		}, "/d/f belongs to user 65534"},
		{"in a stranger's folder in a sticky folder", func(t *testing.T, dir string) string {
			folder(t, dir+"/d", me, 0o777|os.ModeSticky)
			return file(t, folder(t, dir+"/d/e", stranger, 0o755)+"/f", me, 0o644)
		}, "/d/e belongs to user 65534"},
		{"by our link", func(t *testing.T, dir string) string {
			file(t, dir+"/f", me, 0o644)
			return link(t, dir+"/l", "f", me)
		}, ""},
		{"by our link to a stranger's", func(t *testing.T, dir string) string {
			file(t, dir+"/f", stranger, 0o644)
			return link(t, dir+"/l", "f", me)
		}, "belongs to user 65534"},
		{"by our link into a folder of all", func(t *testing.T, dir string) string {
			file(t, folder(t, dir+"/d", me, 0o777)+"/f", me, 0o644)
			return link(t, dir+"/l", dir+"/d/f", me)
		}, "/d can be written by others"},
		{"by a stranger's link in a sticky folder", func(t *testing.T, dir string) string {
			file(t, dir+"/f", me, 0o644)
			return link(t, folder(t, dir+"/d", me, 0o777|os.ModeSticky)+"/l", dir+"/f", stranger)
		}, "/d/l belongs to user 65534"},
		{"by a linked folder, and its parent", func(t *testing.T, dir string) string {
			folder(t, dir+"/d", me, 0o755)
			folder(t, dir+"/d/e", me, 0o755)
			file(t, dir+"/d/f", me, 0o644)
			return link(t, dir+"/l", "d/e", me) + "/../f"
		}, ""},
		{"by our link in a sticky folder", func(t *testing.T, dir string) string {
			file(t, dir+"/f", me, 0o644)
			return link(t, folder(t, dir+"/d", me, 0o777|os.ModeSticky)+"/l", dir+"/f", me)
		}, ""},
		{"writable by all, by a process", func(t *testing.T, dir string) string {
			return byProcess(t, file(t, dir+"/f", me, 0o666), false)
		}, "can be written by others (mode 0666)"},
		{"removed, by a process", func(t *testing.T, dir string) string {
			return byProcess(t, file(t, dir+"/f", me, 0o600), true)
		}, ""},
		{"by a process", func(t *testing.T, dir string) string {
			return byProcess(t, file(t, dir+"/f", me, 0o644), false)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Open(c.make(t, t.TempDir()), Caller())
			if err == nil {
				f.Close()
			}
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestReplaced: a file that was opened and then replaced is not the one that the path leads to.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir+"/f", os.Geteuid(), 0o600)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(file(t, dir+"/g", os.Geteuid(), 0o600), path); err != nil {
		t.Fatal(err)
	}
	if err := Check(f, Caller()); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("%v, want that it was replaced", err)
	}
}

// TestPipe: a pipe has an owner, and no folders.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := Check(r, Caller()); err != nil {
		t.Error(err)
	}
	var wrong *Error
	if err := Check(r, Users{-1}); !errors.As(err, &wrong) {
		t.Errorf("%v, want that it belongs to another", err)
	}
}

// TestPrivateGroup: a group is private if it has no member but the users.
func TestPrivateGroup(t *testing.T) {
	const users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\nkim:x:1002:50::/:/\n"
	for groups, want := range map[string]bool{
		"ann:x:1000:\n":                false, // another group than the file's
		"g:x:7:\n":                     true,
		"g:x:7:ann\n":                  true,
		"g:x:7:root,ann":               true,
		"g:x:7:bob\n":                  false,
		"g:x:7:ann,bob\n":              false,
		"g:x:7:gone\n":                 false,
		"g:x:7:\nalias:x:7:bob\n":      false,
		"g:x:7\n":                      false,
		"":                             false,
		"other:x:17:ann\ng:x:7:ann\n":  true,
		"# comment\n\ng:x:7:ann:rest:": false,
	} {
		if got := (Users{0, 1000}).alone("7", groups, users); got != want {
			t.Errorf("%q: %v, want %v", groups, got, want)
		}
	}
	if (Users{0, 1000}).alone("50", "staff:x:50:\n", users) {
		t.Error("kim's primary group is private to ann")
	}
}

// TestWithProgram: who could have replaced this program is one of them.
func TestWithProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Dir(self))
	if err != nil {
		t.Fatal(err)
	}
	if !(Users{-1}).WithProgram().own(info) {
		t.Errorf("the owner of %s is missing", filepath.Dir(self))
	}
}

// needsRoot skips a test that gives a file away, without root.
func needsRoot(t *testing.T, uid int) {
	t.Helper()
	if me := os.Geteuid(); me != 0 && (uid != me || uid == stranger) {
		t.Skip("skipped: needs root")
	}
}

func file(t *testing.T, path string, uid int, mode os.FileMode) string {
	t.Helper()
	needsRoot(t, uid)
	err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chown(path, uid, -1), os.Chmod(path, mode))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func folder(t *testing.T, path string, uid int, mode os.FileMode) string {
	t.Helper()
	needsRoot(t, uid)
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, uid, -1), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, path, to string, uid int) string {
	t.Helper()
	needsRoot(t, uid)
	if err := errors.Join(os.Symlink(to, path), os.Lchown(path, uid, -1)); err != nil {
		t.Fatal(err)
	}
	return path
}

// groupFile gives a file to a group that this system does not list.
func groupFile(t *testing.T, path string) string {
	t.Helper()
	needsRoot(t, -1)
	if err := os.Chown(path, -1, 64999); err != nil {
		t.Fatal(err)
	}
	return path
}

// links makes a file behind n links, each to the next.
func links(t *testing.T, dir string, n int) string {
	t.Helper()
	file(t, dir+"/l0", os.Geteuid(), 0o600)
	for i := range n {
		link(t, dir+"/l"+strconv.Itoa(i+1), "l"+strconv.Itoa(i), os.Geteuid())
	}
	return dir + "/l" + strconv.Itoa(n)
}

// byProcess opens a file, and returns the path of the open file, which may be removed.
func byProcess(t *testing.T, path string, remove bool) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if remove {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
}
