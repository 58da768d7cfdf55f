package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestShortChild is not a test: it is the process that sets its own limit, exhausts it and measures.
func TestShortChild(t *testing.T) {
	tier.NeedsHost(t)
	at := slices.Index(os.Args, "short")
	if at < 0 {
		return
	}
	var req diag.Request
	if err := json.Unmarshal([]byte(os.Args[at+2]), &req); err != nil {
		os.Exit(2)
	}
	p := &Prober{Vantage: "operator"}
	// so that the runtime has opened its files, and has the threads that it may need
	p.Run(context.Background(), diag.Request{Op: diag.OpTCP, Target: "127.0.0.1:1", TimeoutMS: 100})
	startThreads(16)
	switch os.Args[at+1] {
	case "files":
		must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}))
		for {
			if _, err := syscall.Dup(0); err != nil {
				break
			}
		}
	case "ports":
		holdPorts()
	case "threads":
		must(unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1}))
		must(syscall.Setgid(65534))
		must(syscall.Setuid(65534)) // root has no such limit
	case "no sockets":
		refuse(unix.SYS_SOCKET, syscall.EAFNOSUPPORT)
	case "no connections":
		refuse(unix.SYS_CONNECT, syscall.EPERM)
	case "group":
		dir := hostprobe.CgroupsOf("pids")[0]
		must(os.WriteFile(dir+"/pids.max", []byte("1"), 0o644))
	}
	f := p.Run(context.Background(), req)
	b, err := json.Marshal(f)
	must(err)
	fmt.Printf("fact %s\n", b)
	os.Exit(0)
}

// startThreads leaves this process with spare threads: the runtime aborts if it cannot start one.
func startThreads(n int) {
	var all, ended sync.WaitGroup
	all.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()
}

// refuse makes a system call fail in all threads of this process, as RestrictAddressFamilies and SystemCallFilter do.
func refuse(call uint32, with syscall.Errno) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(with)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if e != 0 {
		must(e)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

// shortOf measures req in a process, started by argv, that has exhausted a resource.
func shortOf(t *testing.T, what string, req diag.Request, argv ...string) diag.Fact {
	t.Helper()
	tier.NeedsHost(t)
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, os.Args[0], "-test.run=^TestShortChild$", "short", what, string(text))
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	_, line, found := strings.Cut(string(out), "fact ")
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, out)
	}
	var f diag.Fact
	if err := json.Unmarshal([]byte(strings.SplitN(line, "\n", 2)[0]), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// holdPorts opens as many connections as possible to its own listener, and binds as many datagram sockets.
func holdPorts() {
	l, err := net.Listen("tcp", "127.0.0.2:9999")
	must(err)
	for {
		if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
			break
		}
	}
	for {
		if _, err := net.ListenPacket("udp", "0.0.0.0:0"); err != nil {
			return
		}
	}
}

// TestOutOfFiles: a process without free file descriptors reports that for every operation, and blames no peer.
func TestOutOfFiles(t *testing.T) {
	kit.NewFakes(t).Script(t, "systemctl", "exit 1") // a program to start, even if systemd is not installed
	for name, req := range map[string]diag.Request{
		"tcp":   {Op: diag.OpTCP, Target: "127.0.0.1:9"},
		"dns":   {Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"},
		"names": {Op: diag.OpHTTP, Target: "https://api.gpuaas.test/healthz"},
		"http":  {Op: diag.OpHTTP, Target: "http://127.0.0.1:9/healthz"},
		"ws":    {Op: diag.OpWS, Target: "ws://127.0.0.1:9/x"},
		"file":  {Op: diag.OpFile, Target: "/etc/passwd"},
		"cert":  {Op: diag.OpCert, Cert: "/etc/passwd", Key: "/etc/passwd"},
		"unit":  {Op: diag.OpUnit, Target: "dbus.service"},
		"user":  {Op: diag.OpUser, Target: "root"},
		"disk":  {Op: diag.OpDisk, Target: "/tmp", Write: 8192},
	} {
		t.Run(name, func(t *testing.T) {
			f := shortOf(t, "files", req)
			if f.Failure != diag.HostExhausted || f.Errno != "EMFILE" {
				t.Fatalf("%s in %s (%s): %s", f.Failure, f.Phase, f.Errno, f.Detail)
			}
			s := f.Shortage
			if s == nil || s.Resource != diag.OpenFiles || s.Scope != diag.ScopeProcess || *s.Limit != 40 || *s.Used != 40 ||
				len(s.Holders) != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// inNet measures in a new network namespace, in a process that has exhausted what.
func inNet(t *testing.T, setup, what string, req diag.Request) diag.Fact {
	t.Helper()
	kit.NeedsRoot(t)
	return shortOf(t, what, req, "unshare", "-n", "sh", "-ec", "ip link set lo up; "+setup+"; exec \"$@\"", "sh")
}

const fewPorts = "echo 32768 32775 >/proc/sys/net/ipv4/ip_local_port_range"

func TestOutOfPorts(t *testing.T) {
	f := kit.Retry(func() diag.Fact {
		return inNet(t, fewPorts, "ports", diag.Request{Op: diag.OpTCP, Target: "127.0.0.2:9999"})
	}, func(f diag.Fact) bool {
		return f.Shortage != nil && len(f.Shortage.Holders) > 0 && f.Shortage.Holders[0].Held == 8
	})
	if f.Failure != diag.HostExhausted || f.Errno != "EADDRNOTAVAIL" || f.Shortage == nil {
		t.Fatalf("%s in %s (%s): %s", f.Failure, f.Phase, f.Errno, f.Detail)
	}
	s := f.Shortage
	if s.Resource != diag.LocalPorts || s.Scope != diag.ScopeNetwork || *s.Limit != 8 || *s.Used != 8 {
		t.Errorf("%+v: %v of %v", s, *s.Used, *s.Limit)
	}
	if len(s.Holders) == 0 || !strings.HasPrefix(s.Holders[0].Name, "probe.test") || s.Holders[0].Held != 8 {
		t.Errorf("held by %+v", s.Holders)
	}
	// Datagrams have their own ports: in a look-up, exhaustion is EAGAIN, which must not be taken for a timeout.
	f = inNet(t, fewPorts, "ports", diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.2:53"})
	if f.Failure != diag.HostExhausted || f.Errno != "EAGAIN" || f.Shortage == nil ||
		f.Shortage.Resource != diag.LocalPorts || *f.Shortage.Used != 8 {
		t.Errorf("%s in %s (%s): %s %+v", f.Failure, f.Phase, f.Errno, f.Detail, f.Shortage)
	}
}

// TestOutOfProcesses: a program cannot be started, because of either of two limits.
func TestOutOfProcesses(t *testing.T) {
	kit.NeedsRoot(t)
	pids := hostprobe.CgroupsOf("pids")
	if len(pids) == 0 {
		t.Skip("skipped: no control group counts processes here")
	}
	group := fmt.Sprintf("%s/gpuaas-test-%d", pids[0], os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("skipped: no control group can be made: " + err.Error())
	}
	t.Cleanup(func() { kit.RemoveGroup(t, group) })
	for name, tc := range map[string]struct {
		argv  []string
		scope diag.Scope
		limit int64
	}{
		"threads": {nil, diag.ScopeUser, 1},
		"group":   {[]string{"sh", "-ec", "echo $$ >" + group + "/cgroup.procs; exec \"$@\"", "sh"}, diag.ScopeCgroup, 1},
	} {
		f := kit.Retry(func() diag.Fact {
			return shortOf(t, name, diag.Request{Op: diag.OpUser, Target: "root"}, tc.argv...)
		}, func(f diag.Fact) bool { return f.Shortage != nil && len(f.Shortage.Holders) > 0 })
		if f.Failure != diag.HostExhausted || f.Errno != "EAGAIN" || f.Shortage == nil {
			t.Fatalf("%s: %s in %s (%s): %s", name, f.Failure, f.Phase, f.Errno, f.Detail)
		}
		s := f.Shortage
		if s.Resource != diag.Processes || s.Scope != tc.scope || *s.Limit != tc.limit || *s.Used < 2 || len(s.Holders) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		t.Logf("%s: %s %d of %d %+v", name, s.Setting, *s.Used, *s.Limit, s.Holders)
	}
}

// TestNoAddressIsNoExhaustion: the same errno, on a machine without a source address.
func TestNoAddressIsNoExhaustion(t *testing.T) {
	f := inNet(t, "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/lo/disable_ipv6", "",
		diag.Request{Op: diag.OpTCP, Target: "[::1]:9"})
	if f.Failure != diag.TCPNetUnreachable || f.Errno != "EADDRNOTAVAIL" || f.Shortage != nil {
		t.Errorf("%s (%s): %s", f.Failure, f.Errno, f.Detail)
	}
}

func TestDenied(t *testing.T) {
	for name, tc := range map[string]struct {
		setup   string
		req     diag.Request
		errno   string
		matches func(d *diag.DenialFacts) bool
	}{
		"a route that is prohibited": {
			"ip route add prohibit 192.0.2.0/24", diag.Request{Op: diag.OpTCP, Target: "192.0.2.1:443"}, "EACCES",
			func(d *diag.DenialFacts) bool { return d.Route == "prohibit" && len(d.PacketFilters) == 0 },
		},
		"a packet filter, seen by datagrams": {
			"nft add table inet fault; nft add chain inet fault c '{ type filter hook output priority 0; }'; nft add rule " +
				"inet fault c udp dport 53 drop",
			diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"}, "EPERM",
			func(d *diag.DenialFacts) bool {
				return slices.Equal(d.PacketFilters, []string{"nft inet fault c: rules that may drop or reject: 1"}) &&
					d.Route == ""
			},
		},
		"a chain that is jumped to": {
			"nft add table ip filter; nft add chain ip filter OUTPUT '{ type filter hook output priority 0; }'; nft add chain " +
				"ip filter x; " +
				"nft add rule ip filter OUTPUT jump x; nft add rule ip filter x udp dport 53 reject with icmp type " +
				"admin-prohibited",
			diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"}, "EPERM",
			func(d *diag.DenialFacts) bool {
				return slices.Equal(d.PacketFilters, []string{"nft ip filter x: rules that may drop or reject: 1"})
			},
		},
		"a map of verdicts": {
			"nft add table inet a; nft add chain inet a out '{ type filter hook output priority 0; }'; nft add rule inet a " +
				"out udp dport vmap '{ 53 : drop }'",
			diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"}, "EPERM",
			func(d *diag.DenialFacts) bool {
				return slices.Equal(d.PacketFilters, []string{"nft inet a out: rules that may drop or reject: 1"})
			},
		},
		"a chain whose policy is to drop": {
			"nft add table inet fault; nft add chain inet fault c '{ type filter hook output priority 0; policy drop; }'",
			diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"}, "EPERM",
			func(d *diag.DenialFacts) bool {
				return slices.Equal(d.PacketFilters, []string{"nft inet fault c: rules that may drop or reject: 0, policy drop"})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := inNet(t, tc.setup, "", tc.req)
			if f.Failure != diag.TCPDenied || f.Errno != tc.errno || f.Denial == nil {
				t.Fatalf("%s in %s (%s): %s", f.Failure, f.Phase, f.Errno, f.Detail)
			}
			if !tc.matches(f.Denial) {
				t.Errorf("%+v", f.Denial)
			}
			t.Logf("%+v", f.Denial)
		})
	}
}

// TestDeniedBySeccomp: the filter chooses the errno, and /proc shows the filter.
func TestDeniedBySeccomp(t *testing.T) {
	for what, errno := range map[string]string{"no sockets": "EAFNOSUPPORT", "no connections": "EPERM"} {
		for _, req := range []diag.Request{
			{Op: diag.OpTCP, Target: "127.0.0.1:9"}, {Op: diag.OpTCP, Target: "[::1]:9"},
			{Op: diag.OpHTTP, Target: "http://127.0.0.1:9/"},
			{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: "127.0.0.1:53"},
		} {
			f := shortOf(t, what, req)
			if f.Failure != diag.TCPDenied || f.Errno != errno || f.Denial == nil || f.Denial.Seccomp != "filter" ||
				f.Denial.Route != "" {
				t.Errorf("%s of %s: %s (%s) %s %+v", what, req.Target, f.Failure, f.Errno, f.Detail, f.Denial)
			}
		}
	}
}
