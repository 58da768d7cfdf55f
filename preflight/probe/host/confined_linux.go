package host

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

const (
	// maxPrefixes bounds the address prefixes of a unit in a fact.
	maxPrefixes = 64
	// nearlyAll is the tolerance at a limit: the process keeps running while its usage is read.
	nearlyAll = 1
)

// proxyNames are the variables that configure a proxy.
var proxyNames = [...]string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"}

// confinement reads what restricts the network access of a unit's main process; nil if nothing does. A probe joins the
// process's namespaces, but does not imitate the other restrictions: it only reports them.
func (p *Prober) confinement(ctx context.Context, pid int, props host.Unit) *diag.Confinement {
	c := diag.Confinement{
		PrivateNetwork: props["PrivateNetwork"] == "yes", NetworkPath: props["NetworkNamespacePath"],
		JoinsNetworkOf: props["JoinsNamespaceOf"], AddressFamilies: families(props["RestrictAddressFamilies"]),
		IPDeny: prefixes(props["IPAddressDeny"]), IPAllow: prefixes(props["IPAddressAllow"]),
		SystemCalls: filtersSockets(props["SystemCallFilter"]),
	}
	if !c.PrivateNetwork {
		c.JoinsNetworkOf = "" // JoinsNamespaceOf has no effect without PrivateNetwork
	}
	c.OwnNetwork = OwnNetwork(pid)
	if all, err := processEnv(pid); err == nil {
		for _, name := range proxyNames {
			if all[name] != "" {
				c.Proxies = append(c.Proxies, name)
			}
		}
	}
	if c.AddressFamilies != "" || c.SystemCalls {
		c.Seccomp = seccompOf(pid)
	}
	unified, _ := cgroupOf(pid)
	filters, err := cgroupFilters(unified)
	c.CgroupFilters = filters
	if err != nil && len(c.IPDeny) > 0 {
		c.FiltersUnread = err.Error()
	}
	if slices.Contains(filters, "egress") {
		p.addSlices(ctx, props["ControlGroup"], &c)
	}
	if reflect.DeepEqual(c, diag.Confinement{}) {
		return nil
	}
	return &c
}

// InMachinesNetwork reports whether this process is known to be in the network namespace of the machine's first
// process.
func InMachinesNetwork() bool { return inMachinesNetwork(host.This) }

// inMachinesNetwork ignores a process 1 in our own control group: it is the first process of a container or of a PID
// namespace, not the machine's.
func inMachinesNetwork(proc host.Proc) bool {
	ours, err := proc.Cgroups(host.Thread)
	first, errFirst := proc.Cgroups(1)
	if err != nil || errFirst != nil || reflect.DeepEqual(ours, first) {
		return false
	}
	same, seen := sameNetwork(proc, 1, host.Thread)
	return same && seen
}

// OwnNetwork reports whether pid is known to be in another network namespace than the machine's first process. It does
// not compare with this process, since a login may also be in a namespace.
func OwnNetwork(pid int) bool {
	same, seen := sameNetwork(host.This, 1, pid)
	return seen && !same
}

// sameNetwork compares two processes' network namespaces by a file that is distinct in each namespace. Unlike the links
// in /proc/PID/ns, every user can stat it, unless /proc hides the process.
func sameNetwork(proc host.Proc, a, b int) (same, seen bool) {
	one, errOne := os.Stat(proc.Path(a, "net", "dev"))
	other, errOther := os.Stat(proc.Path(b, "net", "dev"))
	if errOne != nil || errOther != nil {
		return false, false
	}
	return os.SameFile(one, other), true
}

// addSlices adds the address lists of the slices above a unit, which systemd applies as well.
func (p *Prober) addSlices(ctx context.Context, controlGroup string, c *diag.Confinement) {
	for name := range strings.SplitSeq(controlGroup, "/") {
		if !strings.HasSuffix(name, ".slice") || !isUnitName(name) {
			continue
		}
		props, err := p.units.show(ctx, name)
		if err != nil {
			continue // the filter itself is in the fact
		}
		c.IPDeny = append(c.IPDeny, prefixes(props["IPAddressDeny"])...)
		c.IPAllow = append(c.IPAllow, prefixes(props["IPAddressAllow"])...)
	}
}

// families returns RestrictAddressFamilies if it restricts anything: "~" alone does not.
func families(value string) string {
	if value == "~" {
		return ""
	}
	return value
}

func prefixes(value string) []string {
	all := strings.Fields(value)
	if len(all) == 0 {
		return nil
	}
	return all[:min(len(all), maxPrefixes)]
}

// filtersSockets reports whether a SystemCallFilter, as systemctl shows it (all calls by name, refused ones after ~),
// denies a process sockets or connections.
func filtersSockets(value string) bool {
	list, refused := strings.CutPrefix(value, "~")
	if strings.TrimSpace(list) == "" {
		return false
	}
	calls := strings.Fields(list)
	for _, needed := range []string{"socket", "connect"} {
		named := slices.ContainsFunc(calls, func(c string) bool {
			name, _, _ := strings.Cut(c, ":") // connect:EPERM
			return name == needed
		})
		if named == refused {
			return true
		}
	}
	return false
}

// unitShortage returns an exhausted limit of a unit or of its main process; nil if there is none.
func unitShortage(pid int, props host.Unit) *diag.ShortageFacts {
	s := &diag.ShortageFacts{}
	limits, _ := host.Read(host.This.Path(pid, "limits"), host.Small)
	_, row, _ := strings.Cut(limits, "\nMax open files")
	if limit, used := field("x "+row, "x"), openFilesOf(pid); limit > 0 && used >= limit-nearlyAll {
		s.Resource = diag.OpenFiles
		set(s, diag.ScopeProcess, "LimitNOFILE", limit, used)
		s.Holders = []diag.Holder{{Name: commOf(pid), Held: used}}
		return s
	}
	current, limit := number(props, "TasksCurrent"), number(props, "TasksMax")
	if current != nil && limit != nil && *limit > 0 && *current >= *limit {
		s.Resource = diag.Processes
		set(s, diag.ScopeCgroup, "TasksMax", int64(*limit), int64(*current))
		if unified, _ := cgroupOf(pid); unified != "" && strings.HasSuffix(unified, props["ControlGroup"]) {
			s.Holders = tally(cgroupMembers(unified), threadsOf)
		}
		return s
	}
	return nil
}

// readDenial reads everything that may have denied this process a connection to remote. It runs no programs.
func readDenial(remote string) diag.DenialFacts {
	d := diag.DenialFacts{Seccomp: seccompOf(os.Getpid())}
	unread := func(what string, err error) {
		if err != nil {
			d.Unread = append(d.Unread, what+": "+err.Error())
		}
	}
	var err error
	d.PacketFilters, err = packetFilters()
	unread("packet filters", err)
	unified, _ := cgroupOf(os.Getpid())
	d.CgroupFilters, err = cgroupFilters(unified)
	unread("cgroup filters", err)
	if to, err := netip.ParseAddrPort(remote); err == nil {
		d.Route, err = routeWord(to.Addr())
		unread("route", err)
	}
	return d
}

// seccompOf returns which system calls a process may make, see diag.DenialFacts; "" if that cannot be read.
func seccompOf(pid int) string {
	mode, filters := seccompFilters(pid)
	switch mode {
	case "0":
		return "off"
	case "1":
		return "strict"
	case "2":
		// In a container, a filter applies to the whole machine: no process can do what its first process cannot.
		if all, base := seccompFilters(1); all == "2" && filters > 0 && base >= filters {
			return "machine"
		}
		return "filter"
	}
	return ""
}

// seccompFilters reads a process's seccomp mode and, if the kernel reports it (5.9 and later), the number of its
// filters.
func seccompFilters(pid int) (mode string, filters int64) {
	s, _ := host.This.Status(pid)
	return s.Value("Seccomp"), s.Number("Seccomp_filters")
}

// The kinds of BPF programs on a control group that can deny network access, and the attributes of BPF_PROG_QUERY.
var cgroupKinds = [...]struct {
	kind uint32
	name string
}{
	{unix.BPF_CGROUP_INET_EGRESS, "egress"}, {unix.BPF_CGROUP_INET_SOCK_CREATE, "socket"},
	{unix.BPF_CGROUP_INET4_CONNECT, "connect4"}, {unix.BPF_CGROUP_INET6_CONNECT, "connect6"},
	{unix.BPF_CGROUP_UDP4_SENDMSG, "sendmsg4"}, {unix.BPF_CGROUP_UDP6_SENDMSG, "sendmsg6"},
}

type bpfQuery struct {
	target, kind, flags, attached uint32
	programs                      uint64
	count, _                      uint32
}

// cgroupFilters returns the kinds of programs that are effective for a control group, including those of its parents.
func cgroupFilters(dir string) ([]string, error) {
	if dir == "" {
		return nil, errors.New("no unified control group is mounted")
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer folder.Close()
	var found []string
	for _, k := range cgroupKinds {
		q := bpfQuery{target: uint32(folder.Fd()), kind: k.kind, flags: unix.BPF_F_QUERY_EFFECTIVE}
		_, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&q)), unsafe.Sizeof(q))
		if e != 0 {
			return nil, e
		}
		if q.count > 0 {
			found = append(found, k.name)
		}
	}
	runtime.KeepAlive(folder)
	return found, nil
}

// routeWord returns the routing table's error for an address; "" if there is a route.
func routeWord(to netip.Addr) (string, error) {
	family, raw := byte(unix.AF_INET), to.AsSlice()
	if to.Is6() {
		family = unix.AF_INET6
	}
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = family, byte(8*len(raw))
	body = append(body, attribute(unix.RTA_DST, raw)...)
	_, err := netlinkAsk(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, 0, body)
	switch {
	case errors.Is(err, unix.EACCES):
		return "prohibit", nil
	case errors.Is(err, unix.EINVAL):
		return "blackhole", nil
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		return "unreachable", nil
	}
	return "", err
}
