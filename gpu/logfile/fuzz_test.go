package logfile

import (
	"errors"
	"strings"
	"testing"
)

// accounted is how many lines with the driver's words a log's result has.
func accounted(log *Log) int {
	n := log.Unread.Count + log.Foreign.Count + int(log.Unkept)
	for _, f := range log.Found {
		n += int(f.Count)
	}
	return n
}

// FuzzRead: whatever a log contains, reading it neither fails nor takes more memory than its limits, and a line of the
// driver is never lost: it counts, or is listed as unread or as another program's.
func FuzzRead(f *testing.F) {
	for _, file := range [...]string{"framings.txt", "writers.txt", "boots.txt"} {
		for _, l := range framings(f, file) {
			before, after, _ := strings.Cut(l.log, fault)
			f.Add(before, after)
		}
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		log, err := Read(strings.NewReader(before + fault + after))
		if refused := (*Refused)(nil); errors.As(err, &refused) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if accounted(&log) == 0 && log.Cut == "" {
			t.Errorf("lost: %q", before+fault+after)
		}
		for _, l := range append(log.Unread.Lines, log.Foreign.Lines...) {
			if len(l.Text) > maxShown+3 || strings.ContainsAny(l.Text, "\x1b\n\r\x00") || l.Line < 1 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// FuzzLine: a line that begins with anything and has the driver's line in it counts, is unread or is another program's,
// once.
func FuzzLine(f *testing.F) {
	for _, file := range [...]string{"framings.txt", "writers.txt"} {
		for _, l := range framings(f, file) {
			before, _, _ := strings.Cut(l.log, fault)
			f.Add(before[strings.LastIndexByte(before, '\n')+1:])
		}
	}
	f.Fuzz(func(t *testing.T, before string) {
		if strings.ContainsAny(before, "\n\r\x00") || len(before) > 1000 {
			return
		}
		s := plain(before + fault)
		if frame := frameOf(s, strings.Index(s, fault), false); strings.Contains(s, fault) && frame.text > len(s)-len(fault) {
			t.Errorf("%+v: the frame goes into the text", frame)
		}
		log, err := Read(strings.NewReader("[    1.0] x\n" + before + fault + "\n"))
		if err == nil && accounted(&log) == 0 {
			t.Errorf("lost: %q", before)
		}
	})
}
