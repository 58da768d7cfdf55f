package kmsg

import "strings"

// Finder finds the driver's reports in consecutive lines: some drivers print one report over three lines. Its zero
// value is ready to use.
type Finder struct {
	device string // device of a report that has begun
	left   int    // number of further lines of the driver within which it must end
}

// lostLines is how many lines of the driver a report of a lost GPU may span, including lines about other GPUs.
const lostLines = 4

// Find parses one line as the driver printed it.
func (f *Finder) Find(text string) (Line, bool) {
	if l, ok := ParseLine(text); ok {
		return l, true
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t"), "NVRM:")
	if !ok {
		return Line{}, false
	}
	rest = strings.TrimLeft(rest, " ")
	if v, ok := strings.CutPrefix(rest, "The NVIDIA GPU "); ok {
		place, _, _ := strings.Cut(v, " ")
		f.device, f.left = address(place), lostLines
	}
	if f.left == 0 || f.device == "" {
		return Line{}, false
	}
	f.left--
	if !strings.Contains(rest, "fallen off the bus and is not responding") {
		return Line{}, false
	}
	l := blank(Lost)
	l.Device, l.Text = f.device, "GPU has fallen off the bus and is not responding to commands"
	f.left = 0
	return l, true
}

// FindInLog is Find for a line of a log file, after the prefix that dmesg, a syslog daemon, journalctl or a copy of
// /dev/kmsg adds. Another program's line that quotes the driver's does not count: the prefix must be a time with few
// words before it, or end in a bracket, ";" or "kernel:".
func (f *Finder) FindInLog(line string) (Line, bool) {
	line = line[:min(len(line), maxRecord)]
	for _, mark := range [...]string{"NVRM:", "nvidia-nvswitch"} {
		i := strings.Index(line, mark)
		if i < 0 || !isPrefix(line[:i]) {
			continue
		}
		for text := range strings.SplitSeq(line[i:], "#012") { // rsyslog's encoding of a newline within a record
			if l, ok := f.Find(text); ok {
				return l, true
			}
		}
		return Line{}, false
	}
	return Line{}, false
}

// timeWords is how many words a time of dmesg or a syslog has, with facility and level: "kern :err : 2025-01-25T...".
const timeWords = 4

func isPrefix(s string) bool {
	words := strings.Fields(s)
	if len(words) == 0 {
		return true
	}
	s = strings.TrimRight(s, " \t")
	if strings.ContainsAny(s, "'\"`") {
		return false
	}
	if len(words) <= timeWords && isTime(words[len(words)-1]) {
		return true
	}
	for _, end := range [...]string{"]", "]:", ">", ";", "kernel:"} {
		if strings.HasSuffix(s, end) {
			return true
		}
	}
	return false
}

// isTime reports whether a word looks like 2025-01-25T10:34:54,859532+00:00 or 10:34:54.
func isTime(s string) bool {
	return (len(s) > 18 && s[4] == '-' && s[10] == 'T') || (len(s) >= 8 && s[2] == ':' && s[5] == ':')
}
