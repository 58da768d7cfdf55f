package owned

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// facts are a file's owner, group and mode.
type facts struct {
	mode     fs.FileMode
	uid, gid uint32
	unknown  bool // no owner is known
}

func (facts) Name() string        { return "f" }
func (facts) Size() int64         { return 0 }
func (f facts) Mode() fs.FileMode { return f.mode }
func (facts) ModTime() time.Time  { return time.Time{} }
func (f facts) IsDir() bool       { return f.mode.IsDir() }
func (f facts) Sys() any {
	if f.unknown {
		return nil
	}
	return &syscall.Stat_t{Uid: f.uid, Gid: f.gid}
}

// everybody returns every user of this system, so that each listed group is private to them.
func everybody(t *testing.T) Users {
	t.Helper()
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	u := Users{0}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 {
			if uid, err := strconv.Atoi(f[2]); err == nil {
				u = append(u, uid)
			}
		}
	}
	return u
}

// TestOwnerAndMode: the rule about one file or folder, on facts. Group 4000000000 is listed nowhere.
func TestOwnerAndMode(t *testing.T) {
	const none, dir, sticky = 4000000000, fs.ModeDir, fs.ModeSticky
	u := everybody(t)
	for name, tc := range map[string]struct {
		f    facts
		want string // in the error
	}{
		"ours":                          {facts{mode: 0o644}, ""},
		"ours, its own group may write": {facts{mode: 0o664}, ""},
		"ours, a group may write":       {facts{mode: 0o664, gid: none}, "others (mode 0664); run: chmod go-w /p"},
		"ours, a group may only read":   {facts{mode: 0o654, gid: none}, ""},
		"ours, others may write":        {facts{mode: 0o602}, "others (mode 0602); run: chmod go-w /p"},
		"another's":                     {facts{mode: 0o600, uid: none}, "belongs to user 4000000000"},
		"nobody's":                      {facts{mode: 0o600, unknown: true}, "has no owner that is known"},
		"our folder":                    {facts{mode: dir | 0o755}, ""},
		"our folder, a group may write": {facts{mode: dir | 0o775, gid: none}, "its group (mode 0775)"},
		"our folder, all may write":     {facts{mode: dir | 0o777, gid: none}, "others (mode 0777)"},
		"our sticky folder":             {facts{mode: dir | sticky | 0o777, gid: none}, ""},
		"another's sticky folder":       {facts{mode: dir | sticky | 0o777, uid: none}, "belongs to user"},
		"our sticky file":               {facts{mode: sticky | 0o666}, "others (mode 0666)"},
	} {
		err := u.check("/p", tc.f)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if u.private(facts{unknown: true}) || !u.private(facts{}) || u.private(facts{gid: none}) {
		t.Error("a group of no file, root's group, a group that is listed nowhere")
	}
	if _, ok := ownerOf(facts{unknown: true}); ok {
		t.Error("an owner of nobody's file")
	}
	if uid, ok := ownerOf(facts{uid: 7}); !ok || uid != 7 {
		t.Errorf("owner %d, %v", uid, ok)
	}
}

// TestMembersOfAGroup: whose primary group counts, and whose name is one of ours.
func TestMembersOfAGroup(t *testing.T) {
	const group = "g:x:7:ann\n"
	for users, want := range map[string]bool{
		"ann:x:1000:1000":                    true, // as short as a line may be
		"ann:x:1000":                         false,
		"ann:x:one:1000:":                    false,
		"ann:x:0:0:\n":                       true,
		"ann:x:1001:1001:\n":                 false,
		"ann:x:1000:1\nbob:x:1001:7:\n":      false,
		"ann:x:1000:1\nbob:x:one:7:\n":       false,
		"ann:x:1000:1\nbob:x:1000:7:\n":      true,
		"\nann:x:1000:1\nbob:x:1001:17:\n":   true,
		"bob:x:1001:1001\nann:x:1000:1000\n": true,
	} {
		if got := (Users{0, 1000}).alone("7", group, users); got != want {
			t.Errorf("%q: %v, want %v", users, got, want)
		}
	}
}

// TestBuilds: a helper is of this build if its digest was linked; a build without digests accepts every helper.
func TestBuilds(t *testing.T) {
	linked := ParseBuild("a:11,a:12,b:21,c,d:")
	for _, tc := range []struct {
		b         Build
		name, sum string
		want      bool
	}{
		{linked, "a", "11", true}, {linked, "a", "12", true}, {linked, "b", "21", true}, {linked, "b", "11", false},
		{linked, "a", "", false}, {linked, "c", "", false}, {linked, "d", "", false}, {linked, "x", "11", false},
		{ParseBuild(""), "a", "99", true}, {ParseBuild(""), "a", "", true}, {Build{}, "a", "99", false},
	} {
		err := tc.b.Check("/p", tc.name, tc.sum)
		var wrong *BuildError
		if (err == nil) != tc.want || (err != nil && (!errors.As(err, &wrong) || *wrong != BuildError{"/p", tc.sum})) {
			t.Errorf("%v, %s %q: %v", tc.b, tc.name, tc.sum, err)
		}
	}
}

// TestQuotedForAShell: a path that a shell reads as it is stays as it is.
func TestQuotedForAShell(t *testing.T) {
	for path, want := range map[string]string{"/a/Z_9.0-+,:@%=": "/a/Z_9.0-+,:@%=", "/a b": "'/a b'",
		"/it's": `'/it'\''s'`,
		"/$x":   "'/$x'", "/a/b/c/z/A/0/9": "/a/b/c/z/A/0/9", "/~": "'/~'", "/[": "'/['", "/{": "'/{'",
		"/`": "'/`'", "/^": "'/^'", "/\u00e9": "'/\u00e9'"} {
		if got := quoted(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := (&Error{Path: "/p", Reason: "r"}).Error(); got != "/p r; copy the file to a folder that only you can write" {
		t.Error(got)
	}
	if got := (&Error{Path: "/p", Reason: "r", Remedy: "c"}).Error(); got != "/p r; run: c" {
		t.Error(got)
	}
}

// TestFolders: which folder may be used, and made.
func TestFolders(t *testing.T) {
	me := os.Geteuid()
	for name, tc := range map[string]struct {
		make func(t *testing.T, dir string) string
		use  string // the error of using it
		mk   string // the error of making it, with its parents
	}{
		"ours":                {func(t *testing.T, dir string) string { return folder(t, dir+"/d", me, 0o755) }, "", ""},
		"none":                {func(t *testing.T, dir string) string { return dir + "/d" }, "no such file", ""},
		"none, and no parent": {func(t *testing.T, dir string) string { return dir + "/d/e/f" }, "no such file", ""},
		"a file": {func(t *testing.T, dir string) string { return file(t, dir+"/f", me, 0o600) }, "not a directory",
			"not a directory"},
		"a file of all": {func(t *testing.T, dir string) string { return file(t, dir+"/f", me, 0o666) },
			"others (mode 0666)", "others (mode 0666)"},
		"below a file": {func(t *testing.T, dir string) string { return file(t, dir+"/f", me, 0o600) + "/d" },
			"not a directory", "not a directory"},
		"of all": {func(t *testing.T, dir string) string { return folder(t, dir+"/d", me, 0o777) }, "others (mode 0777)",
			"others (mode 0777)"},
		"none, in one of all": {func(t *testing.T, dir string) string { return folder(t, dir+"/d", me, 0o777) + "/e" },
			"others (mode 0777)", "others (mode 0777)"},
		"a stranger's": {func(t *testing.T, dir string) string { return folder(t, dir+"/d", stranger, 0o755) },
			"belongs to user", "belongs to user"},
		"by a process": {func(t *testing.T, dir string) string {
			return byProcess(t, dir, false)
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			says := func(err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			path := tc.make(t, t.TempDir())
			says(Folder(path, Caller()), tc.use)
			_, before := os.Lstat(path)
			says(MkdirAll(path, Caller()), tc.mk)
			info, err := os.Stat(path)
			if tc.mk == "" && (err != nil || !info.IsDir()) {
				t.Fatalf("not made: %v", err)
			}
			if tc.mk == "" && before != nil && info.Mode().Perm() != 0o700 {
				t.Errorf("made with mode %v", info.Mode())
			}
			if tc.mk != "" && before != nil && err == nil {
				t.Error("made, where others could change it")
			}
		})
	}
}

// TestRelativePaths are those of the current folder.
func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file(t, dir+"/f", os.Geteuid(), 0o600)
	f, err := Open("f", Caller())
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := Check(f, Caller()); err == nil {
		t.Error("a file that is closed")
	}
	if got, err := absolute("/a/../b"); got != "/a/../b" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestLinks: as many as the kernel follows, and the files that a process has open.
func TestLinks(t *testing.T) {
	path := links(t, t.TempDir(), 41)
	if _, err := Caller().follow(filepath.Dir(path) + "/l40"); err != nil {
		t.Error(err)
	}
	if _, err := Caller().follow(path); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("%v, want too many links", err)
	}
	for path, want := range map[string]bool{"/proc/1/fd/3": true, "/proc/1/exe": false, "/dev/fd/3": false,
		"/proc/1/fd":     false,
		"/proc/1/fd/3/x": false, "/x/proc/fd/3": false} {
		if got := processFile(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// TestOwnersOfAPath: everybody who could replace a file, each once.
func TestOwnersOfAPath(t *testing.T) {
	dir := t.TempDir()
	path := file(t, folder(t, dir+"/d", os.Geteuid(), 0o755)+"/f", os.Geteuid(), 0o600)
	want := Users{-1}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			t.Fatal(err)
		}
		if uid, _ := ownerOf(info); !slices.Contains(want, uid) {
			want = append(want, uid)
		}
		if at == "/" {
			break
		}
	}
	if got := (Users{-1}).withOwners(path); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := want.withOwners(path); !slices.Equal(got, want) {
		t.Errorf("twice: %v, want %v", got, want)
	}
	if got := (Users{-1}).withOwners(dir + "/none"); !slices.Equal(got, Users{-1}) {
		t.Errorf("no such file: %v", got)
	}
	if os.Geteuid() == 0 {
		file(t, path, stranger, 0o600)
		if got := (Users{0}).withOwners(path); !slices.Equal(got, Users{0, stranger}) {
			t.Errorf("a stranger's: %v", got)
		}
		folder(t, dir+"/s", stranger, 0o755)
		if got := (Users{-1}).withOwners(dir + "/s"); !slices.Equal(got, Users{-1, stranger, 0}) {
			t.Errorf("a stranger's in root's: %v", got)
		}
	}
}
