//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

// nvmlDir contains the fake library, which the lab's nodes use as well.
const nvmlDir = "../../lab/nvml"

// The layout of the control file, as in fake.c.
const (
	maxGPUs   = 16
	maxEvents = 256
	maxWords  = 96
	noGPUs    = maxGPUs // index of the entries about no GPU
)

type fakeEntry struct {
	v     [4]int64
	text  [maxWords]byte
	rc    int32
	delay uint32
	hang  uint32
	crash uint32
	asked uint32
	odd   uint32
}

// Special behavior of a call, as in fake.c.
const (
	full  = 1 + iota // its text has no terminating NUL
	noise            // its text is unused
	talks            // it prints to stdout
	eats             // allocates memory until the process is killed
)

type fakeEvent struct {
	gpu, gi, ci, _ uint32
	typ, data      uint64
}

type fakeHead struct {
	magic, calls, gpus, lost uint32
	written, taken           uint32
	impatient, _             uint32
	events                   [maxEvents]fakeEvent
}

// control is the mapped control file of one fake driver.
type control struct {
	t     testing.TB
	path  string
	mem   []byte
	index map[string]int
}

// newControl creates a control file from a profile.
func newControl(t testing.TB, profile string) *control {
	t.Helper()
	names := callNames(t)
	c := &control{t: t, path: filepath.Join(t.TempDir(), "control"), index: map[string]int{}}
	for i, name := range names {
		c.index[name] = i
	}
	size := int(unsafe.Sizeof(fakeHead{})) + (maxGPUs+1)*len(names)*int(unsafe.Sizeof(fakeEntry{}))
	if err := os.WriteFile(c.path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.mem, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(c.mem) })
	c.head().calls = uint32(len(names))
	for name := range c.index {
		for g := range maxGPUs {
			c.entry(g, name).rc = 3
		}
	}
	for g := range maxGPUs {
		c.entry(g, "nvmlDeviceGetHandleByIndex_v2").rc = 0
	}
	c.load(profile)
	return c
}

// callNames reads the fake's calls, in order.
func callNames(t testing.TB) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(nvmlDir, "calls.h"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^X\((\w+)\)$`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}

// load sets the values of a profile.
func (c *control) load(profile string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(nvmlDir, "profiles", profile+".txt"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		of := make([]int, 0, maxGPUs+1)
		if rest, ok := strings.CutPrefix(words[0], "@"); ok {
			of, words = append(of, c.number(rest)), words[1:]
		} else {
			for g := range maxGPUs + 1 {
				of = append(of, g)
			}
		}
		if words[0] == "gpus" {
			atomic.StoreUint32(&c.head().gpus, uint32(c.number(words[1])))
			continue
		}
		for _, g := range of {
			e := c.entry(g, words[0])
			if _, quoted, ok := strings.Cut(line, `"`); ok {
				e.rc = 0
				copy(e.text[:], strings.TrimSuffix(quoted, `"`)+"\x00")
				continue
			}
			if code, ok := strings.CutPrefix(words[1], "rc="); ok {
				e.rc = int32(c.number(code))
				continue
			}
			e.rc = 0
			for i, w := range words[1:] {
				e.v[i] = int64(c.number(w))
			}
		}
	}
}

func (c *control) number(s string) int {
	c.t.Helper()
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return int(n)
}

func (c *control) head() *fakeHead { return (*fakeHead)(unsafe.Pointer(&c.mem[0])) }

// entry returns the entry of a call about a GPU, or about none.
func (c *control) entry(gpu int, call string) *fakeEntry {
	c.t.Helper()
	i, ok := c.index[call]
	if !ok {
		c.t.Fatalf("no call %s in calls.h", call)
	}
	at := int(unsafe.Sizeof(fakeHead{})) + (gpu*len(c.index)+i)*int(unsafe.Sizeof(fakeEntry{}))
	return (*fakeEntry)(unsafe.Pointer(&c.mem[at]))
}

// set changes the value of a call about a GPU; both processes see it at once.
func (c *control) set(gpu int, call string, v int64) {
	e := c.entry(gpu, call)
	atomic.StoreInt64(&e.v[0], v)
	atomic.StoreInt32(&e.rc, 0)
}

func (c *control) refuse(gpu int, call string, code int) {
	atomic.StoreInt32(&c.entry(gpu, call).rc, int32(code))
}

func (c *control) words(gpu int, call, text string) { copy(c.entry(gpu, call).text[:], text+"\x00") }

func (c *control) asked(gpu int, call string) uint32 {
	return atomic.LoadUint32(&c.entry(gpu, call).asked)
}

func wake(word *uint32) {
	const futexWake = 1
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<30, 0, 0, 0)
}

// hang makes a call about a GPU hang until release.
func (c *control) hang(gpu int, call string) { atomic.StoreUint32(&c.entry(gpu, call).hang, 1) }

func (c *control) release(gpu int, call string) {
	e := c.entry(gpu, call)
	atomic.StoreUint32(&e.hang, 0)
	wake(&e.hang)
}

// raise raises an event of the driver.
func (c *control) raise(gpu int, typ, data uint64) {
	h := c.head()
	n := atomic.LoadUint32(&h.written)
	h.events[n%maxEvents] = fakeEvent{gpu: uint32(gpu), gi: 0xFFFFFFFF, ci: 0xFFFFFFFF, typ: typ, data: data}
	atomic.StoreUint32(&h.written, n+1)
	wake(&h.written)
}
