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

// resourceOf is the resource that this machine was out of, by the error of a system call; "" for other errors. EAGAIN
// and EADDRNOTAVAIL have other meanings as well, so there the call and the state of this machine count.
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

// refusedCall is what a call lacked that was refused with EAGAIN: a new process, or a port for a socket.
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

// hasSource reports whether this machine has an address to reach addr from: the kernel chooses one for a socket that
// sends nothing. If so, the EADDRNOTAVAIL of a TCP connection means that no port is free. EAGAIN means that this
// socket, too, got no port.
func hasSource(addr net.Addr) bool {
	conn, err := net.DialTimeout("udp", addr.String(), time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil || errors.Is(err, syscall.EAGAIN)
}

// noSuchFamily reports whether the address's family is one that this kernel was started without: no policy refuses it.
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

// named is an errno that was found in an error's words: Go's resolver wraps no errno.
type named struct {
	syscall.Errno
	words string
}

func (s named) Error() string { return s.words }
func (s named) Unwrap() error { return s.Errno }

// spokenErrnos are the errnos that are about this machine and not about a DNS server.
var spokenErrnos = [...]syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
	syscall.EPERM, syscall.EACCES, syscall.EAFNOSUPPORT, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTUNREACH,
}

// errnoIn is the errno that ends the words of an error; 0 where none does.
func errnoIn(words string) syscall.Errno {
	for _, e := range spokenErrnos {
		if strings.HasSuffix(words, ": "+e.Error()) {
			return e
		}
	}
	return 0
}

// lacking makes a failure for want of a resource one, whatever its phase would call it.
func lacking(f *diag.Fact, err error) {
	if r := resourceOf(err); r != "" && f.Failure != diag.Cancelled {
		f.Failure, f.Shortage = diag.HostExhausted, &diag.ShortageFacts{Resource: r}
	}
}

// ownFor is how long what was read of this machine counts: a walk's probes are refused together, and each look walks
// through /proc.
const ownFor = time.Second

// maxLooks bounds what is remembered.
const maxLooks = 64

// own remembers what was read of this machine. The zero value is ready.
type own struct {
	mu   sync.Mutex // guards seen, and allows one reading at a time
	seen map[string]look
}

// look is what was read at a time: one of the two.
type look struct {
	at       time.Time
	shortage *diag.ShortageFacts
	denial   *diag.DenialFacts
}

// explain adds to a fact that failed for want of a resource, or by this machine's policy, what can be read of that.
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
		f.Shortage = o.once(string(r)+" "+f.Errno+" "+remote, func() look {
			return look{shortage: new(readShortage(r, f.Errno, udp, remote))}
		}).shortage
	case f.Failure == diag.TCPDenied:
		f.Denial = o.once("denied "+remote, func() look {
			return look{denial: new(readDenial(remote))}
		}).denial
	}
}

// once reads, unless that was just done.
func (o *own) once(key string, read func() look) look {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, known := o.seen[key]
	if known && time.Since(l.at) < ownFor {
		return l
	}
	if o.seen == nil || len(o.seen) >= maxLooks {
		o.seen = map[string]look{}
	}
	l = read()
	l.at = time.Now()
	o.seen[key] = l
	return l
}

// Shortage reads what the machine of this process was out of when a dial to remote failed with err; nil for other
// errors. It is for callers that dial without a probe.
func Shortage(err error, remote string) *diag.ShortageFacts {
	r := resourceOf(err)
	if r == "" {
		return nil
	}
	return new(readShortage(r, errnoName(err), false, remote))
}

// fail writes what stopped a host measurement into f: the word, the phase, and of err the errno and its own words.
func fail(f *diag.Fact, phase string, word diag.Failure, err error) {
	f.Failure, f.Phase = word, phase
	if err == nil {
		return
	}
	f.Detail = joinDetail(f.Detail, err.Error())
	f.Errno = errnoName(err)
	lacking(f, err)
}

// interrupted reports, and writes into f, that ctx ended before phase was done.
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
