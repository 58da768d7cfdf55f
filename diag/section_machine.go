package diag

import (
	"fmt"
	"strings"
)

// MachineFacts is the state of a machine as its kernel and its service manager have it, whatever runs there. What could
// not be read is absent, and Unread says why.
type MachineFacts struct {
	Hostname  string `json:"hostname,omitempty"`
	MachineID string `json:"machine_id_sha256,omitempty"` // digest of /etc/machine-id, which itself is confidential
	OS        string `json:"os,omitempty"`                // the name that os-release has for people
	Kernel    string `json:"kernel,omitempty"`
	Container string `json:"container,omitempty"` // the kind of container that this is; "" for a whole machine
	UptimeS   *int64 `json:"uptime_s,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`

	Load       *float64 `json:"load_5min,omitempty"`
	MemTotal   *int64   `json:"memory_total_bytes,omitempty"`
	MemFree    *int64   `json:"memory_available_bytes,omitempty"` // what programs can still get without swapping
	SwapTotal  *int64   `json:"swap_total_bytes,omitempty"`
	SwapFree   *int64   `json:"swap_free_bytes,omitempty"`
	OOMKills   *int64   `json:"oom_kills,omitempty"`          // since boot; of the whole machine, also in a container
	MemStalled *float64 `json:"memory_stalled_pct,omitempty"` // share of the last 5 minutes in which all tasks waited for memory
	IOStalled  *float64 `json:"io_stalled_pct,omitempty"`     // the same for disks

	Stuck      []StuckProcess `json:"stuck,omitempty"` // in uninterruptible sleep at both looks; at most MaxListed
	StuckCount int            `json:"stuck_count,omitempty"`

	FailedUnits []string `json:"failed_units,omitempty"` // at most MaxListed
	FailedCount *int     `json:"failed_count,omitempty"`

	MemoryErrors []MemoryController `json:"memory_errors,omitempty"`
	NVMe         []NVMeDevice       `json:"nvme,omitempty"`
	RDMA         []string           `json:"rdma,omitempty"` // names of RDMA devices
	Memlock      []MemlockLimit     `json:"memlock,omitempty"`
	Runtimes     []RuntimeSocket    `json:"runtimes,omitempty"`

	ClockSynced *bool    `json:"clock_synchronized,omitempty"`
	TimeDaemons []string `json:"time_daemons,omitempty"` // programs that run and set the clock

	Certificates []HostCertificate `json:"certificates,omitempty"` // those that end soon or have ended; at most MaxListed
	CertsRead    int               `json:"certificates_read,omitempty"`

	Unread []string `json:"unread,omitempty"` // what was not read, and why
}

// MaxListed bounds the lists of a MachineFacts, of a MountsFacts and of a KernelFacts.
const MaxListed = 64

// StuckProcess is a process in uninterruptible sleep (state D): not even SIGKILL ends it.
type StuckProcess struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	Wait string `json:"wait,omitempty"` // the kernel's function in which it waits
}

// MemoryController has the error counters of a memory controller (EDAC), since its driver was loaded.
type MemoryController struct {
	Name          string `json:"name"`
	Corrected     int64  `json:"corrected"`
	Uncorrectable int64  `json:"uncorrectable"`
}

// NVMeDevice is an NVMe controller by sysfs.
type NVMeDevice struct {
	Name  string `json:"name"`
	State string `json:"state"` // live, dead, connecting, resetting, ...
	Model string `json:"model,omitempty"`
}

// MemlockLimit is how much memory a process may lock, which RDMA needs.
type MemlockLimit struct {
	Of    string `json:"of"`
	Bytes *int64 `json:"bytes,omitempty"` // absent: unlimited
}

// RuntimeSocket is the socket of a container runtime.
type RuntimeSocket struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	State string `json:"state"` // one of the words below, or "HTTP status 503"
}

// The states of a runtime's socket.
const (
	RuntimeAnswers = "answers"
	RuntimeSilent  = "silent"  // no answer in time, or the end of the connection
	RuntimeRefused = "refused" // nothing listens
	RuntimeDenied  = "not permitted"
)

// HostCertificate is a certificate in a file of the machine.
type HostCertificate struct {
	Path     string `json:"path"`
	Subject  string `json:"subject,omitempty"`
	NotAfter Time   `json:"not_after"`
}

// Words has what the machine is, and each thing of which it has a value that is not zero.
func (m *MachineFacts) Words() []Line {
	lines := []Line{
		line("machine", m.Hostname, m.OS, pair("kernel ", m.Kernel), pair("in a container: ", m.Container),
			seconds("up ", m.UptimeS), pair("machine id sha256 ", Digits(m.MachineID))),
		line("memory", mebibytes(m.MemFree, m.MemTotal), pair("swap ", mebibytes(m.SwapFree, m.SwapTotal)),
			pair("load ", decimal(m.Load)), pair("stalled for memory % ", decimal(m.MemStalled)),
			pair("for disks % ", decimal(m.IOStalled)), counted("processes killed for memory since boot: ", m.OOMKills)),
		line("stuck", m.stuck()...),
		line("failed units", strings.Join(m.FailedUnits, " ")),
		line("time", yes(m.ClockSynced, "synchronized", "not synchronized"), strings.Join(m.TimeDaemons, " ")),
		line("not read", m.Unread...),
	}
	for i := range m.MemoryErrors {
		c := &m.MemoryErrors[i]
		lines = append(lines, line("memory errors", c.Name, fmt.Sprintf("%d corrected", c.Corrected),
			fmt.Sprintf("%d uncorrectable", c.Uncorrectable)))
	}
	for i := range m.NVMe {
		lines = append(lines, line("nvme", m.NVMe[i].Name, m.NVMe[i].State, m.NVMe[i].Model))
	}
	for _, l := range m.Memlock {
		lines = append(lines, line("locked memory", l.Of, l.Limit()))
	}
	for _, r := range m.Runtimes {
		lines = append(lines, line("runtime", r.Name, r.Path, r.State))
	}
	for _, c := range m.Certificates {
		lines = append(lines, line("certificate", c.Path, c.Subject, "until "+c.NotAfter.UTC().Format("2006-01-02")))
	}
	return lines
}

func (m *MachineFacts) stuck() (words []string) {
	for _, p := range m.Stuck {
		words = append(words, fmt.Sprintf("%d %s %s", p.PID, p.Name, p.Wait))
	}
	return words
}

// Limit is the limit for people.
func (l MemlockLimit) Limit() string {
	if l.Bytes == nil {
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", *l.Bytes>>10)
}

// Properties has what stays while the machine is the same.
func (m *MachineFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeMachine, "machine.machine_id_sha256", m.MachineID},
		{ChangeMachine, "machine.hostname", m.Hostname},
		{ChangeMachine, "machine.kernel", m.Kernel},
	}
}

func mebibytes(free, total *int64) string {
	if free == nil || total == nil {
		return ""
	}
	return fmt.Sprintf("%d MiB free of %d", *free>>20, *total>>20)
}

func decimal(f *float64) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *f)
}

func counted(label string, n *int64) string {
	if n == nil || *n == 0 {
		return ""
	}
	return fmt.Sprint(label, *n)
}

// MountsFacts has the file systems of a machine, each asked in a process of its own: one that hangs delays no other.
type MountsFacts struct {
	Mounts []MountFacts `json:"mounts"`
	More   int          `json:"more,omitempty"` // file systems beyond MaxListed, which were not asked
	// processes of this probe that hang in the kernel, which nobody can end; they end when the file system answers
	Left int `json:"left,omitempty"`
}

// MountFacts is one file system. Its sizes are absent where it did not answer.
type MountFacts struct {
	Point  string `json:"point"`
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	// "answers", "hangs", "not permitted", or the error: "Stale file handle"
	State       string  `json:"state"`
	TotalBytes  *uint64 `json:"total_bytes,omitempty"`
	FreeBytes   *uint64 `json:"free_bytes,omitempty"`
	UsedPercent *int    `json:"used_percent,omitempty"`
	InodesUsed  *int    `json:"inodes_used_percent,omitempty"`
	ReadOnly    bool    `json:"read_only,omitempty"`
	// /etc/fstab lists it, and not as read-only
	DeclaredWritable bool `json:"declared_writable,omitempty"`
	Remote           bool `json:"remote,omitempty"` // a network file system, or one that a program serves
}

// The states of a mount that answers, hangs, or may not be asked.
const (
	MountAnswers = "answers"
	MountHangs   = "hangs"
	MountDenied  = "not permitted"
)

// Words has a line for each file system.
func (m *MountsFacts) Words() []Line {
	var lines []Line
	for i := range m.Mounts {
		f := &m.Mounts[i]
		state, ro := f.State, ""
		if f.UsedPercent != nil {
			state = fmt.Sprintf("%d%% used", *f.UsedPercent)
		}
		if f.ReadOnly {
			ro = "read-only"
		}
		lines = append(lines, line("mount", f.Point, f.Kind, state, ro))
	}
	return lines
}

// Properties returns none: usage changes all the time.
func (m *MountsFacts) Properties(*Fact) []Property { return nil }

// KernelFacts is what the kernel log of this boot says that may be a fault, by kind.
type KernelFacts struct {
	Events  []KernelEvent `json:"events,omitempty"`
	Records int           `json:"records"`
	Lost    uint64        `json:"lost,omitempty"`   // records of this boot that were overwritten before
	FromS   *int64        `json:"from_s,omitempty"` // age of the oldest record, in seconds
	// the kind of container that this is: then the log is of its host, and other containers cause lines as well
	Container string `json:"container,omitempty"`
}

// KernelEvent is a kind of line, with the last one.
type KernelEvent struct {
	Kind  KernelKind `json:"kind"`
	Count int        `json:"count"`
	AgoS  int64      `json:"ago_s"` // age of the last one, in seconds
	Text  string     `json:"text"`  // of the last one
	// of XIDs: the code and the GPU's address on the PCI bus
	Code   int    `json:"code,omitempty"`
	Device string `json:"device,omitempty"`
}

// KernelKind is what a line of the kernel log reports.
type KernelKind string

// The kinds of lines.
const (
	KernelOOM         KernelKind = "oom_kill"
	KernelHung        KernelKind = "hung_task"
	KernelCorrected   KernelKind = "hardware_corrected"
	KernelUncorrected KernelKind = "hardware_uncorrected"
	KernelIO          KernelKind = "io_error"
	KernelRemounted   KernelKind = "remounted_read_only"
	KernelFileSystem  KernelKind = "file_system_error"
	KernelNVMe        KernelKind = "nvme_reset"
	KernelNFS         KernelKind = "nfs_silent"
	KernelBug         KernelKind = "kernel_bug"
	KernelXID         KernelKind = "gpu_error"
	KernelGPULost     KernelKind = "gpu_lost"
)

// Words has a line for each kind.
func (k *KernelFacts) Words() []Line {
	lines := []Line{line("kernel log", fmt.Sprintf("%d records", k.Records), seconds("the oldest is from ", k.FromS),
		pair("of the host of this container: ", k.Container))}
	for i := range k.Events {
		e := &k.Events[i]
		lines = append(lines, line("  "+string(e.Kind), fmt.Sprintf("%d", e.Count), seconds("last ago ", &e.AgoS), e.Text))
	}
	return lines
}

// Properties returns none: a log grows.
func (k *KernelFacts) Properties(*Fact) []Property { return nil }
