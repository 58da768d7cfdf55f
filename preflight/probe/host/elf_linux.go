package host

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelNames maps the kernel's names for machines that nodes use.
var kernelNames = [...]struct {
	kernel string
	m      elf.Machine
}{
	{"x86_64", elf.EM_X86_64}, {"aarch64", elf.EM_AARCH64}, {"ppc64le", elf.EM_PPC64}, {"riscv64", elf.EM_RISCV},
	{"s390x", elf.EM_S390}, {"i686", elf.EM_386}, {"armv7l", elf.EM_ARM}, {"loongarch64", elf.EM_LOONGARCH},
}

// runsOn reports whether a kernel on the machine host may run a program built for m: the same machine, or its 32-bit
// predecessor, where only running it can tell.
func runsOn(m, host elf.Machine) bool {
	return m == host || (m == elf.EM_386 && host == elf.EM_X86_64) || (m == elf.EM_ARM && host == elf.EM_AARCH64)
}

func hostMachine() (elf.Machine, bool) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, false
	}
	name := unix.ByteSliceToString(u.Machine[:])
	for _, k := range kernelNames {
		if k.kernel == name {
			return k.m, true
		}
	}
	return 0, false
}

// program has the fields of an ELF file's headers. The layouts are debug/elf's; its parser, and that of
// debug/buildinfo, would link DWARF, zstd and the formats of four other systems: 0.3 MB of the agent's 8.5.
type program struct {
	kind     elf.Type
	machine  elf.Machine
	segments []elf.ProgHeader
}

// segmentTable bounds the size of the segment headers, as the kernel does.
const segmentTable = 64 << 10

// readProgram reads the headers of a file of size bytes. An error is why no kernel executes it; the fields read before
// it are returned as well.
func readProgram(r io.ReaderAt, size int64) (p program, err error) {
	file := io.NewSectionReader(r, 0, size)
	var ident [elf.EI_NIDENT]byte
	if _, err := file.ReadAt(ident[:], 0); err != nil {
		return p, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	var h elf.Header64
	wide := elf.Class(ident[elf.EI_CLASS]) == elf.ELFCLASS64
	if wide {
		err = binary.Read(file, order, &h)
	} else {
		var s elf.Header32
		err = binary.Read(file, order, &s)
		h = elf.Header64{Type: s.Type, Machine: s.Machine, Phoff: uint64(s.Phoff), Phentsize: s.Phentsize, Phnum: s.Phnum,
			Shoff: uint64(s.Shoff), Shentsize: s.Shentsize, Shnum: s.Shnum}
	}
	p.kind, p.machine = elf.Type(h.Type), elf.Machine(h.Machine)
	if err != nil {
		return p, err
	}
	total := uint64(size) //nolint:gosec // a file's size is not negative
	if beyond(h.Phoff, uint64(h.Phnum)*uint64(h.Phentsize), total) ||
		beyond(h.Shoff, uint64(h.Shnum)*uint64(h.Shentsize), total) {
		return p, errors.New("its tables are behind its end")
	}
	return p, p.readSegments(io.NewSectionReader(file, int64(h.Phoff), segmentTable), order, wide, int(h.Phnum))
}

// beyond reports whether a part of a file extends past the file's end.
func beyond(offset, length, size uint64) bool { return offset+length < offset || offset+length > size }

func (p *program) readSegments(table io.Reader, order binary.ByteOrder, wide bool, count int) (err error) {
	p.segments = make([]elf.ProgHeader, 0, min(count, segmentTable/binary.Size(elf.Prog32{})))
	for range count {
		var s elf.Prog64
		if wide {
			err = binary.Read(table, order, &s)
		} else {
			var n elf.Prog32
			err = binary.Read(table, order, &n)
			s = elf.Prog64{Type: n.Type, Flags: n.Flags, Off: uint64(n.Off), Filesz: uint64(n.Filesz)}
		}
		if err != nil {
			return fmt.Errorf("reading its %d segments: %w", count, err)
		}
		p.segments = append(p.segments, elf.ProgHeader{Type: elf.ProgType(s.Type), Flags: elf.ProgFlag(s.Flags), Off: s.Off,
			Filesz: s.Filesz})
	}
	return nil
}

// Go's linker writes a record into a data segment: a header of 32 bytes, aligned to 16, then the compiler's version and
// the build info, each as a text with its length as a varint (since Go 1.18). The second text has a 16-byte mark at
// either end, to be found in core dumps.
const (
	goMagic   = "\xff Go buildinf:"
	goHeader  = 32
	goAlign   = 16
	goFlags   = 15  // the index of the header's flag byte
	goInline  = 0x2 // the texts follow inline, instead of pointers to them
	goMark    = 16
	maxGoText = 1 << 20
)

// goMain returns the path of a Go program's main package; "" for any other program.
func (p *program) goMain(r io.ReaderAt) string {
	for _, s := range p.segments {
		if s.Type != elf.PT_LOAD || s.Flags&(elf.PF_X|elf.PF_W) != elf.PF_W {
			continue
		}
		data := io.NewSectionReader(r, int64(s.Off), int64(s.Filesz)) //nolint:gosec // read as far as it goes
		at, found := findGo(data)
		if !found {
			continue
		}
		texts := bufio.NewReader(io.NewSectionReader(data, at+goHeader, maxGoText))
		_, err := readText(texts) // the compiler's version
		built, more := readText(texts)
		if err == nil && more == nil && len(built) > 2*goMark {
			path, _, _ := strings.Cut(built[goMark:len(built)-goMark], "\n")
			path, _ = strings.CutPrefix(path, "path\t")
			return path
		}
	}
	return ""
}

// findGo finds the record's header in a segment.
func findGo(data io.Reader) (at int64, found bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(data, buf)
		for i := 0; i+goAlign <= n; i += goAlign {
			if bytes.HasPrefix(buf[i:], []byte(goMagic)) && buf[i+goFlags]&goInline != 0 {
				return at + int64(i), true
			}
		}
		if err != nil {
			return 0, false
		}
		at += int64(n)
	}
}

func readText(r *bufio.Reader) (string, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > maxGoText {
		return "", errors.Join(err, errTooLarge)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}
