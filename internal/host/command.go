package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Runner runs a program on the machine. A non-zero exit code is not an error; a program that could not be run, or not
// in time, is.
type Runner func(ctx context.Context, argv ...string) (Answer, error)

const (
	// linger is how long to wait for the output of a program that has ended: a child may continue to write.
	linger = time.Second
	// maxDrain bounds what is then read without waiting: more than a pipe holds.
	maxDrain = 1 << 20
)

// Command configures how a program is run: in /, in a new process group, which is killed when its time is up, with the
// messages of the C locale. The zero value is ready to use.
type Command struct {
	Path  string        // PATH of the program; default SearchPath
	Stdin string        // the program's input
	Limit time.Duration // how long it may run; default: as long as the context
	Most  int           // bytes to keep of each output; default 256 KiB
}

// Answer is the result of a program.
type Answer struct {
	Out, Err []byte
	Code     int  // exit code; 128 + n if signal n ended it
	Signaled bool // a signal ended it
	Cut      bool // there was more output than was kept
}

// Complaint returns the first line that the program wrote to its standard error.
func (a Answer) Complaint() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(a.Err)), "\n")
	return line
}

// SearchPath is the caller's PATH, with the standard folders of system tools.
func SearchPath() string {
	path := cmp.Or(os.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin")
	return path + ":/usr/sbin:/usr/bin:/sbin:/bin"
}

// Run runs argv. When its time is up, the error is the context's cause. It reads everything that the program wrote
// before it ended, even if this process is late.
func (c Command) Run(ctx context.Context, argv ...string) (Answer, error) {
	if c.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Limit)
		defer cancel()
	}
	c.Path = cmp.Or(c.Path, SearchPath())
	c.Most = cmp.Or(c.Most, 256<<10)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0", "PATH=" + c.Path}
	cmd.Dir = "/"
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = linger // for children that do not read their input
	out, err := newOutput(c.Most)
	if err != nil {
		return Answer{}, err
	}
	defer out.close()
	errs, err := newOutput(c.Most)
	if err != nil {
		return Answer{}, err
	}
	defer errs.close()
	cmd.Stdout, cmd.Stderr = out.to, errs.to
	if err = cmd.Start(); err == nil {
		out.read()
		errs.read()
		err = cmd.Wait()
		until := time.Now().Add(linger)
		out.end(until)
		errs.end(until)
	}
	a := Answer{Out: out.Bytes(), Err: errs.Bytes(), Code: cmd.ProcessState.ExitCode(), Cut: out.Cut()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		return a, nil
	case !errors.As(err, &exit):
		return a, err
	}
	if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		a.Signaled, a.Code = true, 128+int(st.Signal())
	}
	return a, nil
}

// Output is Run for a program whose every non-zero exit code is an error, which includes its complaint. It returns what
// the program printed.
func (c Command) Output(ctx context.Context, argv ...string) (string, error) {
	a, err := c.Run(ctx, argv...)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	case a.Code != 0:
		err = fmt.Errorf("%s: exit code %d: %s", strings.Join(argv, " "), a.Code, a.Complaint())
	}
	return string(a.Out), err
}

// output is the pipe for one of a program's outputs. os/exec would wait for the pipe's end, which also depends on
// concurrent forks, and fail if that takes too long.
type output struct {
	bounded.Head
	from, to *os.File
	done     chan struct{}
}

func newOutput(most int) (*output, error) {
	from, to, err := os.Pipe()
	return &output{Head: bounded.Head{Most: most}, from: from, to: to, done: make(chan struct{})}, err
}

// read begins to read; the program has its end of the pipe.
func (o *output) read() {
	_ = o.to.Close()
	go func() {
		defer close(o.done)
		_, _ = io.Copy(&o.Head, o.from) // to its end, or to the deadline of end
	}()
}

// end is called after the program has ended: it reads what has been written by then in any case, and what comes later
// until the deadline.
func (o *output) end(until time.Time) {
	_ = o.from.SetReadDeadline(until)
	<-o.done
	_ = o.from.SetReadDeadline(time.Time{})
	raw, err := o.from.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		buf := make([]byte, 64<<10)
		for read := 0; read < maxDrain; {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 { // its end, or nothing more for now
				break
			}
			read += n
			_, _ = o.Write(buf[:n])
		}
		return true
	})
}

func (o *output) close() {
	_, _ = o.from.Close(), o.to.Close()
}
