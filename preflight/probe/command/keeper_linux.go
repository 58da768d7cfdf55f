package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// keeperName is the name under which a program that links this package is a keeper, and nothing else. The keeper is a
// process of its own, because orphans are handed to a process: one that keeps several commands could not tell whose
// they are.
const keeperName = "gpuaas-check-keeper"

const (
	// termGrace is how long a program has to end after SIGTERM.
	termGrace = 300 * time.Millisecond
	// endPatience is how long to wait for killed processes: one in a system call that cannot be interrupted stays.
	endPatience = 2 * time.Second
	// flood is how much a program may write: it is ended, since nothing of it could be judged.
	flood = 16 << 20
	// mostProcesses is how many processes a program may start beside those that its user has.
	mostProcesses = 256
	// niceness lets the machine's own work go first.
	niceness = 10
	// programFD is the open program in the keeper and in the program's process.
	programFD = 3
)

// order is what a keeper is asked for.
type order struct {
	Path    string
	Argv    []string
	Env     []string
	UID     uint32
	GID     uint32
	Groups  []uint32
	Change  bool
	LimitMS int64
	Most    int
}

// kept is what a keeper reports.
type kept struct {
	Error    string `json:",omitempty"` // why nothing ran
	Exit     *int   `json:",omitempty"`
	Signal   string `json:",omitempty"`
	Ended    string `json:",omitempty"`
	Out      []byte `json:",omitempty"`
	Err      []byte `json:",omitempty"`
	OutBytes int64
	ErrBytes int64
	Left     int
	Unended  int
}

// orderFor runs a binary by its open file. A script is opened again by its interpreter, which may look for files beside
// it: that is by its path, which nobody but root and its user can change (openProgram).
func orderFor(p *program, who account, c *diag.Program) order {
	path := "/proc/self/fd/" + strconv.Itoa(programFD)
	if p.script {
		path = p.path
	}
	return order{Path: path, Argv: c.Argv, Env: environment, UID: who.uid, GID: who.gid, Groups: who.groups,
		Change: who.change, LimitMS: c.LimitMS, Most: c.Most}
}

// A keeper is this very program, whichever it is, under another name: so a helper that was pushed to a node, and is one
// file, has it.
func init() {
	if len(os.Args) != 1 || os.Args[0] != keeperName {
		return
	}
	runtime.LockOSThread() // what prctl sets is the thread's, and the program is started by it
	in := bufio.NewReader(os.Stdin)
	r := kept{}
	if line, err := in.ReadBytes('\n'); err != nil {
		r.Error = "the order was cut short"
	} else if r, err = carryOut(line, in); err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(r) // nobody is left to read it
	os.Exit(0)
}

// carryOut runs a program to its end, and everything that it started.
func carryOut(line []byte, life io.Reader) (kept, error) {
	var o order
	if err := bounded.Unmarshal(line, &o, bounded.Small()); err != nil {
		return kept{}, err
	}
	if err := confine(&o); err != nil {
		return kept{}, err
	}
	quiet := make(chan os.Signal, 1)
	signal.Notify(quiet, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM) // the work is done in any case
	k := &keeper{done: make(chan struct{}), flooded: make(chan struct{})}
	if err := k.start(&o); err != nil {
		return kept{}, err
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, life)
		close(over)
	}()
	r := k.wait(time.Duration(o.LimitMS)*time.Millisecond, over)
	r.Left, r.Unended = k.sweep()
	k.collect(&r)
	return r, nil
}

// confine limits this process, and so the program: it gets no rights by starting another program, writes no core file,
// starts no more processes than a check needs, and its orphans come here.
func confine(o *order) error {
	core := unix.Rlimit{}
	errs := []error{
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Setpriority(unix.PRIO_PROCESS, 0, niceness),
		unix.Setrlimit(unix.RLIMIT_CORE, &core),
	}
	if o.UID != 0 {
		most := uint64(tasksOf(o.UID) + mostProcesses)
		var now unix.Rlimit
		errs = append(errs, unix.Getrlimit(unix.RLIMIT_NPROC, &now))
		if most < now.Max {
			errs = append(errs, unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}))
		}
	}
	return errors.Join(errs...)
}

// keeper is one run.
type keeper struct {
	main     int
	out, err *stream
	flooded  chan struct{}
	flood    sync.Once
	total    atomic.Int64

	status syscall.WaitStatus // of main; set before ended is closed
	ended  chan struct{}      // main has ended
	done   chan struct{}      // no child is left
}

// stream is one output of the program.
type stream struct {
	bounded.Head
	from, to *os.File
	bytes    int64
	done     chan struct{}
}

func (k *keeper) start(o *order) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	if k.out, err = newStream(o.Most); err == nil {
		k.err, err = newStream(o.Most)
	}
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: o.Env, Files: []uintptr{null.Fd(), k.out.to.Fd(), k.err.to.Fd(), programFD},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	if o.Change {
		attr.Sys.Credential = &syscall.Credential{Uid: o.UID, Gid: o.GID, Groups: o.Groups}
	}
	k.main, err = syscall.ForkExec(o.Path, o.Argv, attr)
	_, _ = k.out.to.Close(), k.err.to.Close()
	if err != nil {
		return err
	}
	k.ended = make(chan struct{})
	go k.reap()
	go k.read(k.out)
	go k.read(k.err)
	return nil
}

func newStream(most int) (*stream, error) {
	from, to, err := os.Pipe()
	return &stream{Head: bounded.Head{Most: most}, from: from, to: to, done: make(chan struct{})}, err
}

// reap waits for every child, also for those that were handed to this process.
func (k *keeper) reap() {
	defer close(k.done)
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == k.main:
			k.status = st
			close(k.ended)
		}
	}
}

// read reads an output to its end, and keeps its beginning.
func (k *keeper) read(s *stream) {
	defer close(s.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := s.from.Read(buf)
		s.bytes += int64(n)
		_, _ = s.Write(buf[:n]) // it never fails
		if k.total.Add(int64(n)) > flood {
			k.flood.Do(func() { close(k.flooded) })
		}
		if err != nil {
			return
		}
	}
}

// wait waits until the program has ended, or must be ended; then it has a moment to do so.
func (k *keeper) wait(limit time.Duration, over <-chan struct{}) kept {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	r := kept{}
	select {
	case <-k.ended:
	case <-timer.C:
		r.Ended = diag.EndedByLimit
	case <-k.flooded:
		r.Ended = diag.EndedByFlood
	case <-over:
		r.Ended = diag.EndedByWalk
	}
	if r.Ended == "" {
		if k.status.Signaled() {
			r.Signal = unix.SignalName(k.status.Signal())
		} else {
			r.Exit = new(k.status.ExitStatus())
		}
		return r
	}
	_ = syscall.Kill(-k.main, syscall.SIGTERM)
	select {
	case <-k.ended:
	case <-time.After(termGrace):
	}
	return r
}

// collect takes what was written. A process that could not be ended may still have an output open.
func (k *keeper) collect(r *kept) {
	until := time.Now().Add(termGrace)
	for _, s := range []*stream{k.out, k.err} {
		_ = s.from.SetReadDeadline(until)
		<-s.done
	}
	r.Out, r.OutBytes = k.out.Bytes(), k.out.bytes
	r.Err, r.ErrBytes = k.err.Bytes(), k.err.bytes
}
