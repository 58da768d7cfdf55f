package kmsg

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kernel is a kernel log in memory that behaves as /dev/kmsg: it keeps the newest records, gives one a read, reports
// EPIPE once to a reader whose next record it overwrote, EAGAIN where none is left, and EINVAL for a buffer that is too
// small.
type kernel struct {
	t     *testing.T
	keeps int
	first uint64 // number of records[0]
	lines []string
}

// print adds a record of the kernel's own.
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

// raw adds a record as it is.
func (k *kernel) raw(line string) { k.lines = append(k.lines, line) }

// escape writes text as the kernel does.
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

// at is when the record with the number is printed.
func at(seq uint64) time.Duration { return time.Second + time.Duration(seq)*time.Millisecond }

// open is what a reader gets.
func (k *kernel) open() *descriptor { return &descriptor{k: k, next: k.first} }

type descriptor struct {
	k    *kernel
	next uint64
	fail error // of the next read
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

// drained is what a reader finds in all that is there.
func drained(t *testing.T, r *Reader) []Event {
	t.Helper()
	b, err := r.Drain(0)
	if err != nil || !b.CaughtUp {
		t.Fatalf("%+v, %v", b, err)
	}
	return b.Events
}

var _ io.Reader = (*descriptor)(nil)
