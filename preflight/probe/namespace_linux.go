package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

// childEnd bounds the wait for the child once its input was closed.
const childEnd = 3 * time.Second

// namespace is the agent's mount namespace, in which a child of ours measures.
type namespace struct {
	pid  int
	exec []string

	mu     sync.Mutex // guards what follows: the child is started by the first request that needs it
	begun  bool
	err    error
	cmd    *exec.Cmd
	client *Client
}

// openNamespace returns the agent's mount namespace where it is not ours; else nil, and what to say of requests for
// the agent's view that are measured here.
func openNamespace(pid int, cfg Config) (*namespace, string) {
	if pid == 0 {
		return nil, ViewNoProcess
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, "unknown: " + err.Error()
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, ViewNotPermitted
	case err != nil:
		return nil, ViewNoProcess
	case ours == theirs:
		return nil, ViewEntered
	}
	args := []string{"probe", "--in-namespace", strconv.Itoa(pid)}
	if cfg.Exec != nil {
		args = cfg.Exec(pid)
	}
	return &namespace{pid: pid, exec: args}, ""
}

// answer measures req inside. A file, a certificate and a record are looked at from outside as well, because an overlay
// that only the agent sees is what nobody finds by logging in.
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
	both := req.Op == diag.OpFile || req.Op == diag.OpCert || req.Op == diag.OpRecord
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
	f.AgentView = ViewEntered
	if both {
		mergeHost(&f, <-outside)
	}
	return f
}

// mergeHost adds to an agent-view fact what the plain view shows, where that is another thing.
func mergeHost(f *diag.Fact, host diag.Fact) {
	switch {
	case host.Record != nil:
		mergeRecord(f, host)
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
		word := string(host.Failure)
		if word == "" {
			word = "it passes"
		}
		f.Detail = joinDetail(f.Detail, "outside of the agent's mounts: "+word)
	}
}

// child starts the measuring process inside, once.
func (n *namespace) child() (*Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.begun {
		n.begun = true
		n.cmd, n.client, n.err = startInside(n.pid, n.exec)
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
	_ = n.cmd.Wait() // its status says nothing: it was cut off
	n.client, n.err = nil, errors.New("closed")
	return nil
}

// startInside runs this very program in pid's mount namespace. The thread that enters must not share its root and
// working folder (setns gives EINVAL), and belongs to nobody afterwards: it dies with its goroutine.
func startInside(pid int, args []string) (*exec.Cmd, *Client, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return nil, nil, err
	}
	defer ns.Close()
	self, err := os.Open("/proc/self/exe") // before we enter: inside, its path may be another file
	if err != nil {
		return nil, nil, err
	}
	defer self.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", self.Fd()), args...)
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
	go onSpareThread(func() { started <- enterAndStart(ns, cmd) })
	if err := <-started; err != nil {
		return nil, nil, errors.Join(err, stdin.Close(), stdout.Close())
	}
	return cmd, NewClient(stdout, stdin), nil
}

func enterAndStart(ns *os.File, cmd *exec.Cmd) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the shared root: %w", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the agent's mount namespace: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting inside the agent's mount namespace: %w", err)
	}
	return nil
}

// onSpareThread calls f on a thread that ends with it, but never on the process's first thread: its namespaces are
// what /proc/self shows.
func onSpareThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}
