package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// stuckFor is the time between two looks at the processes: one that has not run between them, and is in
// uninterruptible sleep at both, waits for one thing all the time.
const stuckFor = 1200 * time.Millisecond

// machine reads what this machine is, and whether its memory, processes, units, hardware, container runtimes and clock
// are well. What the machine lacks stays absent; what could not be read is in Unread. It fails only if its time is up.
func (p *Prober) machine(ctx context.Context, req diag.Request, f *diag.Fact) {
	m := &machineReader{root: filepath.Join("/", p.root), facts: &diag.MachineFacts{CPUs: runtime.NumCPU()}}
	f.Machine = m.facts
	m.identity()
	m.memory()
	m.hardware()
	m.certificates(req.Match, time.Now())
	first := m.processes()
	m.timeSource()
	var asked sync.WaitGroup
	var units, limits machineReader // each has its own Unread
	var runtimes []diag.RuntimeSocket
	units.facts, limits.facts = &diag.MachineFacts{}, &diag.MachineFacts{}
	asked.Go(func() { units.failedUnits(ctx) })
	asked.Go(func() { limits.memlock(ctx) })
	asked.Go(func() { runtimes = askRuntimes(ctx, m.root, m.names) })
	if sleep.For(ctx, stuckFor) {
		m.stuck(first, m.processes())
	}
	asked.Wait()
	f.Machine.FailedUnits, f.Machine.FailedCount = units.facts.FailedUnits, units.facts.FailedCount
	f.Machine.Memlock, f.Machine.Runtimes = limits.facts.Memlock, runtimes
	f.Machine.Unread = slices.Concat(m.facts.Unread, units.facts.Unread, limits.facts.Unread)
}

// machineReader reads a machine's files under root.
type machineReader struct {
	root  string
	facts *diag.MachineFacts
	names map[string]bool // of all processes, as they call themselves
}

// text reads a small file without the blanks around it; "" if it cannot be read.
func (m *machineReader) text(path string) string {
	text, err := host.Read(filepath.Join(m.root, path), host.Small)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// number reads a file with one number; false for another content.
func (m *machineReader) number(path string) (int64, bool) {
	n, err := strconv.ParseInt(m.text(path), 10, 64)
	return n, err == nil
}

// list returns the names in a folder, sorted, at most MaxListed.
func (m *machineReader) list(path string) []string {
	entries, err := os.ReadDir(filepath.Join(m.root, path))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries[:min(len(entries), diag.MaxListed)] {
		names = append(names, e.Name())
	}
	return names
}

func (m *machineReader) unread(what string) { m.facts.Unread = append(m.facts.Unread, what) }

// identity reads what the machine is.
func (m *machineReader) identity() {
	if name, err := os.Hostname(); err == nil {
		m.facts.Hostname = scrub.Text(name)
	}
	if id := m.text("etc/machine-id"); id != "" {
		sum := sha256.Sum256([]byte(id))
		m.facts.MachineID = hex.EncodeToString(sum[:])
	}
	for line := range strings.Lines(m.text("etc/os-release")) {
		if name, is := strings.CutPrefix(line, "PRETTY_NAME="); is {
			m.facts.OS = scrub.Text(strings.Trim(strings.TrimSpace(name), `"'`))
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.facts.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	m.facts.Container = containerKind(m.root)
	if up, err := host.This.Uptime(); err == nil {
		m.facts.UptimeS = new(int64(up.Seconds()))
	}
}

// containerKind returns the kind of container in which this runs; "" for none that is known.
func containerKind(root string) string {
	m := machineReader{root: filepath.Join("/", root)}
	if kind := m.text("run/systemd/container"); kind != "" {
		return scrub.Text(kind[:min(len(kind), 32)])
	}
	for file, kind := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman"} {
		if _, err := os.Stat(filepath.Join(m.root, file)); err == nil {
			return kind
		}
	}
	for variable := range strings.SplitSeq(m.text("proc/1/environ"), "\x00") {
		if kind, is := strings.CutPrefix(variable, "container="); is && kind != "" {
			return scrub.Text(kind[:min(len(kind), 32)])
		}
	}
	groups := m.text("proc/1/cgroup")
	for _, word := range []string{"kubepods", "docker", "containerd", "lxc", "libpod", "crio"} {
		if strings.Contains(groups, word) {
			return word
		}
	}
	if stat := m.text("proc/2/stat"); m.root == "/" && !strings.Contains(stat, "(kthreadd)") {
		return "its own process numbers" // a whole machine's second process is the kernel's
	}
	return ""
}

// memory reads memory, load and pressure.
func (m *machineReader) memory() {
	info := map[string]int64{}
	for line := range strings.Lines(m.text("proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
			info[name] = n << 10
		}
	}
	for _, row := range []struct {
		name string
		to   **int64
	}{
		{"MemTotal", &m.facts.MemTotal}, {"MemAvailable", &m.facts.MemFree}, {"SwapTotal", &m.facts.SwapTotal},
		{"SwapFree", &m.facts.SwapFree},
	} {
		if n, ok := info[row.name]; ok {
			*row.to = &n
		}
	}
	for line := range strings.Lines(m.text("proc/vmstat")) {
		if n, is := strings.CutPrefix(line, "oom_kill "); is {
			if n, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil {
				m.facts.OOMKills = &n
			}
		}
	}
	if words := strings.Fields(m.text("proc/loadavg")); len(words) > 1 {
		m.facts.Load = parseDecimal(words[1])
	}
	m.facts.MemStalled, m.facts.IOStalled = m.stalled("memory"), m.stalled("io")
}

// stalled returns the share of the last five minutes, in percent, in which all tasks waited for a resource.
func (m *machineReader) stalled(resource string) *float64 {
	for line := range strings.Lines(m.text("proc/pressure/" + resource)) {
		for word := range strings.FieldsSeq(strings.TrimPrefix(line, "full ")) {
			if value, is := strings.CutPrefix(word, "avg300="); is && strings.HasPrefix(line, "full ") {
				return parseDecimal(value)
			}
		}
	}
	return nil
}

func parseDecimal(text string) *float64 {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return &n
	}
	return nil
}

// hardware reads error counters of memory, and the state of disks and RDMA devices.
func (m *machineReader) hardware() {
	const edac = "sys/devices/system/edac/mc"
	for _, name := range m.list(edac) {
		corrected, ok := m.number(filepath.Join(edac, name, "ce_count"))
		uncorrectable, all := m.number(filepath.Join(edac, name, "ue_count"))
		if ok && all {
			m.facts.MemoryErrors = append(m.facts.MemoryErrors, diag.MemoryController{Name: name, Corrected: corrected,
				Uncorrectable: uncorrectable})
		}
	}
	const nvme = "sys/class/nvme"
	for _, name := range m.list(nvme) {
		if state := m.text(filepath.Join(nvme, name, "state")); state != "" {
			m.facts.NVMe = append(m.facts.NVMe, diag.NVMeDevice{Name: name, State: state,
				Model: scrub.Text(m.text(filepath.Join(nvme, name, "model")))})
		}
	}
	m.facts.RDMA = m.list("sys/class/infiniband")
}

// timeSource reads whether the kernel's clock is disciplined, and which programs do so.
func (m *machineReader) timeSource() {
	var c diag.ClockFacts
	kernelClock(&c)
	m.facts.ClockSynced = c.Synchronized
	for _, name := range []string{"chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "ntp-daemon", "openntpd"} {
		if m.names[name] {
			m.facts.TimeDaemons = append(m.facts.TimeDaemons, name)
		}
	}
}
