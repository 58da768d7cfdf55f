package hops

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Limits of a file system. Root may still write to one that is full for others, and a large one is not in need at 95%.
const (
	nearlyFull   = 95       // percent, of space or inodes
	roomToSpare  = 10 << 30 // bytes that are enough, whatever share of a file system they are
	volatileKind = "tmpfs"
)

// judgeMounts returns a finding for each file system that is not well.
func judgeMounts(f *diag.Fact) (out []diag.Finding) {
	if f == nil || f.Mounts == nil {
		return nil
	}
	for i := range f.Mounts.Mounts {
		if found := judgeMount(f, &f.Mounts.Mounts[i]); found != nil {
			found.Direct = found.Status == diag.StatusFail
			found.Culprit = "node file system " + f.Mounts.Mounts[i].Point
			out = append(out, *found)
		}
	}
	return out
}

func judgeMount(f *diag.Fact, m *diag.MountFacts) *diag.Finding {
	var out diag.Finding
	switch {
	case m.State == diag.MountDenied, strings.HasPrefix(m.State, "not asked"):
		return nil // not measured
	case m.State == diag.MountHangs:
		out = reading.Fail(diag.SigHostMountHangs, f, "%s does not answer: whatever touches it hangs%s", mountName(m),
			leftBehind(f.Mounts))
	case m.State != diag.MountAnswers:
		out = reading.Fail(diag.SigHostMountHangs, f, "%s cannot be used: %s", mountName(m), m.State)
	case m.ReadOnly && m.DeclaredWritable:
		out = reading.Fail(diag.SigHostReadOnly, f, "%s is read-only, and /etc/fstab has it to be written", mountName(m))
	case m.ReadOnly:
		return nil // an image, or so by choice: it is never written
	default:
		return judgeRoom(f, m)
	}
	return &out
}

// judgeRoom returns the finding of a file system that is full, or nearly; nil if it has room.
func judgeRoom(f *diag.Fact, m *diag.MountFacts) *diag.Finding {
	var out diag.Finding
	switch {
	case m.FreeBytes != nil && *m.FreeBytes == 0 && *m.TotalBytes > 0:
		out = reading.Fail(diag.SigHostFull, f, "%s is full: no byte is free", mountName(m))
	case m.InodesUsed != nil && *m.InodesUsed >= 100:
		out = reading.Fail(diag.SigHostFull, f, "%s has no inode left: no file can be made there", mountName(m))
	case m.UsedPercent != nil && *m.UsedPercent >= 100:
		out = reading.Fail(diag.SigHostFull, f, "%s is full: %d MiB of %d are free", mountName(m), *m.FreeBytes>>20,
			*m.TotalBytes>>20)
	case m.UsedPercent != nil && *m.UsedPercent >= nearlyFull && *m.FreeBytes < roomToSpare:
		out = reading.Warn(diag.SigHostFull, f, "%s is %d%% full: %d MiB are free", mountName(m), *m.UsedPercent,
			*m.FreeBytes>>20)
	case m.InodesUsed != nil && *m.InodesUsed >= nearlyFull && m.Kind != volatileKind:
		out = reading.Warn(diag.SigHostFull, f, "%d%% of the inodes of %s are used", *m.InodesUsed, mountName(m))
	default:
		return nil
	}
	return &out
}

// mountName names a file system for people.
func mountName(m *diag.MountFacts) string {
	if m.Remote && m.Source != "" {
		return fmt.Sprintf("%s (%s from %s)", m.Point, m.Kind, reading.OneLine(m.Source))
	}
	return fmt.Sprintf("%s (%s)", m.Point, m.Kind)
}

// leftBehind tells of the probe's own processes that hang with it.
func leftBehind(m *diag.MountsFacts) string {
	if m.Left == 0 {
		return ""
	}
	return fmt.Sprintf("; so do %d processes that asked, until it answers", m.Left)
}
