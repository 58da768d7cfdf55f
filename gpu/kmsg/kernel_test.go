package kmsg

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kernel simulates /dev/kmsg: it keeps the newest records, returns one per read, reports EPIPE once to a reader whose
// next record it overwrote, EAGAIN if none is left, and EINVAL for a buffer that is too small.
type kernel struct {
	t     *testing.T
	keeps int
	first uint64 // number of records[0]
	lines []string
}

// print adds a record of the kernel itself.
func (k *kernel) print(text string) { k.printAs("4", "-", text) }

func (k *kernel) printAs(prio, flags, text string) {
	seq := k.first + uint64(len(k.lines))
	k.lines = append(k.lines, fmt.Sprintf("%s,%d,%d,%s;%s\n", prio, seq, 1_000_000+seq*1000, flags, escape(text)))
	if len(k.lines) > k.keeps {
		n := len(k.lines) - k.keeps
		k.first += uint64(n)
		k.lines = k.lines[n:]
	}
}

// raw adds a record unchanged.
func (k *kernel) raw(line string) { k.lines = append(k.lines, line) }

// escape encodes text as the kernel does.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// at returns when the record with that number is printed.
func at(seq uint64) time.Duration { return time.Second + time.Duration(seq)*time.Millisecond }

// open returns a new descriptor, as for one opener.
func (k *kernel) open() *descriptor { return &descriptor{k: k, next: k.first} }

type descriptor struct {
	k    *kernel
	next uint64
	fail error // error of the next read
}

func (d *descriptor) Read(p []byte) (int, error) {
	if err := d.fail; err != nil {
		d.fail = nil
		return 0, err
	}
	if d.next < d.k.first {
		d.next = d.k.first
		return 0, syscall.EPIPE
	}
	i := d.next - d.k.first
	if i >= uint64(len(d.k.lines)) {
		return 0, syscall.EAGAIN
	}
	d.next++
	if line := d.k.lines[i]; len(line) <= len(p) {
		return copy(p, line), nil
	}
	return 0, syscall.EINVAL
}

// drained returns everything that a reader finds.
func drained(t *testing.T, r *Reader) []Event {
	t.Helper()
	b, err := r.Drain(0)
	if err != nil || !b.CaughtUp {
		t.Fatalf("%+v, %v", b, err)
	}
	return b.Events
}

var _ io.Reader = (*descriptor)(nil)
