package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// bareNode judges facts of a node of which nothing is known but how it is reached.
func bareNode(p profile.Profile, facts ...diag.Fact) *diag.Report {
	absent := new(bool)
	p.Kind, p.Agent.Present, p.Allocation.Present = profile.KindSSHOnly, absent, absent
	p.Mapping.Paths = profile.NoPaths()
	p = p.WithDefaults()
	of := hop.NewSubject(p, "n1", "n1", "", "")
	r := &diag.Report{Subject: of, Plan: hops.BuiltIn().NewPlan(p, of, hop.Options{SSH: true}), Facts: facts}
	r.Run.EndedBy, r.Plan.Command = diag.EndedCompleted, "gpuaasctl check n1"
	for i := range r.Facts {
		if r.Facts[i].At.IsZero() {
			r.Facts[i].At = diag.At(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
		}
	}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

func nodeFact(id string, op diag.Op) diag.Fact {
	return diag.Fact{ID: id, Vantage: hop.Node, Request: diag.Request{ID: id, Op: op}, DurationMS: 5}
}

// wellHost are the facts of a bare Debian on which all is well.
func wellHost() []diag.Fact {
	login := nodeFact("node_ops_access/ssh", diag.OpSSH)
	login.SSH = &diag.SSHFacts{User: "root", UID: new(int), Helper: "pushed"}
	root := nodeFact("node_readiness/root_disk", diag.OpDisk)
	root.Disk = &diag.DiskFacts{FSType: "ext4", TotalBytes: 100, FreeBytes: 50, UsedPercent: 50}
	clock := nodeFact("node_readiness/clock", diag.OpClock)
	clock.Clock = &diag.ClockFacts{OffsetMS: new(int64), ErrorMS: new(int64)}
	gpu := nodeFact("gpu_health/node", diag.OpGPU)
	gpu.GPU = &diag.GPUFacts{}
	machine := nodeFact("host_health/machine", diag.OpMachine)
	machine.Machine = &diag.MachineFacts{OS: "Debian GNU/Linux 13", Kernel: "6.12", UptimeS: new(int64(86400)),
		MemTotal: new(int64(1 << 34)), MemFree: new(int64(1 << 33)), OOMKills: new(int64), FailedCount: new(int),
		ClockSynced: new(true), MemoryErrors: []diag.MemoryController{{Name: "mc0"}},
		NVMe:     []diag.NVMeDevice{{Name: "nvme0", State: "live"}},
		Runtimes: []diag.RuntimeSocket{{Name: "docker", Path: "/run/docker.sock", State: diag.RuntimeAnswers}},
		Memlock:  []diag.MemlockLimit{{Of: "this login", Bytes: new(int64(8 << 20))}}}
	mounts := nodeFact("host_health/mounts", diag.OpMounts)
	mounts.Mounts = &diag.MountsFacts{Mounts: []diag.MountFacts{
		{Point: "/", Kind: "ext4", State: diag.MountAnswers, TotalBytes: new(uint64(100 << 30)),
			FreeBytes: new(uint64(50 << 30)), UsedPercent: new(50), InodesUsed: new(3), DeclaredWritable: true},
		{Point: "/data", Kind: "nfs4", Source: "fs:/data", Remote: true, State: diag.MountAnswers},
	}}
	kernel := nodeFact("host_health/kernel", diag.OpKernel)
	kernel.Kernel = &diag.KernelFacts{Records: 900}
	return []diag.Fact{login, root, clock, gpu, machine, mounts, kernel}
}

func factOf(facts []diag.Fact, id string) *diag.Fact { return diag.FactsByID(facts)[id] }

// hostCase changes the facts of a healthy host, and says what the walk must conclude.
type hostCase struct {
	change func(m *diag.MachineFacts, fs *diag.MountFacts, k *diag.KernelFacts)
	status diag.Status
	signal diag.Signal
	text   string
}

func (h hostCase) check(t *testing.T) {
	t.Helper()
	facts := wellHost()
	machine, mounts := factOf(facts, "host_health/machine").Machine, factOf(facts, "host_health/mounts").Mounts
	h.change(machine, &mounts.Mounts[1], factOf(facts, "host_health/kernel").Kernel)
	r := bareNode(profile.Profile{}, facts...)
	got := hopResult(r, diag.HopHostHealth)
	if got.Status != h.status || got.Signal != h.signal || !strings.Contains(got.Text+got.Because, h.text) {
		t.Errorf("%s %q: %s%s", got.Status, got.Signal, got.Text, got.Because)
	}
	want := map[diag.Status]diag.Outcome{diag.StatusPass: diag.OutcomePass, diag.StatusWarn: diag.OutcomeWarn,
		diag.StatusFail: diag.OutcomeFail}[h.status]
	if r.Verdict.Outcome != want {
		t.Errorf("the outcome is %s, want %s", r.Verdict.Outcome, want)
	}
	if h.status == diag.StatusFail && (r.Verdict.Blame == nil || r.Verdict.Blame.Hop != diag.HopHostHealth ||
		r.Verdict.Confidence != diag.Observed || r.Verdict.Owner == "" || len(r.Verdict.Recovery) == 0) {
		t.Errorf("the verdict is %+v", r.Verdict)
	}
}

func hopResult(r *diag.Report, id diag.HopID) *diag.HopResult {
	for i := range r.Hops {
		if r.Hops[i].ID == id {
			return &r.Hops[i]
		}
	}
	return &diag.HopResult{}
}

// TestHostHealth: what breaks work fails, what costs something warns, and what is usual is neither.
func TestHostHealth(t *testing.T) {
	event := func(kind diag.KernelKind, ago time.Duration) diag.KernelEvent {
		return diag.KernelEvent{Kind: kind, Count: 2, AgoS: int64(ago.Seconds()), Text: "the kernel's own words"}
	}
	type (
		m = diag.MachineFacts
		f = diag.MountFacts
		k = diag.KernelFacts
	)
	for name, c := range map[string]hostCase{
		"all is well": {func(*m, *f, *k) {}, diag.StatusPass, "", "Debian GNU/Linux 13"},

		"a file server is gone": {func(_ *m, f *f, _ *k) { f.State = diag.MountHangs }, diag.StatusFail,
			diag.SigHostMountHangs, "/data (nfs4 from fs:/data) does not answer"},
		"a stale handle": {func(_ *m, f *f, _ *k) { f.State = "Stale file handle" }, diag.StatusFail,
			diag.SigHostMountHangs, "Stale file handle"},
		"a mount of another user": {func(_ *m, f *f, _ *k) { f.State = diag.MountDenied }, diag.StatusPass, "",
			"not measured: /data (not permitted)"},
		"a full disk": {func(_ *m, f *f, _ *k) {
			f.TotalBytes, f.FreeBytes, f.UsedPercent = new(uint64(1<<40)), new(uint64(0)), new(100)
		}, diag.StatusFail, diag.SigHostFull, "no byte is free"},
		"no inodes": {func(_ *m, f *f, _ *k) { f.InodesUsed = new(100) }, diag.StatusFail, diag.SigHostFull, "no inode"},
		"nearly full": {func(_ *m, f *f, _ *k) {
			f.TotalBytes, f.FreeBytes, f.UsedPercent = new(uint64(10<<30)), new(uint64(300<<20)), new(97)
		}, diag.StatusWarn, diag.SigHostFull, "97% full"},
		"a large disk with room": {func(_ *m, f *f, _ *k) {
			f.TotalBytes, f.FreeBytes, f.UsedPercent = new(uint64(100<<40)), new(uint64(3<<40)), new(97)
		}, diag.StatusPass, "", ""},
		"read-only by choice": {func(_ *m, f *f, _ *k) { f.ReadOnly = true }, diag.StatusPass, "", ""},
		"became read-only": {func(_ *m, f *f, _ *k) { f.ReadOnly, f.DeclaredWritable = true, true }, diag.StatusFail,
			diag.SigHostReadOnly, "/etc/fstab"},

		"an error of memory": {func(m *m, _ *f, _ *k) { m.MemoryErrors[0].Uncorrectable = 1 }, diag.StatusFail,
			diag.SigHostMemoryErrors, "mc0"},
		"a corrected one": {func(m *m, _ *f, _ *k) { m.MemoryErrors[0].Corrected = 7 }, diag.StatusWarn,
			diag.SigHostMemoryErrors, "corrected 7"},
		"a dead disk": {func(m *m, _ *f, _ *k) { m.NVMe[0].State = "dead" }, diag.StatusFail, diag.SigHostStorage, "nvme0"},
		"a disk that resets": {func(m *m, _ *f, _ *k) { m.NVMe[0].State = "resetting" }, diag.StatusWarn,
			diag.SigHostStorage, "resetting"},
		"no memory left": {func(m *m, _ *f, _ *k) { m.MemFree = new(int64(1 << 20)) }, diag.StatusWarn,
			diag.SigHostMemoryShort, "1 of 16384 MiB"},
		"the host's memory": {func(m *m, _ *f, _ *k) { m.MemFree, m.Container = new(int64(1<<20)), "docker" },
			diag.StatusPass, "", ""},
		"killed for memory": {func(m *m, _ *f, _ *k) { m.OOMKills = new(int64(3)) }, diag.StatusWarn,
			diag.SigHostMemoryShort, "3 processes"},
		"a process hangs": {func(m *m, _ *f, _ *k) {
			m.StuckCount, m.Stuck = 1, []diag.StuckProcess{{PID: 7, Name: "python3", Wait: "nfs_wait"}}
		}, diag.StatusWarn, diag.SigHostStuck, "7 python3 in nfs_wait"},
		"a failed unit": {func(m *m, _ *f, _ *k) { m.FailedCount, m.FailedUnits = new(1), []string{"x.service"} },
			diag.StatusWarn, diag.SigHostUnits, "1 unit has failed: x.service"},
		"no systemd": {func(m *m, _ *f, _ *k) {
			m.FailedCount, m.Unread = nil, []string{"failed units: systemd does not run here"}
		}, diag.StatusPass, "", "not measured: failed units"},
		"a silent runtime": {func(m *m, _ *f, _ *k) { m.Runtimes[0].State = diag.RuntimeSilent }, diag.StatusWarn,
			diag.SigHostRuntime, "/run/docker.sock"},
		"a runtime of root's": {func(m *m, _ *f, _ *k) { m.Runtimes[0].State = diag.RuntimeDenied }, diag.StatusPass, "", ""},
		"an unset clock": {func(m *m, _ *f, _ *k) { m.ClockSynced = new(bool) }, diag.StatusWarn, diag.SigHostClock,
			"no program"},
		"a clock after boot": {func(m *m, _ *f, _ *k) { m.ClockSynced, m.UptimeS = new(bool), new(int64(60)) },
			diag.StatusPass, "", ""},
		"RDMA with little memory": {func(m *m, _ *f, _ *k) { m.RDMA = []string{"mlx5_0"} }, diag.StatusWarn,
			diag.SigHostMemlock, "8192 KiB"},
		"a certificate ends": {func(m *m, _ *f, _ *k) {
			m.Certificates = []diag.HostCertificate{{Path: "/etc/kubernetes/pki/apiserver.crt",
				NotAfter: diag.At(time.Date(2026, 5, 8, 0, 0, 0, 0, time.UTC))}}
		}, diag.StatusWarn, diag.SigHostCertificate, "within 14 days: /etc/kubernetes/pki/apiserver.crt (2026-05-08)"},

		"a GPU is gone": {func(_ *m, _ *f, k *k) { k.Events = append(k.Events, event(diag.KernelGPULost, 99*time.Hour)) },
			diag.StatusFail, diag.SigHostGPUErrors, "fallen off the bus"},
		"a machine check": {func(_ *m, _ *f, k *k) {
			k.Events = append(k.Events, event(diag.KernelUncorrected, time.Hour))
		}, diag.StatusFail, diag.SigHostMemoryErrors, "not corrected"},
		"an error of a disk": {func(_ *m, _ *f, k *k) { k.Events = append(k.Events, event(diag.KernelIO, time.Hour)) },
			diag.StatusWarn, diag.SigHostStorage, "the kernel's own words"},
		"an error of long ago": {func(_ *m, _ *f, k *k) {
			k.Events = append(k.Events, event(diag.KernelIO, 30*24*time.Hour))
		}, diag.StatusPass, "", ""},
		"a container's host": {func(_ *m, _ *f, k *k) {
			k.Container, k.Events = "docker", append(k.Events, event(diag.KernelOOM, time.Hour))
		}, diag.StatusPass, "", "which is of the host of this container (docker)"},
		"a failure goes first": {func(m *m, f *f, _ *k) { m.OOMKills, f.State = new(int64(1)), diag.MountHangs },
			diag.StatusFail, diag.SigHostMountHangs, "/data"},
	} {
		t.Run(name, c.check)
	}
}

// TestHostHealthWithoutRoot: a kernel log that only root may read is not measured, which is no fault.
func TestHostHealthWithoutRoot(t *testing.T) {
	facts := wellHost()
	login := factOf(facts, "node_ops_access/ssh").SSH
	login.User, login.UID, login.SudoRefused = "ops", new(1000), true
	log := factOf(facts, "host_health/kernel")
	log.Kernel, log.Failure, log.Phase, log.Errno = nil, diag.FileUnreadable, "read", "EPERM"
	r := bareNode(profile.Profile{}, facts...)
	got := hopResult(r, diag.HopHostHealth)
	if got.Status != diag.StatusPass || !strings.Contains(got.Text, "the kernel log (needs root)") {
		t.Errorf("%s: %s%s", got.Status, got.Text, got.Because)
	}
	if got := hopResult(r, diag.HopNodeOpsAccess); r.Verdict.Outcome != diag.OutcomePass ||
		!strings.Contains(got.Text, "without root") {
		t.Errorf("%s: %s: %s", r.Verdict.Outcome, got.Status, got.Text)
	}
}

// TestOptionalHops: the reference platform's walks have them where its profile asks, others unless theirs refuses.
func TestOptionalHops(t *testing.T) {
	for name, c := range map[string]struct {
		p    profile.Profile
		want bool
	}{
		"no kind":              {profile.Profile{}, false},
		"the reference":        {profile.Profile{Kind: profile.KindGPUaaS}, false},
		"the reference, asked": {profile.Profile{Hops: map[diag.HopID]bool{diag.HopHostHealth: true}}, true},
		"another kind":         {profile.Profile{Kind: profile.KindSlurmNode}, true},
		"another, refused": {profile.Profile{Kind: profile.KindSSHOnly,
			Hops: map[diag.HopID]bool{diag.HopHostHealth: false}}, false},
	} {
		p := c.p.WithDefaults()
		of := hop.NewSubject(p, "n1", "n1", "", "")
		plan := hops.BuiltIn().NewPlan(p, of, hop.Options{SSH: true})
		if row := (&hop.Case{Plan: plan}).Planned(diag.HopHostHealth); (row.Skip == "") != c.want {
			t.Errorf("%s: skip %q", name, row.Skip)
		}
	}
}
