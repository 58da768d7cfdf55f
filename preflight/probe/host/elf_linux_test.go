package host

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestMachines(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, known := hostMachine()
	if p := programOf(t, exe); known && !runsOn(p.machine, host) {
		t.Errorf("this test is for %s, and runs on %s", p.machine, host)
	}
	for _, tc := range []struct {
		m, host elf.Machine
		want    bool
	}{{elf.EM_386, elf.EM_X86_64, true}, {elf.EM_X86_64, elf.EM_386, false}, {elf.EM_ARM, elf.EM_AARCH64, true},
		{elf.EM_ARM, elf.EM_X86_64, false}} {
		if runsOn(tc.m, tc.host) != tc.want {
			t.Errorf("%s on %s: %v", tc.m, tc.host, !tc.want)
		}
	}
}

func programOf(t *testing.T, path string) program {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := readProgram(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

// TestProgramsAsDebugELFReadsThem: for programs of this host, and for headers of both widths and byte orders, the
// result equals that of debug/elf and debug/buildinfo.
func TestProgramsAsDebugELFReadsThem(t *testing.T) {
	paths := []string{"/bin/sleep", "/proc/self/exe"}
	if tool, err := exec.LookPath("go"); err == nil {
		paths = append(paths, tool)
	}
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		paths = append(paths, headersAlone(t, class, elf.ELFDATA2LSB, binary.LittleEndian),
			headersAlone(t, class, elf.ELFDATA2MSB, binary.BigEndian))
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		e, err := elf.NewFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := program{kind: e.Type, machine: e.Machine}
		for _, s := range e.Progs {
			want.segments = append(want.segments, elf.ProgHeader{Type: s.Type, Flags: s.Flags, Off: s.Off, Filesz: s.Filesz})
		}
		got := programOf(t, path)
		if got.kind != want.kind || got.machine != want.machine || !slices.Equal(got.segments, want.segments) {
			t.Errorf("%s:\n got %+v\nwant %+v", path, got, want)
		}
		main := ""
		if info, err := buildinfo.Read(file); err == nil {
			main = info.Path
		}
		if goMain := got.goMain(file); goMain != main {
			t.Errorf("%s is %q, want %q", path, goMain, main)
		}
	}
}

// headersAlone writes a program with two empty segments.
func headersAlone(t *testing.T, class elf.Class, data elf.Data, order binary.ByteOrder) string {
	t.Helper()
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(data), byte(elf.EV_CURRENT)}
	parts := []any{
		elf.Header64{Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_S390), Version: 1, Phoff: 64, Ehsize: 64,
			Phentsize: 56, Phnum: 2},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 64, Filesz: 112, Memsz: 4096},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: 100, Filesz: 1},
	}
	if class == elf.ELFCLASS32 {
		parts = []any{
			elf.Header32{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_MIPS), Version: 1, Phoff: 52,
				Ehsize: 52, Phentsize: 32, Phnum: 2},
			elf.Prog32{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 52, Filesz: 64, Memsz: 4096},
			elf.Prog32{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: 90, Filesz: 1},
		}
	}
	var b bytes.Buffer
	for _, part := range parts {
		if err := binary.Write(&b, order, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FuzzReadProgram: reading any file ends, and a file that debug/elf can read is read.
func FuzzReadProgram(f *testing.F) {
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		f.Skip("skipped: needs /bin/sleep: ", err)
	}
	f.Add(text[:min(len(text), 8<<10)])
	f.Add([]byte("\x7fELF\x01\x02\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readProgram(bytes.NewReader(text), int64(len(text)))
		_ = p.goMain(bytes.NewReader(text))
		e, other := elf.NewFile(bytes.NewReader(text))
		if other != nil || err != nil {
			return
		}
		if p.machine != e.Machine || len(p.segments) != len(e.Progs) {
			t.Errorf("%s and %d segments, want %s and %d", p.machine, len(p.segments), e.Machine, len(e.Progs))
		}
		_ = p.check(bytes.NewReader(text), "it", int64(len(text)))
	})
}
