// Package logfile finds the driver's errors in a log file. It takes the driver's own text out of whatever wrote the
// file: dmesg, syslog daemons, journalctl, container runtimes, log stores, tools that run a command on many machines.
//
// It knows few of those by name. The rule is: find the driver's words, look at what precedes them, and decide whether
// that names a writer. The kernel's lines count, and so do those of which nothing says who wrote them; another
// program's do not, and the first writer named in a line is the one. What is neither is not dropped but listed as
// unread: "not understood" is not "nothing wrong". Memory is bounded whatever the file's size.
package logfile

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
)

// Limits of a result.
const (
	maxSeen  = 20  // listed lines of a kind
	maxShown = 300 // bytes of a listed line
)

// Log is what a file says.
type Log struct {
	Lines   int     // number of lines read
	Blank   bool    // they are all blank
	Kernel  bool    // at least one line looks like one of a kernel log, a syslog or a journal
	Cut     string  // why the file was not read to its end; "" if it was
	Found   []Found // those of a host and a boot together
	Unkept  uint64  // reports dropped because a limit was reached
	Unread  Seen    // lines with the driver's words that were not understood
	Foreign Seen    // lines with the driver's words that another program wrote
}

// Found is an error with its place in the file.
type Found struct {
	kmsg.Event
	Host    string // as the file names it; "" if it does not
	Earlier bool   // of a boot that ended before the newest one in the file began
	Clock   Clock  // of First and Last
}

// Seen are lines that did not count.
type Seen struct {
	Count int
	Lines []SeenLine // the first of them
}

// SeenLine is one line, without control characters.
type SeenLine struct {
	Line int // from 1
	Text string
}

func (s *Seen) add(line int, text string) {
	s.Count++
	if len(s.Lines) < maxSeen {
		s.Lines = append(s.Lines, SeenLine{line, shown(text)})
	}
}

// Clock is what the times of a log count from.
type Clock string

// Clocks. A time is a duration on one of them, and 0 if there is none.
const (
	NoClock  Clock = ""
	Boot     Clock = "boot"     // since boot
	UTC      Clock = "utc"      // since 1970
	Local    Clock = "local"    // since 1970 in a zone that the log does not name
	Yearless Clock = "yearless" // a syslog's: since the begin of a year that the log does not name
)

// stamp is a time of a line.
type stamp struct {
	clock Clock
	at    time.Duration
}

// Format returns a time of the clock: RFC 3339, the same without a zone, month and day as a syslog has them, or seconds
// since boot.
func (c Clock) Format(at time.Duration) string {
	switch {
	case at == 0:
		return ""
	case c == Boot:
		return seconds(at)
	case c == UTC:
		return time.Unix(0, int64(at)).UTC().Format(time.RFC3339Nano)
	case c == Local:
		return time.Unix(0, int64(at)).UTC().Format("2006-01-02T15:04:05.999999999")
	case c == Yearless:
		return time.Unix(0, int64(at)).UTC().Format("Jan _2 15:04:05")
	}
	return ""
}

// seconds formats a duration as the kernel does.
func seconds(d time.Duration) string {
	whole, part := d/time.Second, d%time.Second/time.Microsecond
	digits := "00000" + itoa(int(part))
	return itoa(int(whole)) + "." + digits[len(digits)-6:]
}

// writer says who wrote a line.
type writer int

const (
	unknown writer = iota // nothing says it, and the line has the form of a record
	kernel
	program
	unclear // the line does not have the form of a record
)

// shown returns text for a list: bounded, one line, without control characters.
func shown(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*maxShown)], "\ufffd")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || (r >= 0x7f && r < 0xa0) || (r >= 0x200b && r <= 0x200f) || (r >= 0x2028 && r <= 0x202e) ||
			(r >= 0x2066 && r <= 0x2069) || r == 0xfeff:
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return s
}
