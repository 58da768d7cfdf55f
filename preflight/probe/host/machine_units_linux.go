package host

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// startsJobs are units whose processes start the workloads of a node, which inherit their limits.
var startsJobs = []string{"containerd.service", "docker.service", "crio.service", "kubelet.service", "slurmd.service"}

// failedUnits asks systemd which units have failed.
func (m *machineReader) failedUnits(ctx context.Context) {
	if !host.Booted() {
		m.unread("failed units: systemd does not run here")
		return
	}
	a, err := command(ctx, "systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager")
	if err != nil || a.Code != 0 {
		m.unread("failed units: systemd did not answer")
		return
	}
	n := 0
	for line := range strings.Lines(string(a.Out)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if n++; n <= diag.MaxListed {
			m.facts.FailedUnits = append(m.facts.FailedUnits, scrub.Text(words[0]))
		}
	}
	m.facts.FailedCount = &n
}

// memlock reads how much memory the programs that start workloads may lock, and this login.
func (m *machineReader) memlock(ctx context.Context) {
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own) == nil {
		m.facts.Memlock = append(m.facts.Memlock, memlockOf("this login", own.Cur))
	}
	if !host.Booted() {
		return
	}
	a, err := command(ctx, host.ShowUnits("LoadState,ActiveState,LimitMEMLOCK", startsJobs...)...)
	if err != nil || a.Code != 0 {
		return
	}
	units := host.ParseUnits(string(a.Out))
	for i, unit := range startsJobs[:min(len(units), len(startsJobs))] {
		u := units[i]
		if u["LoadState"] != "loaded" || u["ActiveState"] != "active" {
			continue
		}
		if limit, ok := u.Number("LimitMEMLOCK"); ok {
			m.facts.Memlock = append(m.facts.Memlock, memlockOf(unit, uint64(limit)))
		} else if slices.Contains([]string{"infinity", "18446744073709551615"}, u["LimitMEMLOCK"]) {
			m.facts.Memlock = append(m.facts.Memlock, diag.MemlockLimit{Of: unit})
		}
	}
}

func memlockOf(of string, bytes uint64) diag.MemlockLimit {
	if bytes > 1<<62 {
		return diag.MemlockLimit{Of: of}
	}
	return diag.MemlockLimit{Of: of, Bytes: new(int64(bytes))}
}
