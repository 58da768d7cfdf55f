package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// childEnd bounds the wait for the child after its input was closed.
const childEnd = 3 * time.Second

// namespace is the agent's own namespaces, in which a child of ours measures. The child never joins the agent's control
// group, nor gets its system call filter.
type namespace struct {
	pid    int
	exec   []string
	mounts bool // enter its mount namespace
	net    bool // enter its network namespace
	pids   bool // also enter the PID namespace, for which its /proc is mounted
	own    bool // the entered network namespace is the agent's, not the machine's
	netOf  int  // process whose network namespace is entered: the agent, or process 1

	mu     sync.Mutex // guards the following fields: the first request that needs the child starts it
	begun  bool
	err    error
	cmd    *exec.Cmd
	client *Client
}

// openNamespaces returns the agent's namespaces if they differ from ours, and, if its network namespace is not the
// machine's, its mounts combined with the machine's network. Otherwise it returns nil, and the AgentView of agent-view
// requests that are measured in this process.
func openNamespaces(pid int, cfg Config) (inside, mounts *namespace, view string) {
	if pid == 0 {
		return nil, nil, ViewNoProcess
	}
	n := &namespace{pid: pid, netOf: pid}
	for kind, other := range map[string]*bool{"mnt": &n.mounts, "net": &n.net} {
		is, err := otherNamespace(pid, kind)
		switch {
		case errors.Is(err, os.ErrPermission):
			return nil, nil, ViewNotPermitted
		case errors.Is(err, os.ErrNotExist):
			return nil, nil, ViewNoProcess
		case err != nil:
			return nil, nil, "unknown: " + err.Error()
		}
		*other = is
	}
	if !n.mounts && !n.net {
		return nil, nil, ViewEntered
	}
	if n.mounts {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/root/proc/self", pid)) // dangling in another PID namespace's /proc
		n.pids = errors.Is(err, os.ErrNotExist)
	}
	n.own = n.net && hostprobe.OwnNetwork(pid)
	inner := pid
	if n.pids {
		s, _ := host.This.Status(pid)
		inner = max(1, s.InnerPID()) // a process outside the PID namespace only has children inside
	}
	n.exec = []string{"probe", "--in-namespace", strconv.Itoa(inner)}
	if cfg.Exec != nil {
		n.exec = cfg.Exec(inner)
	}
	elsewhere := n.own && hostprobe.OwnNetwork(host.Thread) // the login's network is not the machine's either
	if (n.mounts && n.net) || elsewhere {
		mounts = &namespace{pid: pid, exec: n.exec, mounts: n.mounts, pids: n.pids, net: elsewhere, netOf: 1}
	}
	return n, mounts, ViewEntered
}

// machinesNetwork returns the machine's network for an agent that runs as pid, 0 for none. It returns nil if this
// process is in it, or is not known to be in another one.
func machinesNetwork(pid int, cfg Config) *namespace {
	if !hostprobe.OwnNetwork(host.Thread) {
		return nil
	}
	n := &namespace{pid: pid, net: true, netOf: 1, exec: []string{"probe", "--in-namespace", strconv.Itoa(pid)}}
	if cfg.Exec != nil {
		n.exec = cfg.Exec(pid)
	}
	return n
}

// otherNamespace reports whether pid and this process are in different namespaces of this kind.
func otherNamespace(pid int, kind string) (bool, error) {
	ours, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return false, err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	return ours != theirs, err
}

// answer measures req inside. It measures a file, a certificate and a record from outside as well, because logging in
// does not show an overlay that only the agent sees.
func (n *namespace) answer(ctx context.Context, req diag.Request, plain func() diag.Fact) diag.Fact {
	client, err := n.child()
	if err != nil {
		f := plain()
		f.AgentView = "not entered: " + err.Error()
		if errors.Is(err, os.ErrPermission) {
			f.AgentView = ViewNotPermitted
		}
		return f
	}
	outside := make(chan diag.Fact, 1)
	both := n.mounts && req.Op.Row().Both
	if both {
		go func() { outside <- plain() }()
	}
	f := client.Probe(ctx, []diag.Request{req})[0]
	if f.Failure == diag.SSHTransport {
		if !both {
			outside <- plain()
		}
		f = <-outside
		f.AgentView = "not entered: the child inside ended"
		return f
	}
	f.AgentView, f.OwnNetwork = ViewEntered, n.own
	if both {
		mergeHost(&f, <-outside)
	}
	return f
}

// mergeHost adds the host's values to an agent-view fact if they differ.
func mergeHost(f *diag.Fact, host diag.Fact) {
	switch {
	case host.Record != nil:
		hostprobe.MergeRecord(f, host)
	case host.File != nil && host.File.SHA256 != "":
		if f.File == nil {
			f.File = &diag.FileFacts{Path: f.Request.Target}
		}
		if f.File.SHA256 != host.File.SHA256 {
			f.File.HostSHA = host.File.SHA256
		}
	case host.Cert != nil && host.Cert.Leaf.Serial != "":
		if f.Cert == nil {
			f.Cert = &diag.CertFacts{}
		}
		if f.Cert.Leaf.Serial != host.Cert.Leaf.Serial {
			f.Cert.HostSerial = host.Cert.Leaf.Serial
		}
	}
	if f.Failure != host.Failure {
		word := cmp.Or(string(host.Failure), "it passes")
		f.Detail = measure.JoinDetail(f.Detail, "outside of the agent's mounts: "+word)
	}
}

// child starts the measuring process inside, once.
func (n *namespace) child() (*Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.begun {
		n.begun = true
		n.cmd, n.client, n.err = n.start()
	}
	return n.client, n.err
}

// close ends the child and reaps it.
func (n *namespace) close() error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == nil {
		return nil
	}
	kill := time.AfterFunc(childEnd, func() { _ = n.cmd.Process.Kill() })
	defer kill.Stop()
	_ = n.client.Close()
	_ = n.cmd.Wait() // ignore the status of the child, whose input was closed
	n.client, n.err = nil, errors.New("closed")
	return nil
}

// start runs this very program in pid's namespaces. The thread that enters them must not share its root and working
// folder (setns returns EINVAL), and is never reused: it ends with its goroutine.
func (n *namespace) start() (*exec.Cmd, *Client, error) {
	var enter []*os.File
	for _, ns := range []struct {
		wanted bool
		pid    int
		kind   string
	}{{n.net, n.netOf, "net"}, {n.pids, n.pid, "pid_for_children"}, {n.mounts, n.pid, "mnt"}} {
		if !ns.wanted {
			continue
		}
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", ns.pid, ns.kind))
		if err != nil {
			return nil, nil, err
		}
		defer ns.Close()
		enter = append(enter, ns)
	}
	self, err := os.Open("/proc/self/exe") // before entering: inside, its path may be another file
	if err != nil {
		return nil, nil, err
	}
	defer self.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", self.Fd()), n.exec...)
	cmd.Args[0] = os.Args[0]
	cmd.Dir = "/"
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	started := make(chan error)
	go hostprobe.OnSpareThread(func() { started <- enterAndStart(enter, cmd) })
	if err := <-started; err != nil {
		return nil, nil, errors.Join(err, stdin.Close(), stdout.Close())
	}
	return cmd, NewClient(stdout, stdin), nil
}

func enterAndStart(namespaces []*os.File, cmd *exec.Cmd) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the shared root: %w", err)
	}
	for _, ns := range namespaces {
		if err := unix.Setns(int(ns.Fd()), 0); err != nil {
			return fmt.Errorf("entering the agent's namespace %s: %w", filepath.Base(ns.Name()), err)
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting inside the agent's namespaces: %w", err)
	}
	return nil
}
