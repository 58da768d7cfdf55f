package host

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// folder makes a folder with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestMachine: what a machine's files say is taken as it is, and what it lacks is absent.
func TestMachine(t *testing.T) {
	m := machineReader{root: folder(t, map[string]string{
		"proc/meminfo": "MemTotal:       16000 kB\nMemAvailable:    4000 kB\nSwapTotal: 0 kB\nHugePages_Total: 3\n",
		"proc/vmstat":  "nr_free_pages 1\noom_kill 2\n",
		"proc/loadavg": "0.10 1.25 0.30 1/99 7\n",
		"proc/pressure/memory": "some avg10=9.00 avg60=9.00 avg300=9.00 total=1\n" +
			"full avg10=1.00 avg60=2.00 avg300=3.50 total=1\n",
		"sys/devices/system/edac/mc/mc0/ce_count":   "4\n",
		"sys/devices/system/edac/mc/mc0/ue_count":   "1\n",
		"sys/devices/system/edac/mc/power/whatever": "on\n",
		"sys/class/nvme/nvme0/state":                "dead\n",
		"sys/class/nvme/nvme0/model":                "DISK  \n",
		"sys/class/infiniband/mlx5_0/node_type":     "1: CA\n",
	}), facts: &diag.MachineFacts{}}
	m.memory()
	m.hardware()
	f := m.facts
	if *f.MemTotal != 16000<<10 || *f.MemFree != 4000<<10 || *f.SwapTotal != 0 || f.SwapFree != nil || *f.OOMKills != 2 ||
		*f.Load != 1.25 || *f.MemStalled != 3.5 || f.IOStalled != nil {
		t.Errorf("memory: %+v", f)
	}
	if len(f.MemoryErrors) != 1 ||
		f.MemoryErrors[0] != (diag.MemoryController{Name: "mc0", Corrected: 4, Uncorrectable: 1}) {
		t.Errorf("memory controllers: %+v", f.MemoryErrors)
	}
	if len(f.NVMe) != 1 || len(f.RDMA) != 1 ||
		f.NVMe[0] != (diag.NVMeDevice{Name: "nvme0", State: "dead", Model: "DISK"}) {
		t.Errorf("devices: %+v %v", f.NVMe, f.RDMA)
	}
}

// TestStuckProcesses: only a program that sleeps at both looks and did not run between them is stuck.
func TestStuckProcesses(t *testing.T) {
	stat := func(pid, name, state, flags string) string {
		return pid + " (" + name + ") " + state + " 1 1 1 0 -1 " + flags + " 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n"
	}
	status := func(n string) string { return "voluntary_ctxt_switches:\t" + n + "\nnonvoluntary_ctxt_switches:\t0\n" }
	files := map[string]string{
		"proc/10/stat": stat("10", "hung) x", "D", "4194304"), "proc/10/status": status("5"), "proc/10/wchan": "nfs_wait",
		"proc/11/stat": stat("11", "busy", "D", "4194304"), "proc/11/status": status("5"),
		"proc/12/stat": stat("12", "runs", "R", "4194304"), "proc/12/status": status("5"),
		"proc/13/stat": stat("13", "kworker", "D", "2097216"), "proc/13/status": status("5"),
	}
	m := machineReader{root: folder(t, files), facts: &diag.MachineFacts{}}
	first := m.processes()
	if err := os.WriteFile(filepath.Join(m.root, "proc/11/status"), []byte(status("6")), 0o600); err != nil {
		t.Fatal(err)
	}
	m.stuck(first, m.processes())
	if f := m.facts; f.StuckCount != 1 || f.Stuck[0] != (diag.StuckProcess{PID: 10, Name: "hung) x", Wait: "nfs_wait"}) {
		t.Errorf("%+v", f)
	}
	if !m.names["runs"] || !m.names["hung) x"] {
		t.Errorf("names: %v", m.names)
	}
}

// TestRuntimeSockets: a runtime answers, is silent, or refuses; one whose program does not run is not asked, since that
// would start it.
func TestRuntimeSockets(t *testing.T) {
	tier.NeedsHost(t)
	root := t.TempDir()
	serve := func(path, answer string) {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if _, err := conn.Read(make([]byte, 512)); err == nil && answer != "" {
					_, _ = conn.Write([]byte(answer))
				}
				if answer == "" {
					conn.Close()
				}
			}
		}()
	}
	serve("run/docker.sock", "HTTP/1.0 500 no\r\n\r\n")
	serve("run/containerd/containerd.sock", "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	serve("run/crio/crio.sock", "")
	got := askRuntimes(t.Context(), root, map[string]bool{"dockerd": true, "containerd": true, "crio": true})
	want := map[string]string{"docker": "HTTP status 500", "containerd": diag.RuntimeAnswers, "cri-o": diag.RuntimeSilent}
	for _, r := range got {
		if r.State != want[r.Name] {
			t.Errorf("%s: %s, want %s", r.Name, r.State, want[r.Name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d sockets", len(got))
	}
	if got := askRuntimes(t.Context(), root, map[string]bool{"crio": true}); len(got) != 1 {
		t.Errorf("asked %+v", got)
	}
}

// TestMounts: each real file system is asked once, in a process of its own, and one that hangs delays no other.
func TestMounts(t *testing.T) {
	list := realMounts([]host.Mount{
		{Dev: "8:1", Point: "/", Kind: "ext4", Super: "rw"},
		{Dev: "8:1", Point: "/var/lib/x", Kind: "ext4", Super: "rw"},
		{Dev: "0:5", Point: "/proc", Kind: "proc", Super: "rw"},
		{Dev: "0:6", Point: "/run/user/0", Kind: "tmpfs", Super: "rw"},
		{Dev: "0:7", Point: "/data", Kind: "xfs", Super: "rw"},
		{Dev: "0:8", Point: "/data", Kind: "nfs4", Source: "fs:/d", Super: "ro,vers=4.2"},
		{Dev: "0:9", Point: "/srv", Kind: "fuse.sshfs", Super: "rw"},
	}, map[string]bool{"/": true})
	var names []string
	for _, m := range list {
		names = append(names, m.Point+" "+m.Kind)
	}
	if got := strings.Join(names, ","); got != "/ ext4,/data nfs4,/srv fuse.sshfs" {
		t.Fatal(got)
	}
	if !list[0].DeclaredWritable || list[1].DeclaredWritable || !list[1].ReadOnly || !list[1].Remote || !list[2].Remote {
		t.Errorf("%+v", list)
	}
	facts := &diag.MountsFacts{Mounts: list}
	askMounts(t.Context(), facts, func(_ context.Context, point string) (host.Answer, bool, error) {
		switch point {
		case "/data":
			return host.Answer{}, true, context.DeadlineExceeded
		case "/srv":
			return host.Answer{Code: 1, Err: []byte("stat: cannot read file system information for '/srv': " +
				"Transport endpoint is not connected\n")}, false, nil
		}
		return host.Answer{Out: []byte("4096 1000 100 50 10 1\n")}, false, nil
	})
	if facts.Left != 1 || list[1].State != diag.MountHangs || list[2].State != "Transport endpoint is not connected" {
		t.Errorf("%+v", facts)
	}
	if m := list[0]; m.State != diag.MountAnswers || *m.TotalBytes != 4096000 || *m.FreeBytes != 204800 ||
		*m.UsedPercent != 95 || *m.InodesUsed != 90 {
		t.Errorf("%+v", m)
	}
}

// TestKernelLines: lines as kernels print them, of the kinds that they are, and lines that report no fault.
func TestKernelLines(t *testing.T) {
	for text, want := range map[string]diag.KernelKind{
		"Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB":        diag.KernelOOM,
		"Memory cgroup out of memory: Killed process 7 (x) total-vm:1kB":                 diag.KernelOOM,
		"INFO: task dd:4711 blocked for more than 120 seconds.":                          diag.KernelHung,
		"mce: [Hardware Error]: Machine check events logged":                             diag.KernelCorrected,
		"[Hardware Error]: Uncorrected, software restartable error.":                     diag.KernelUncorrected,
		"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0":             diag.KernelCorrected,
		"EDAC MC0: 1 UE memory read error on CPU_SrcID#0":                                diag.KernelUncorrected,
		"blk_update_request: I/O error, dev sdb, sector 2048 op 0x0:(READ)":              diag.KernelIO,
		"I/O error, dev nvme0n1, sector 8 op 0x1:(WRITE) flags 0x0":                      diag.KernelIO,
		"Buffer I/O error on dev sdb1, logical block 0, async page read":                 diag.KernelIO,
		"nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff": diag.KernelNVMe,
		"nvme nvme1: I/O 12 QID 3 timeout, aborting":                                     diag.KernelNVMe,
		"EXT4-fs (sda1): Remounting filesystem read-only":                                diag.KernelRemounted,
		"XFS (dm-0): Filesystem has been shut down due to log error (0x2).":              diag.KernelRemounted,
		"EXT4-fs error (device sda1): ext4_lookup:1":                                     diag.KernelFileSystem,
		"nfs: server 10.0.0.5 not responding, still trying":                              diag.KernelNFS,
		"watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [kworker:1]":                  diag.KernelBug,
		"EDAC MC: Ver: 3.0.0": "",
		"EXT4-fs (sda1): mounted filesystem with ordered data mode": "",
		"nvme nvme0: 16/0/0 default/read/poll queues":               "",
		"mce: CPU0: Thermal monitoring enabled (TM1)":               "",
		"MCE: In-kernel MCE decoding enabled.":                      "",
		"nfs: server 10.0.0.5 OK":                                   "",
	} {
		if got := kernelKindOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestKernelLog: the kernel's own lines count, by kind, and those of programs do not.
func TestKernelLog(t *testing.T) {
	k := kernelReader{facts: &diag.KernelFacts{}, up: 100 * time.Second}
	for _, record := range []string{
		"6,7,1000000,-;Linux version 6.1",
		"3,8,10000000,-;Out of memory: Killed process 1 (a) total-vm:1kB",
		"3,9,40000000,-;Out of memory: Killed process 2 (b) total-vm:1kB",
		"11,10,50000000,-;Out of memory: Killed process 3 (written by a program)",
		"4,11,60000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.",
		"4,12,70000000,-;NVRM: Xid (PCI:0000:5e:00): 31, pid=7, name=python3, MMU Fault",
		"no record",
	} {
		k.record([]byte(record))
	}
	f := k.facts
	if f.Records != 6 || f.Lost != 7 || *f.FromS != 99 || len(f.Events) != 3 {
		t.Fatalf("%+v", f)
	}
	if e := f.Events[0]; e.Kind != diag.KernelOOM || e.Count != 2 || e.AgoS != 60 ||
		!strings.Contains(e.Text, "process 2") {
		t.Errorf("%+v", e)
	}
	if e := f.Events[1]; e.Kind != diag.KernelGPULost || e.Code != 79 || !strings.HasPrefix(e.Device, "0000:3b:00") {
		t.Errorf("%+v", e)
	}
	if e := f.Events[2]; e.Kind != diag.KernelXID || e.Code != 31 {
		t.Errorf("%+v", e)
	}
}
