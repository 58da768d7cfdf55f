package hops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	// memoryShort is the share of memory, in percent, below which programs will soon get none; swapShort that of swap.
	memoryShort = 3
	swapShort   = 10
	// stalledMuch is the share of five minutes, in percent, in which nothing ran because all waited for memory.
	stalledMuch = 20
	// clockTime is how long after a boot a clock may be unset: a program that sets it has to hear from its servers.
	clockTime = 15 * time.Minute
	// memlockEnough is how much memory a program must be able to lock for RDMA; systemd's default is an eighth of a GiB
	// at most.
	memlockEnough = 1 << 30
)

// judgeMachine returns a finding for each thing that is not well.
func judgeMachine(f *diag.Fact) (out []diag.Finding) {
	if f == nil || f.Machine == nil {
		return nil
	}
	for _, judge := range []func(*diag.Fact, *diag.MachineFacts) []diag.Finding{
		judgeMemoryErrors, judgeNVMe, judgeMemory, judgeStuck, judgeUnits, judgeRuntimes, judgeTimeSource, judgeMemlock,
		judgeCertificates,
	} {
		out = append(out, judge(f, f.Machine)...)
	}
	for i := range out {
		out[i].Direct = out[i].Status == diag.StatusFail
	}
	return out
}

func judgeMemoryErrors(f *diag.Fact, m *diag.MachineFacts) (out []diag.Finding) {
	for _, e := range m.MemoryErrors {
		switch {
		case e.Uncorrectable > 0:
			out = append(out, reading.Fail(diag.SigHostMemoryErrors, f, "the memory controller %s counts %d errors that could "+
				"not be corrected, and %d that were", e.Name, e.Uncorrectable, e.Corrected))
		case e.Corrected > 0:
			out = append(out, reading.Warn(diag.SigHostMemoryErrors, f, "the memory controller %s has corrected %d errors",
				e.Name, e.Corrected))
		}
	}
	return out
}

func judgeNVMe(f *diag.Fact, m *diag.MachineFacts) (out []diag.Finding) {
	for _, d := range m.NVMe {
		name := strings.TrimSpace(d.Name + " " + reading.OneLine(d.Model))
		switch d.State {
		case "live", "new", "deleting", "deleting (no IO)": // the last are of a device that is taken out
		case "dead":
			out = append(out, reading.Fail(diag.SigHostStorage, f, "the NVMe device %s is dead", name))
		default:
			out = append(out, reading.Warn(diag.SigHostStorage, f, "the NVMe device %s is %s", name, d.State))
		}
	}
	return out
}

// judgeMemory is about a whole machine: in a container the numbers are its host's.
func judgeMemory(f *diag.Fact, m *diag.MachineFacts) []diag.Finding {
	if m.MemTotal == nil || m.MemFree == nil || *m.MemTotal <= 0 || m.Container != "" {
		return nil
	}
	swapLeft := m.SwapTotal != nil && m.SwapFree != nil && *m.SwapTotal > 0 && *m.SwapFree*100 > *m.SwapTotal*swapShort
	var texts []string
	if *m.MemFree*100 < *m.MemTotal*memoryShort && !swapLeft {
		texts = append(texts, fmt.Sprintf("%d of %d MiB of memory are available", *m.MemFree>>20, *m.MemTotal>>20))
	}
	if m.MemStalled != nil && *m.MemStalled >= stalledMuch {
		texts = append(texts, fmt.Sprintf("for %.0f%% of the last five minutes everything waited for memory", *m.MemStalled))
	}
	if n := m.OOMKills; n != nil && *n > 0 {
		texts = append(texts, fmt.Sprintf("the kernel has ended %s for lack of memory since the machine booted",
			processes(int(*n))))
	}
	if len(texts) == 0 {
		return nil
	}
	return []diag.Finding{reading.Warn(diag.SigHostMemoryShort, f, "%s", strings.Join(texts, "; "))}
}

func processes(n int) string {
	if n == 1 {
		return "a process"
	}
	return fmt.Sprintf("%d processes", n)
}

func judgeStuck(f *diag.Fact, m *diag.MachineFacts) []diag.Finding {
	if m.StuckCount == 0 {
		return nil
	}
	var who []string
	for _, p := range m.Stuck {
		text := fmt.Sprintf("%d %s", p.PID, reading.OneLine(p.Name))
		if p.Wait != "" {
			text += " in " + reading.OneLine(p.Wait)
		}
		who = append(who, text)
	}
	return []diag.Finding{reading.Warn(diag.SigHostStuck, f,
		"%s in uninterruptible sleep, and did not run for a second: %s", processes(m.StuckCount), listed(who))}
}

// listed joins the first few.
func listed(names []string) string {
	const few = 4
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

func judgeUnits(f *diag.Fact, m *diag.MachineFacts) []diag.Finding {
	if m.FailedCount == nil || *m.FailedCount == 0 {
		return nil
	}
	names := slices.Clone(m.FailedUnits)
	for i := range names {
		names[i] = reading.OneLine(names[i])
	}
	what := "units have"
	if *m.FailedCount == 1 {
		what = "unit has"
	}
	return []diag.Finding{reading.Warn(diag.SigHostUnits, f, "%d %s failed: %s", *m.FailedCount, what, listed(names))}
}

func judgeRuntimes(f *diag.Fact, m *diag.MachineFacts) (out []diag.Finding) {
	for _, r := range m.Runtimes {
		if r.State == diag.RuntimeAnswers || r.State == diag.RuntimeDenied {
			continue
		}
		out = append(out, reading.Warn(diag.SigHostRuntime, f, "%s runs, and its socket %s does not answer as it should: %s",
			r.Name, r.Path, r.State))
	}
	return out
}

// judgeTimeSource is about a machine's own clock: a container's is its host's.
func judgeTimeSource(f *diag.Fact, m *diag.MachineFacts) []diag.Finding {
	booted := m.UptimeS == nil || time.Duration(*m.UptimeS)*time.Second < clockTime
	if m.ClockSynced == nil || *m.ClockSynced || m.Container != "" || booted {
		return nil
	}
	text := "no program that sets the clock runs"
	if len(m.TimeDaemons) > 0 {
		text = strings.Join(m.TimeDaemons, ", ") + " runs, and has not set the clock"
	}
	return []diag.Finding{reading.Warn(diag.SigHostClock, f, "the kernel counts its clock as not synchronized: %s", text)}
}

// judgeMemlock is about machines with RDMA devices: other programs lock little.
func judgeMemlock(f *diag.Fact, m *diag.MachineFacts) []diag.Finding {
	if len(m.RDMA) == 0 {
		return nil
	}
	limits := m.Memlock
	if len(limits) > 1 { // what starts workloads counts, and not this login
		limits = slices.DeleteFunc(slices.Clone(limits), func(l diag.MemlockLimit) bool { return l.Of == "this login" })
	}
	var little []string
	for _, l := range limits {
		if l.Bytes != nil && *l.Bytes < memlockEnough {
			little = append(little, l.Of+" "+l.Limit())
		}
	}
	if len(little) == 0 {
		return nil
	}
	return []diag.Finding{reading.Warn(diag.SigHostMemlock, f, "this machine has RDMA (%s), and these may lock little "+
		"memory: %s", listed(m.RDMA), listed(little))}
}

func judgeCertificates(f *diag.Fact, m *diag.MachineFacts) (out []diag.Finding) {
	var soon, over []string
	for _, c := range m.Certificates {
		text := fmt.Sprintf("%s (%s)", c.Path, c.NotAfter.UTC().Format("2006-01-02"))
		if c.NotAfter.After(f.At.Time) {
			soon = append(soon, text)
		} else {
			over = append(over, text)
		}
	}
	if len(over) > 0 {
		out = append(out, reading.Warn(diag.SigHostCertificate, f, "certificates have ended: %s", listed(over)))
	}
	if len(soon) > 0 {
		out = append(out, reading.Warn(diag.SigHostCertificate, f, "certificates end within 14 days: %s", listed(soon)))
	}
	return out
}
