package probe

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// resourceOf returns the resource that this machine ran out of, by the error of a system call; "" for other errors.
// EAGAIN and EADDRNOTAVAIL have other meanings as well, so for these it considers the call and the state of this
// machine.
func resourceOf(err error) diag.Resource {
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
		text named
	)
	switch {
	case errors.As(err, &path) && path.Op == "fork/exec":
		return diag.Processes
	case errors.As(err, &call) && (call.Syscall == "connect" || call.Syscall == "bind"),
		errors.As(err, &text) && strings.Contains(text.words, "connect: "):
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

// noSuchFamily reports whether the kernel was started without the address's family, so that no policy refuses it.
func noSuchFamily(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return false
	}
	host, _, splitErr := net.SplitHostPort(op.Addr.String())
	if splitErr != nil || !strings.Contains(host, ":") {
		return false
	}
	_, statErr := os.Stat("/proc/net/if_inet6")
	return errors.Is(statErr, fs.ErrNotExist)
}

// named is an errno found in an error's text: Go's resolver wraps no errno.
type named struct {
	syscall.Errno
	words string
}

func (s named) Error() string { return s.words }
func (s named) Unwrap() error { return s.Errno }

// spokenErrnos are the errnos that concern this machine, not a DNS server.
var spokenErrnos = [...]syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
	syscall.EPERM, syscall.EACCES, syscall.EAFNOSUPPORT, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTUNREACH,
}

// errnoIn returns the errno at the end of an error's text; 0 if there is none.
func errnoIn(words string) syscall.Errno {
	for _, e := range spokenErrnos {
		if strings.HasSuffix(words, ": "+e.Error()) {
			return e
		}
	}
	return 0
}

// lacking sets the failure to host_exhausted if err means a missing resource, whatever failure its phase would give.
func lacking(f *diag.Fact, err error) {
	if r := resourceOf(err); r != "" && f.Failure != diag.Cancelled {
		f.Failure, f.Shortage = diag.HostExhausted, &diag.ShortageFacts{Resource: r}
	}
}

// ownFor is how long readings of this machine are reused: a walk's probes are refused at the same time, and each
// reading walks through /proc.
const ownFor = time.Second

// maxLooks bounds the cached readings.
const maxLooks = 64

// own caches readings of this machine. The zero value is ready to use.
type own struct {
	mu   sync.Mutex // guards seen, and allows one reading at a time
	seen map[string]reading
}

// reading is one cached reading, of a shortage or of a denial.
type reading struct {
	at       time.Time
	shortage *diag.ShortageFacts
	denial   *diag.DenialFacts
}

// explain adds the reading to a fact that failed for a missing resource, or because of this machine's policy.
func (o *own) explain(f *diag.Fact) {
	remote := ""
	if f.TCP != nil {
		remote = f.TCP.Remote
	} else if f.DNS != nil {
		remote = f.DNS.Server
	}
	switch {
	case f.Failure == diag.HostExhausted && f.Shortage != nil:
		r, udp := f.Shortage.Resource, f.TCP == nil
		f.Shortage = o.once(string(r)+" "+f.Errno+" "+remote, func() reading {
			return reading{shortage: new(readShortage(r, f.Errno, udp, remote))}
		}).shortage
	case f.Failure == diag.TCPDenied:
		f.Denial = o.once("denied "+remote, func() reading {
			return reading{denial: new(readDenial(remote))}
		}).denial
	}
}

// once returns the cached reading, or reads.
func (o *own) once(key string, read func() reading) reading {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, known := o.seen[key]
	if known && time.Since(l.at) < ownFor {
		return l
	}
	if o.seen == nil || len(o.seen) >= maxLooks {
		o.seen = map[string]reading{}
	}
	l = read()
	l.at = time.Now()
	o.seen[key] = l
	return l
}

// Shortage reads what the machine of this process ran out of when a dial to remote failed with err; nil for other
// errors. It is for callers that dial without a probe.
func Shortage(err error, remote string) *diag.ShortageFacts {
	r := resourceOf(err)
	if r == "" {
		return nil
	}
	return new(readShortage(r, errnoName(err), false, remote))
}

// fail records in f why a host measurement stopped: the failure, the phase, and err's errno and text.
func fail(f *diag.Fact, phase string, word diag.Failure, err error) {
	f.Failure, f.Phase = word, phase
	if err == nil {
		return
	}
	f.Detail = joinDetail(f.Detail, err.Error())
	f.Errno = errnoName(err)
	lacking(f, err)
}

// interrupted reports, and records in f, that ctx ended before phase was done.
func interrupted(ctx context.Context, f *diag.Fact, phase string) bool {
	word, over := ended(ctx)
	if over {
		f.Failure, f.Phase = word, phase
	}
	return over
}

func joinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
