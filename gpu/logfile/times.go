package logfile

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// zones are the abbreviations that may follow a time; only UTC and GMT say what they are.
const zones = `UTC|GMT|CES?T|EES?T|WES?T|[ECMP][SD]T|JST|KST|IST|MSK|BST|AE[SD]T|HKT|SGT`

// forms are how logs write times, without a bracket around them.
var forms = sync.OnceValue(func() []form {
	compile := func(s string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + s + `)`) }
	const clock = `(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?`
	return []form{
		{compile(`(?:\pL{2,9}\.?,? +)?(\d{4})[-/](\d\d)[-/](\d\d)(?:[T _]` + clock +
			`)?(?: ?(Z|[+-]\d\d:?\d\d|` + zones + `)\b)?Z?`), isoTime},
		{compile(`(?:\pL{1,9}\.?,? +)?(\pL{2,12}|\d{1,2}月)\.? *(\d{1,2}),? +(?:(\d{4}) (?:@ )?)?` + clock +
			`(?: (?:` + zones + `)\b)?(?: (\d{4})\b)?`), syslogTime},
		{compile(`(?:\pL{1,9}\.?,? +)?\d{1,2}\.? +\pL{2,12}\.?,? +(?:\d{4},? +)?` + clock +
			`(?: (?:` + zones + `)\b)?(?: \d{4}\b)?`), noTime}, // the day first, in other languages
		{compile(`([1-9]\d{9})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?\b`), epochTime},
		{compile(clock + `(?: ?[AP]M\b)?`), noTime},
		{compile(`\d{1,2}[/.]\d{1,2}[/.]\d{4},? +\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M\b)?`), noTime},
		{compile(`\d\d/\pL{3}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?`), noTime},
		{compile(`\d{8}[T-]\d{4,6}Z?\b`), noTime},
		{compile(`(\pL{3})(\d{1,2}) (\d\d):(\d\d)\b`), noTime},
	}
})

// form is one way to write a time.
type form struct {
	re   *regexp.Regexp
	read func(part []string) stamp
}

// timeAt parses a time at the begin of s. n is its length, 0 without one.
func timeAt(s string) (n int, at stamp) {
	s = s[:min(len(s), 64)]
	if !strings.ContainsAny(s, "0123456789") || (!strings.ContainsAny(s, ":") && (s[0] < '0' || s[0] > '9')) {
		return 0, stamp{}
	}
	for _, f := range forms() {
		if part := f.re.FindStringSubmatch(s); part != nil {
			n = len(part[0])
			if n < len(s) && strings.IndexByte(" \t:,;]|)\"'}", s[n]) < 0 {
				continue
			}
			return n, f.read(part)
		}
	}
	return 0, stamp{}
}

func isoTime(p []string) stamp {
	t, ok := clockTime(num(p[1]), num(p[2]), num(p[3]), p[4:8])
	if !ok {
		return stamp{}
	}
	switch zone := p[8]; {
	case zone == "Z", zone == "UTC", zone == "GMT":
		return stamp{UTC, t}
	case zone != "" && (zone[0] == '+' || zone[0] == '-'):
		digits := strings.Replace(zone[1:], ":", "", 1)
		offset := time.Duration(num(digits[:2]))*time.Hour + time.Duration(num(digits[2:]))*time.Minute
		if zone[0] == '-' {
			offset = -offset
		}
		return stamp{UTC, t - offset}
	}
	return stamp{Local, t}
}

const months = "janfebmaraprmayjunjulaugsepoctnovdec"

func syslogTime(p []string) stamp {
	name := lower(p[1])
	if len(name) < 3 || len(name) > 9 {
		return stamp{}
	}
	i := strings.Index(months, name[:3])
	if i < 0 || i%3 != 0 {
		return stamp{} // a month in another language
	}
	year, clock := p[3]+p[8], Local
	if year == "" {
		year, clock = "1972", Yearless // any leap year, since 1970
	}
	if t, ok := clockTime(num(year), i/3+1, num(p[2]), p[4:8]); ok {
		return stamp{clock, t}
	}
	return stamp{}
}

// clockTime returns a time since 1970 from its parts; clock is hour, minute, second and a fraction, or empty.
func clockTime(year, month, day int, clock []string) (time.Duration, bool) {
	if year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 || num(clock[0]) > 23 {
		return 0, false
	}
	fraction := num((clock[3] + "000000000")[:9])
	t := time.Date(year, time.Month(month), day, num(clock[0]), num(clock[1]), num(clock[2]), fraction, time.UTC)
	return time.Duration(t.UnixNano()), true
}

func epochTime(p []string) stamp {
	whole := time.Duration(num(p[1])) * time.Second
	return stamp{UTC, whole + time.Duration(num((p[2] + p[3] + "000000000")[:9]))}
}

func noTime([]string) stamp { return stamp{} }

// num parses decimal digits, of which there are too few to overflow.
func num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// kernelTime parses the kernel's time as dmesg has it between brackets: "171167.620236", with the task that printed it,
// or with the time since the line before.
func kernelTime(s string) (at stamp, ok bool) {
	s = strings.TrimLeft(s, " ")
	rest := strings.TrimLeft(s, "0123456789")
	digits := s[:len(s)-len(rest)]
	fraction, hasPoint := strings.CutPrefix(rest, ".")
	tail := strings.TrimLeft(fraction, "0123456789")
	fraction = fraction[:len(fraction)-len(tail)]
	if digits == "" || !hasPoint || fraction == "" || len(digits) > 9 || len(fraction) > 9 {
		return stamp{}, false
	}
	if tail = strings.Trim(tail, " "); tail != "" && !caller(strings.TrimPrefix(tail, "@")) &&
		tail[0] != '<' && tail != ">" {
		return stamp{}, false
	}
	ns := time.Duration(num((fraction + "000000000")[:9]))
	return stamp{Boot, time.Duration(num(digits))*time.Second + ns}, true
}

// caller reports whether s is the task or processor that printed a line: T1946, C0.
func caller(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 1 && (s[0] == 'T' || s[0] == 'C') && strings.Trim(s[1:], "0123456789") == ""
}
