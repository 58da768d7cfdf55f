package logfile

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fault is a line of the driver, in the files of testdata written as $X.
const fault = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4121, name=python3, GPU has fallen off the bus."

// framing is a log of testdata, and what is found in it.
type framing struct{ name, want, log string }

// framings reads a file of testdata: "== WANT | NAME", then the lines of the log. \e is ESC, \r a carriage return, \0 a
// zero byte, \a BEL, \s the separator of json-seq.
func framings(t testing.TB, file string) (all []framing) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.NewReplacer("$X", fault, `\e`, "\x1b", `\r`, "\r", `\0`, "\x00", `\a`, "\a", `\s`,
		"\x1e").Replace(string(data)))
	for line := range strings.Lines(string(data)) {
		head, ok := strings.CutPrefix(line, "== ")
		switch {
		case ok:
			want, name, _ := strings.Cut(strings.TrimSpace(head), " | ")
			all = append(all, framing{name: name, want: want})
		case len(all) > 0:
			all[len(all)-1].log += line
		}
	}
	return all
}

// says is what a log is read as, as the files of testdata have it.
func says(t testing.TB, text string) string {
	t.Helper()
	log, err := Read(strings.NewReader(text))
	if err != nil {
		return err.Error()
	}
	now, earlier := uint64(0), uint64(0)
	var hosts, times []string
	for _, f := range log.Found {
		if f.Earlier {
			earlier += f.Count
		} else {
			now += f.Count
		}
		if f.Host != "" {
			hosts = append(hosts, f.Host)
		}
		if at := f.Clock.Format(f.First); at != "" {
			times = append(times, at)
		}
	}
	var s []string
	add := func(n int, what string) {
		if n > 0 {
			s = append(s, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(int(now), "counted")
	add(int(earlier), "earlier")
	add(log.Unread.Count, "unread")
	add(log.Foreign.Count, "foreign")
	if len(s) == 0 && !log.Kernel {
		return "no kernel log"
	}
	if len(hosts) > 0 {
		s = append(s, "host "+strings.Join(hosts, " "))
	}
	if len(times) > 0 {
		s = append(s, "at "+strings.Join(times, " "))
	}
	return strings.Join(s, ", ")
}

// TestFramings: the driver's line counts however a log frames it, unless the log names another writer; what could be
// either is unread.
func TestFramings(t *testing.T) {
	for _, file := range [...]string{"framings.txt", "writers.txt", "boots.txt"} {
		for _, f := range framings(t, file) {
			got := says(t, f.log)
			for _, part := range [...]string{", at ", ", host "} { // not every log of testdata has them
				if !strings.Contains(f.want, part) {
					got, _, _ = strings.Cut(got, part)
				}
			}
			if got != f.want {
				t.Errorf("%s: %s\n is  %s\n not %s\n%s", file, f.name, got, f.want, f.log)
			}
		}
	}
}
