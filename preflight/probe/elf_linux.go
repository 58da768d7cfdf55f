package probe

import (
	"encoding/binary"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// machine is e_machine of an ELF header. Package debug/elf knows it as well, and brings DWARF and zlib along into an
// agent that has to stay small.
type machine uint16

// The machines that a node may be.
const (
	em386       machine = 3
	emPPC64     machine = 21
	emS390      machine = 22
	emARM       machine = 40
	emX8664     machine = 62
	emAArch64   machine = 183
	emRISCV     machine = 243
	emLoongArch machine = 258
)

// machines are those machines by the kernel's names, and by ELF's.
var machines = [...]struct {
	kernel, name string
	m            machine
}{
	{"x86_64", "EM_X86_64", emX8664}, {"aarch64", "EM_AARCH64", emAArch64}, {"ppc64le", "EM_PPC64", emPPC64},
	{"riscv64", "EM_RISCV", emRISCV}, {"s390x", "EM_S390", emS390}, {"i686", "EM_386", em386}, {"armv7l", "EM_ARM", emARM},
	{"loongarch64", "EM_LOONGARCH", emLoongArch},
}

func (m machine) String() string {
	for _, k := range machines {
		if k.m == m {
			return k.name
		}
	}
	return "EM_" + strconv.Itoa(int(m))
}

// runsOn reports whether a kernel of that machine may run a program of m: its own, or its 32-bit forebear's, where only
// running it tells.
func (m machine) runsOn(host machine) bool {
	return m == host || m == em386 && host == emX8664 || m == emARM && host == emAArch64
}

func hostMachine() (machine, bool) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, false
	}
	name := unix.ByteSliceToString(u.Machine[:])
	for _, k := range machines {
		if k.kernel == name {
			return k.m, true
		}
	}
	return 0, false
}

// elfMachine reads the machine from an ELF header; false when the file has none.
func elfMachine(path string) (machine, bool) {
	file, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	var head [20]byte
	if _, err := io.ReadFull(file, head[:]); err != nil || string(head[:4]) != "\x7fELF" {
		return 0, false
	}
	const dataAt, bigEndian = 5, 2 // EI_DATA, ELFDATA2MSB
	if head[dataAt] == bigEndian {
		return machine(binary.BigEndian.Uint16(head[18:])), true
	}
	return machine(binary.LittleEndian.Uint16(head[18:])), true
}
