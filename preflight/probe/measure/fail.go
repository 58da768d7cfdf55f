package measure

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ErrnoName returns the symbolic errno inside err, or "".
func ErrnoName(err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	return unix.ErrnoName(e)
}

// FileWord returns the failure for a file that cannot be read, or has the wrong content.
func FileWord(err error) diag.Failure {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return diag.FileMissing
	case errors.Is(err, ErrUnparseable):
		return diag.FileUnparseable
	case errors.Is(err, ErrMismatch):
		return diag.FileMismatch
	}
	return diag.FileUnreadable
}

// Errors of files that can be read, and have the wrong content.
var (
	ErrUnparseable = errors.New("not what it should be")
	ErrMismatch    = errors.New("the key is not the certificate's")
)

// Ended returns why ctx ended as a failure; false if it has not.
func Ended(ctx context.Context) (diag.Failure, bool) {
	switch {
	case ctx.Err() == nil:
		return diag.OK, false
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return diag.Timeout, true
	}
	return diag.Cancelled, true
}

// ResourceOf returns the resource that this machine ran out of, by the error of a system call; "" for other errors.
// EAGAIN and EADDRNOTAVAIL have other meanings as well, so for these it considers the call and the state of this
// machine.
func ResourceOf(err error) diag.Resource {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	switch e {
	case syscall.EMFILE, syscall.ENFILE:
		return diag.OpenFiles
	case syscall.ENOBUFS:
		return diag.NetworkBuffers
	case syscall.ENOMEM:
		return diag.Memory
	case syscall.EAGAIN:
		return refusedCall(err)
	case syscall.EADDRNOTAVAIL:
		var op *net.OpError
		dial := errors.As(err, &op) && op.Op == "dial" && strings.HasPrefix(op.Net, "tcp")
		if dial && op.Addr != nil && hasSource(op.Addr) {
			return diag.LocalPorts
		}
	}
	return ""
}

// refusedCall returns the resource for a call refused with EAGAIN: a new process, or a port for a socket.
func refusedCall(err error) diag.Resource {
	var (
		path *fs.PathError
		call *os.SyscallError
		text TextErrno
	)
	switch {
	case errors.As(err, &path) && path.Op == "fork/exec":
		return diag.Processes
	case errors.As(err, &call) && (call.Syscall == "connect" || call.Syscall == "bind"),
		errors.As(err, &text) && strings.Contains(text.Text, "connect: "):
		return diag.LocalPorts
	}
	return ""
}

// hasSource reports whether this machine has a source address for addr, which the kernel selects for a socket that
// sends nothing. If so, EADDRNOTAVAIL of a TCP connection means that no port is free. EAGAIN means that this socket got
// no port either.
func hasSource(addr net.Addr) bool {
	conn, err := net.DialTimeout("udp", addr.String(), time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil || errors.Is(err, syscall.EAGAIN)
}

// TextErrno is an errno found in an error's text: Go's resolver wraps no errno.
type TextErrno struct {
	syscall.Errno
	Text string
}

func (s TextErrno) Error() string { return s.Text }
func (s TextErrno) Unwrap() error { return s.Errno }

// MarkExhausted sets the failure to host_exhausted if err means a missing resource, whatever failure its phase would
// give.
func MarkExhausted(f *diag.Fact, err error) {
	if r := ResourceOf(err); r != "" && f.Failure != diag.Cancelled {
		f.Failure, f.Shortage = diag.HostExhausted, &diag.ShortageFacts{Resource: r}
	}
}

// Fail records in f why a host measurement stopped: the failure, the phase, and err's errno and text.
func Fail(f *diag.Fact, phase string, word diag.Failure, err error) {
	f.Failure, f.Phase = word, phase
	if err == nil {
		return
	}
	f.Detail = JoinDetail(f.Detail, err.Error())
	f.Errno = ErrnoName(err)
	MarkExhausted(f, err)
}

// Interrupted reports, and records in f, that ctx ended before phase was done.
func Interrupted(ctx context.Context, f *diag.Fact, phase string) bool {
	word, over := Ended(ctx)
	if over {
		f.Failure, f.Phase = word, phase
	}
	return over
}

// JoinDetail joins two details of a fact.
func JoinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
