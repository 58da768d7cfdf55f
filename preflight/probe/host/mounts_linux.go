package host

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// mountPatience is how long a file system may take to say how full it is: a healthy one takes microseconds, a server
	// on another continent a third of a second.
	mountPatience = 1500 * time.Millisecond
	// mountsAtOnce is how many are asked at a time.
	mountsAtOnce = 16
	// mountAnswer bounds what a process says of its file system.
	mountAnswer = 8 << 10

	mountNotInTime = "not asked in time"
)

// unreal are kinds of file systems that the kernel makes up, or whose size says nothing: an image is full by design.
var unreal = []string{
	"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "erofs",
	"fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs",
	"selinuxfs", "smackfs", "squashfs", "sysfs", "tracefs", "udf",
}

// remote are kinds of file systems that a server or a program serves, so that each may hang by itself.
var remote = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "gpfs", "9p", "afs", "glusterfs",
	"virtiofs", "wekafs", "ocfs2", "gfs2", "orangefs", "panfs"}

func isRemote(kind string) bool {
	return slices.Contains(remote, kind) || strings.HasPrefix(kind, "fuse")
}

// inMemory are where a file system in memory matters to programs; there are many others, each of one unit.
var inMemory = []string{"/", "/run", "/tmp", "/dev/shm", "/var/tmp"}

// mounts asks the file systems of this machine how full they are. A file system whose server is gone hangs the
// process that asks, and cannot be interrupted, so that a process of its own asks. Failures: file_missing,
// file_unreadable.
func (p *Prober) mounts(ctx context.Context, _ diag.Request, f *diag.Fact) {
	all, err := host.This.Mounts(host.Thread)
	if err != nil {
		measure.Fail(f, "read", measure.FileWord(err), err)
		return
	}
	f.Mounts = &diag.MountsFacts{Mounts: realMounts(all, declared(filepath.Join("/", p.root, "etc/fstab")))}
	if more := len(f.Mounts.Mounts) - diag.MaxListed; more > 0 {
		f.Mounts.More, f.Mounts.Mounts = more, f.Mounts.Mounts[:diag.MaxListed]
	}
	askMounts(ctx, f.Mounts, stat)
	if ctx.Err() != nil {
		measure.Interrupted(ctx, f, "stat")
	}
}

// realMounts lists each file system once, by its shortest path, in the order of mounting.
func realMounts(all []host.Mount, written map[string]bool) []diag.MountFacts {
	list := []diag.MountFacts{}
	at := map[string]int{} // index by device
	for k, m := range all {
		if hidden(all, k) || slices.Contains(unreal, m.Kind) || strings.ContainsAny(m.Point, "\n\t") ||
			(m.Kind == "tmpfs" && !slices.Contains(inMemory, m.Point)) ||
			(m.Kind == "overlay" && m.Point != "/") { // of containers: on a file system that is listed by itself
			continue
		}
		row := diag.MountFacts{Point: m.Point, Kind: m.Kind, Source: m.Source, ReadOnly: m.HasSuper("ro"),
			DeclaredWritable: written[m.Point], Remote: isRemote(m.Kind)}
		i, had := at[m.Dev]
		switch {
		case !had:
			at[m.Dev] = len(list)
			list = append(list, row)
		case len(m.Point) < len(list[i].Point):
			list[i] = row
		}
	}
	return list
}

// hidden reports whether a later mount covers the folder.
func hidden(all []host.Mount, i int) bool {
	return slices.ContainsFunc(all[i+1:], func(o host.Mount) bool { return o.Point == all[i].Point })
}

// declared lists the mount points that fstab has, true for those that are to be written.
func declared(fstab string) map[string]bool {
	written := map[string]bool{}
	text, err := host.Read(fstab, host.Small)
	if err != nil {
		return written
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		written[fields[1]] = !slices.Contains(strings.Split(fields[3], ","), "ro")
	}
	return written
}

// asker asks one file system in a process of its own, for its sizes in sizesFormat. left: the process could not be
// ended.
type asker func(ctx context.Context, point string) (a host.Answer, left bool, err error)

// askMounts asks all, some at a time.
func askMounts(ctx context.Context, facts *diag.MountsFacts, ask asker) {
	slots := make(chan struct{}, mountsAtOnce)
	var each sync.WaitGroup
	var left atomic.Int64
	for i := range facts.Mounts {
		slots <- struct{}{}
		each.Go(func() {
			defer func() { <-slots }()
			m := &facts.Mounts[i]
			if ctx.Err() != nil {
				m.State = mountNotInTime
				return
			}
			a, hung, err := ask(ctx, m.Point)
			if hung {
				left.Add(1)
			}
			m.State = stateOf(a, hung, err)
			switch {
			case m.State == diag.MountHangs && ctx.Err() != nil: // the request's time was up, and not the file system's
				m.State = mountNotInTime
			case m.State == diag.MountAnswers:
				readSizes(string(a.Out), m)
			}
		})
	}
	each.Wait()
	facts.Left = int(left.Load())
}

// stateOf says how a file system answered.
func stateOf(a host.Answer, left bool, err error) string {
	complaint := a.Complaint()
	_, why, _ := strings.Cut(complaint, "': ") // stat: cannot read file system information for '/mnt': Stale file handle
	switch {
	case left, errors.Is(err, context.DeadlineExceeded):
		return diag.MountHangs
	case err != nil:
		return "not asked: " + err.Error()
	case a.Code == 0:
		return diag.MountAnswers
	case why == "Permission denied", why == "Operation not permitted":
		return diag.MountDenied
	}
	return cmp.Or(scrub.Text(why), scrub.Text(complaint), "not asked: stat failed")
}

// sizesFormat is what is asked of a file system: unit, blocks, free, available, inodes, free inodes.
const sizesFormat = "%S %b %f %a %c %d"

// readSizes reads an answer in that format.
func readSizes(line string, m *diag.MountFacts) {
	parts := strings.Fields(line)
	var n [6]uint64
	if len(parts) != len(n) {
		return
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(parts[i], 10, 64); err != nil {
			return
		}
	}
	unit, blocks, free, available := n[0], n[1], n[2], n[3]
	if blocks == 0 || free > blocks { // it reports no sizes
		return
	}
	m.TotalBytes, m.FreeBytes = new(blocks*unit), new(available*unit)
	m.UsedPercent = percent(blocks-free, blocks-free+available)
	if n[4] > 0 && n[5] <= n[4] {
		m.InodesUsed = percent(n[4]-n[5], n[4])
	}
}

// percent rounds up, as df does; nil of nothing.
func percent(part, whole uint64) *int {
	if whole == 0 {
		return nil
	}
	return new(int((part*100 + whole - 1) / whole))
}

// stat asks with the machine's own stat, which both GNU and busybox have. A process in the kernel's uninterruptible
// sleep cannot be killed: it is left.
func stat(ctx context.Context, point string) (host.Answer, bool, error) {
	ask := host.Command{Limit: mountPatience, Most: mountAnswer}
	return ask.RunOrLeave(ctx, "stat", "-f", "-c", sizesFormat, "--", point)
}
