package evidence

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

func manifest(files ...File) *Manifest {
	return &Manifest{Head: diag.NewHead(KindBundle), NodeID: "n1", EndedAt: at(1234), EndedBy: diag.EndedCompleted,
		Sources: []Gathered{}, Files: files}
}

func pack(t *testing.T, m *Manifest) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func twoFiles() []File {
	return []File{{Path: "node/b.log", Source: "b", Data: []byte("second\n")},
		{Path: "a.txt", Source: "a", Data: []byte("first\n")}}
}

// TestPackIsDeterministic: the same contents give the same bytes, in whatever order the files were found.
func TestPackIsDeterministic(t *testing.T) {
	files := twoFiles()
	one := pack(t, manifest(files...))
	turned := twoFiles()
	slices.Reverse(turned)
	if !bytes.Equal(one, pack(t, manifest(turned...))) {
		t.Error("another order of files gives another archive")
	}
	m, err := Open(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Files) != 2 || m.Files[0].Path != "a.txt" || string(m.Files[0].Data) != "first\n" || m.Files[0].Size != 6 {
		t.Errorf("%+v", m.Files)
	}
}

// tampered is one file of an archive that was modified.
type tampered struct {
	name, data string
	kind       byte
}

func entries(t *testing.T, archive []byte) []tampered {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var out []tampered
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 || h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(at(1000).Time) {
			t.Errorf("%s: %+v", h.Name, h)
		}
		data, _ := io.ReadAll(r)
		out = append(out, tampered{h.Name, string(data), tar.TypeReg})
	}
}

func repack(t *testing.T, files []tampered) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.data)), Typeflag: f.kind}
		if f.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte(f.data))
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestOpenFindsChanges: every change after packing is found and named.
func TestOpenFindsChanges(t *testing.T) {
	good := pack(t, manifest(twoFiles()...))
	for name, c := range map[string]struct {
		change func([]tampered) []tampered
		want   string
	}{
		"a changed file": {func(f []tampered) []tampered { f[1].data = "First\n"; return f }, "a.txt was changed"},
		"a shorter file": {func(f []tampered) []tampered { f[1].data = ""; return f }, "a.txt was changed"},
		"a missing file": {func(f []tampered) []tampered { return f[:2] }, "node/b.log is missing"},
		"a new file": {func(f []tampered) []tampered { return append(f, tampered{"x", "y", tar.TypeReg}) },
			"x is not in the manifest"},
		"a file twice": {func(f []tampered) []tampered { return append(f, f[1]) }, "twice"},
		"a link": {func(f []tampered) []tampered { return append(f, tampered{"l", "", tar.TypeSymlink}) },
			"not a regular file"},
		"manifest last": {func(f []tampered) []tampered { return append(f[1:], f[0]) }, "does not begin with its manifest"},
		"a file elsewhere": {func(f []tampered) []tampered {
			f[0].data = strings.Replace(f[0].data, `"a.txt"`, `"../a.txt"`, 1)
			f[1].name = "../a.txt"
			return f
		}, `"../a.txt" cannot be a file of a bundle`},
		"a changed claim": {func(f []tampered) []tampered {
			f[0].data = strings.Replace(f[0].data, `"size": 6`, `"size": 7`, 1)
			return f
		}, "a.txt was changed"},
	} {
		_, err := Open(bytes.NewReader(repack(t, c.change(entries(t, good)))))
		if !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cut := range []int{2, 5, 11, len(good) / 2, len(good) - 4} {
		if _, err := Open(bytes.NewReader(good[:cut])); !errors.Is(err, ErrBundle) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// TestOpenReadsANewerManifest: fields that a newer version added to the manifest are ignored.
func TestOpenReadsANewerManifest(t *testing.T) {
	f := entries(t, pack(t, manifest(twoFiles()...)))
	f[0].data = strings.Replace(f[0].data, "{", `{"surprise":1,`, 1)
	if m, err := Open(bytes.NewReader(repack(t, f))); err != nil || len(m.Files) != 2 {
		t.Errorf("%+v: %v", m, err)
	}
}

// TestOpenRefusesWhatIsNoBundle: a file that never was a bundle is not reported as a modified one.
func TestOpenRefusesWhatIsNoBundle(t *testing.T) {
	good := entries(t, pack(t, manifest(twoFiles()...)))
	zipped := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.Bytes()
	}
	kind := []tampered{{good[0].name, `{"apiVersion":"x","kind":"y"}`, tar.TypeReg}}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "it is empty"},
		"text":             {[]byte("root:x:0:0:root:/root:/bin/bash\n"), "not a gzip file"},
		"one byte":         {[]byte{0x1f}, "not a gzip file"},
		"a short text":     {zipped("hello\n"), "no tar archive"},
		"nothing, zipped":  {zipped(""), "no tar archive"},
		"a long text":      {zipped(strings.Repeat("hello\n", 500)), "no tar archive"},
		"an empty archive": {repack(t, nil), "no manifest.json"},
		"another archive":  {repack(t, good[1:]), "no manifest.json"},
		"a folder's":       {repack(t, []tampered{{"x/", "", tar.TypeDir}, {"x/y", "z", tar.TypeReg}}), "no manifest.json"},
		"another manifest": {repack(t, kind), `kind "y", version "x"`},
		"a manifest of {}": {repack(t, []tampered{{good[0].name, `{}`, tar.TypeReg}}), `kind ""`},
		"one that is newer": {repack(t,
			[]tampered{{good[0].name, `{"apiVersion":"gpuaasctl/v9","kind":"EvidenceBundle"}`, tar.TypeReg}}), "v9"},
	} {
		_, err := Open(bytes.NewReader(c.data))
		if !errors.Is(err, ErrNoBundle) || errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpenFindsWhatIsBehind: bytes after the tar's end, packed or not, are found although no digest covers them.
func TestOpenFindsWhatIsBehind(t *testing.T) {
	good := pack(t, manifest(twoFiles()...))
	r, err := gzip.NewReader(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	zipped := func(data ...[]byte) []byte {
		var b bytes.Buffer
		for _, d := range data {
			w := gzip.NewWriter(&b)
			_, _ = w.Write(d)
			_ = w.Close()
		}
		return b.Bytes()
	}
	if _, err := Open(bytes.NewReader(zipped(raw))); err != nil {
		t.Fatalf("packed again: %v", err)
	}
	for name, data := range map[string][]byte{
		"in the same stream": zipped(append(bytes.Clone(raw), "surprise"...)),
		"zeros":              zipped(append(bytes.Clone(raw), 0)),
		"in another stream":  zipped(raw, []byte("surprise")),
		"not packed":         append(bytes.Clone(good), "surprise"...),
	} {
		if _, err := Open(bytes.NewReader(data)); !errors.Is(err, ErrBundle) ||
			!strings.Contains(err.Error(), "behind its end") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPackRefuses: no file's name can escape from the folder in which a bundle is unpacked.
func TestPackRefuses(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", ManifestName, `a\b`} {
		if err := Pack(io.Discard, manifest(File{Path: name})); err == nil {
			t.Errorf("%q was packed", name)
		}
	}
	if err := Pack(io.Discard, manifest(File{Path: "a"}, File{Path: "a"})); err == nil {
		t.Error("two files of one name were packed")
	}
}

// TestNDJSONRoundTrip: exported events read back equal.
func TestNDJSONRoundTrip(t *testing.T) {
	h := Join(Query{NodeID: "n1"},
		Record(known("node", 1), "n1", record("i1", diag.RecordEntry{At: at(0), Decision: "retry", Detail: "a\nb"})))
	b, err := NDJSON(h.Events)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadNDJSON(b)
	if err != nil || len(back) != 1 || back[0].Message != h.Events[0].Message || back[0].ID != h.Events[0].ID ||
		!back[0].At.Equal(h.Events[0].At.Time) {
		t.Errorf("%+v %v", back, err)
	}
	if _, err := ReadNDJSON([]byte("{}\n{broken\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line: %v", err)
	}
}

// TestWhatIsPackedOpens: an archive of any evidence can be opened; omissions are noted at their source.
func TestWhatIsPackedOpens(t *testing.T) {
	noise := make([]byte, bounded.ArchivedFile+1)
	many := func(n, size int) (files []File) {
		for i := range n {
			files = append(files, File{Path: fmt.Sprintf("node/%03d.log", i), Source: "node", Data: noise[:size-i%2]})
		}
		return files
	}
	for name, tc := range map[string]struct {
		files []File
		kept  int
		why   string
	}{
		"one file of the size that is read": {many(1, bounded.ArchivedFile), 1, ""},
		"one file that is a byte larger":    {many(1, bounded.ArchivedFile+1), 0, "at most 16 MiB"},
		"beside a small one": {append(many(1, bounded.ArchivedFile+1), File{Path: "a", Source: "a"}), 1,
			"at most 16 MiB"},
		"five of 16 MiB":                     {many(5, bounded.ArchivedFile), 3, "at most 64 MiB"},
		"as many files as are read":          {many(bounded.ArchivedFiles, 10), bounded.ArchivedFiles, ""},
		"one more":                           {many(bounded.ArchivedFiles+1, 10), bounded.ArchivedFiles, "at most 512 files"},
		"many whose padding is what is much": {many(bounded.ArchivedFiles, 130_000), 505, "at most 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifest(tc.files...)
			m.Whole, m.Sources = true, []Gathered{{Source: "node", Status: GotWhole}, {Source: "a", Status: GotWhole}}
			var b bytes.Buffer
			if err := Pack(&b, m); err != nil {
				t.Fatal(err)
			}
			got, err := Open(&b)
			if err != nil {
				t.Fatalf("it was packed, and does not open: %v", err)
			}
			if len(got.Files) != tc.kept {
				t.Errorf("%d files, want %d", len(got.Files), tc.kept)
			}
			node := got.Sources[0]
			if left := tc.why != ""; left != (node.Status == GotPart) || left == got.Whole ||
				!strings.Contains(node.Why, tc.why) {
				t.Errorf("whole %t, the source is %s: %q, want %q", got.Whole, node.Status, node.Why, tc.why)
			}
		})
	}
	m := manifest()
	m.NodeID = strings.Repeat("n", bounded.Manifest().Bytes)
	if err := Pack(io.Discard, m); err == nil {
		t.Error("a manifest was packed that nobody can read")
	}
}
