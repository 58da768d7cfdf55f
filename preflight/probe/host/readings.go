package host

import (
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// readingTime is how long readings of this machine are reused: a walk's probes are refused at the same time, and each
// reading walks through /proc.
const readingTime = time.Second

// maxReadings bounds the cached readings.
const maxReadings = 64

// Readings caches readings of this machine. The zero value is ready to use.
type Readings struct {
	mu   sync.Mutex // guards seen, and allows one reading at a time
	seen map[string]reading
}

// reading is one cached reading, of a shortage or of a denial.
type reading struct {
	at       time.Time
	shortage *diag.ShortageFacts
	denial   *diag.DenialFacts
}

// Explain adds what this machine knows about a fact: the reading if it failed for a missing resource, or because of
// this machine's policy, and who listens where a connection was accepted here.
func (s *Readings) Explain(f *diag.Fact) {
	remote := ""
	if f.TCP != nil {
		remote = f.TCP.Remote
	} else if f.DNS != nil {
		remote = f.DNS.Server
	}
	switch {
	case f.Failure == diag.HostExhausted && f.Shortage != nil:
		r, udp := f.Shortage.Resource, f.TCP == nil
		f.Shortage = s.once(string(r)+" "+f.Errno+" "+remote, func() reading {
			return reading{shortage: new(readShortage(r, f.Errno, udp, remote))}
		}).shortage
	case f.Failure == diag.OK && f.Request.Op == diag.OpTCP && f.TCP != nil:
		f.TCP.Listener = listenerAt(f.TCP.Remote)
	case f.Failure == diag.TCPDenied:
		f.Denial = s.once("denied "+remote, func() reading {
			return reading{denial: new(readDenial(remote))}
		}).denial
	}
}

// once returns the cached reading, or reads.
func (s *Readings) once(key string, read func() reading) reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.seen[key]
	if known && time.Since(l.at) < readingTime {
		return l
	}
	if s.seen == nil || len(s.seen) >= maxReadings {
		s.seen = map[string]reading{}
	}
	l = read()
	l.at = time.Now()
	s.seen[key] = l
	return l
}

// Shortage reads what the machine of this process ran out of when a dial to remote failed with err; nil for other
// errors. It is for callers that dial without a probe.
func Shortage(err error, remote string) *diag.ShortageFacts {
	r := measure.ResourceOf(err)
	if r == "" {
		return nil
	}
	return new(readShortage(r, measure.ErrnoName(err), false, remote))
}
