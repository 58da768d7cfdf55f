package host

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// maxLookedAt bounds how many processes are looked at.
	maxLookedAt = 50_000
	// kernelThread is PF_KTHREAD of a process's flags. Some drivers have threads that always sleep so.
	kernelThread = 0x00200000
)

// sleeper is a process in uninterruptible sleep.
type sleeper struct {
	name     string
	switches string // how often it has given up the processor so far
}

// processes returns the processes in uninterruptible sleep, and notes the names of all.
func (m *machineReader) processes() map[int]sleeper {
	proc := host.Proc(filepath.Join(m.root, "proc"))
	pids, err := proc.PIDs(maxLookedAt)
	if err != nil && len(pids) == 0 {
		m.unread("processes: " + err.Error())
		return nil
	}
	m.names = map[string]bool{}
	asleep := map[int]sleeper{}
	for _, pid := range pids {
		text, err := host.Read(proc.Path(pid, "stat"), host.Small)
		if err != nil {
			continue // it has ended
		}
		from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		fields := strings.Fields(text[to+1:])
		if from < 0 || to < from || len(fields) < 7 {
			continue
		}
		name := text[from+1 : to]
		m.names[name] = true
		flags, err := strconv.ParseUint(fields[6], 10, 64)
		if fields[0] != "D" || err != nil || flags&kernelThread != 0 {
			continue
		}
		status, err := proc.Status(pid)
		if err == nil {
			asleep[pid] = sleeper{name: name,
				switches: status.Value("voluntary_ctxt_switches") + "+" + status.Value("nonvoluntary_ctxt_switches")}
		}
	}
	return asleep
}

// stuck lists the processes that sleep at both looks and did not run between them.
func (m *machineReader) stuck(first, second map[int]sleeper) {
	var pids []int
	for pid, now := range second {
		if before, there := first[pid]; there && before == now {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	m.facts.StuckCount = len(pids)
	for _, pid := range pids[:min(len(pids), diag.MaxListed)] {
		wait := m.text(filepath.Join("proc", strconv.Itoa(pid), "wchan"))
		if wait == "0" { // not shown to this user
			wait = ""
		}
		m.facts.Stuck = append(m.facts.Stuck, diag.StuckProcess{PID: pid, Name: scrub.Text(second[pid].name),
			Wait: scrub.Text(wait)})
	}
}
