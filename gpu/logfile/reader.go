package logfile

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// banner begins the kernel's first line after a boot.
const banner = "Linux version "

// reader reads one log.
type reader struct {
	in    *source
	log   Log
	boots boots
	n     int // number of the line

	prev    []byte // the last line that is not indented
	host    string // of the lines that follow, as ansible heads them
	table   *table
	json    *jsonParser // of a value that began in an earlier line
	outer   context     // around it
	rec     journalRecord
	aside   []waiting // texts of the record's other fields
	partial map[string]*part
	first   bool // a line that is not blank was seen
	waits   bool // the next line shows when the boot began
}

// context is what is known of a text before it is looked at.
type context struct {
	top   bool // it is a line of the file
	named bool // the kernel wrote it
	other bool // another program did
	quote bool // it is only about the driver's words
	host  string
	at    stamp
	depth int
}

// Read reads a log to its end. The error is a Refused or one of reading; the Log then has what came before.
func Read(in io.Reader) (Log, error) {
	src, err := open(in)
	if err != nil {
		return Log{}, err
	}
	r := &reader{in: src, log: Log{Blank: true}}
	for more := false; ; {
		line, goesOn, ok := src.next()
		if !ok {
			break
		}
		if !more {
			r.n++
		}
		r.line(line, more, goesOn)
		more = goesOn
	}
	r.finish()
	r.log.Lines = r.n
	r.log.Found, r.log.Unkept = r.boots.result()
	r.log.Cut, err = src.end()
	return r.log, err
}

// line takes a line, or a part of a long one: rest is true for all but its first, goesOn for all but its last.
func (r *reader) line(b []byte, rest, goesOn bool) {
	if r.in.has.zero {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	if r.json != nil && (r.feed(b) || rest) {
		return
	}
	if rest { // its frame is not known here
		if hinted(b) {
			r.lostText(waiting{r.n, "", string(b)})
		}
		return
	}
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	blank := len(b) == 0 || (b[0] <= ' ' && len(bytes.TrimSpace(b)) == 0)
	r.log.Blank = r.log.Blank && blank
	if (r.rec.open || mayBegin(b)) && !goesOn && r.journal(string(b)) {
		return
	}
	if blank {
		return
	}
	if !r.first {
		r.first = true
		if r.table = tableOf(string(b)); r.table != nil {
			return
		}
	}
	if start := jsonStart(b); start >= 0 {
		r.object(b[start:], goesOn, context{host: r.host})
		return
	}
	r.boundary(b)
	r.recognize(b)
	if bytes.HasSuffix(b, []byte("=> {")) { // ansible's results
		r.ansible(string(b))
		r.object(b[len(b)-1:], true, context{host: r.host})
		return
	}
	if r.in.has.part || len(r.partial) > 0 {
		if b = r.join(b); b == nil {
			return
		}
	}
	if r.in.has.hint && hinted(b) {
		r.overdrawn(string(b))
	} else if r.in.has.bar && bytes.Contains(b, []byte(" | ")) {
		r.ansible(string(b))
	}
	if b[0] != ' ' && b[0] != '\t' {
		r.prev = append(r.prev[:0], b[:min(len(b), 512)]...)
	}
}

// overdrawn looks at a line that a carriage return may divide: what a program has drawn over is its own.
func (r *reader) overdrawn(line string) {
	ctx := context{top: true}
	for text := range strings.SplitSeq(line, "\r") {
		r.text(r.n, text, ctx)
		f := frameOf(plain(text), -1, false)
		ctx.other = ctx.other || (f.log && f.writer == program)
	}
}

// finish ends what has begun.
func (r *reader) finish() {
	if r.json != nil {
		r.json.end()
	}
	r.endRecord()
	for _, p := range r.partial {
		r.text(p.line, p.text, context{top: true})
	}
}

// lostText lists a text whose frame is not known, if it has the driver's words.
func (r *reader) lostText(w waiting) {
	if s := plain(w.text); Marked(s) {
		r.log.Unread.add(w.line, around(s))
	}
}

// around returns the part of a text that has the driver's words.
func around(s string) string {
	i := markedAt(s)
	if i < 0 {
		return s
	}
	return s[max(0, i-maxShown/2):]
}

// boundary notes where a boot ends.
func (r *reader) boundary(b []byte) {
	if r.waits {
		r.waits = false
		f := frameOf(plain(string(b)), -1, false)
		if m := r.boots.of(f.host); f.at.at != 0 {
			m.now.time(f.at)
			m.now.lines++
		}
	}
	if isBoot(b) {
		if f := frameOf(plain(string(r.prev)), -1, false); len(r.prev) == 0 || f.log {
			r.boots.every()
			r.waits = true
		}
		return
	}
	if r.in.has.banner && bytes.Contains(b, []byte(banner)) {
		r.banner(plain(string(b)), context{})
		return
	}
	at, ok := bootTime(b)
	if !ok || !r.boots.tick(at) {
		return
	}
	f := frameOf(plain(string(b)), -1, false)
	if m := r.boots.of(f.host); f.writer != program && at+bootEnd < m.last {
		r.boots.next(m)
		m.now.lines++
		m.last = at
	}
}

// banner ends a boot if the kernel wrote the line, which its name or its time says.
func (r *reader) banner(s string, ctx context) {
	i := strings.Index(s, banner)
	if i < 0 || ctx.other {
		return
	}
	f := frameOf(s, i, ctx.named)
	if f.writer == program || f.writer == unclear || (f.writer != kernel && !f.ticked) || f.uptime > time.Second {
		return // a program may write such a line into the kernel's log, but not with that time
	}
	if ctx.host == "" {
		ctx.host = f.host
	}
	m := r.boots.of(ctx.host)
	if r.boots.reversed() {
		m.now.lines++
	}
	r.boots.next(m)
	if at := f.at; at.at != 0 || ctx.at.at != 0 {
		if at.clock == NoClock || at.clock == Boot {
			at = ctx.at
		}
		m.now.time(at)
	}
	if !r.boots.reversed() {
		m.now.lines++
	}
	r.boots.lastTime = 0
}

// isBoot reports whether a line is what journalctl prints between two boots.
func isBoot(b []byte) bool {
	if len(b) > 60 || (b[0] != '-' && b[0] != 0x1b && b[0] != ' ') || !bytes.Contains(b, []byte("-- ")) {
		return false
	}
	s := strings.TrimSpace(plain(string(b)))
	if s == "-- Reboot --" {
		return true
	}
	id, ok := strings.CutPrefix(s, "-- Boot ")
	if id, ok2 := strings.CutSuffix(id, " --"); ok && ok2 && len(id) == 32 {
		return strings.Trim(id, "0123456789abcdef") == ""
	}
	return false
}

// bootTime returns the kernel's time in a line, if it has one where dmesg or a syslog puts it.
func bootTime(b []byte) (time.Duration, bool) {
	i := 0
	if b[0] != '[' {
		if i = bytes.IndexByte(b[:min(len(b), 120)], '['); i < 0 {
			return 0, false
		}
		if before := b[:i]; !bytes.HasSuffix(before, []byte("kernel: ")) && (i+1 == len(b) || b[i+1] != ' ') {
			return 0, false
		}
	}
	digits := b[i+1 : min(len(b), i+40)]
	for len(digits) > 0 && digits[0] == ' ' {
		digits = digits[1:]
	}
	at, unit, point := time.Duration(0), time.Second, false
	for n, c := range digits {
		switch {
		case c >= '0' && c <= '9' && !point && n < 9:
			at = at*10 + time.Duration(c-'0')*time.Second
		case c >= '0' && c <= '9' && point:
			unit /= 10
			at += time.Duration(c-'0') * unit
		case c == '.' && !point && n > 0:
			point = true
		default:
			return at, point && (c == ']' || c == ' ' || c == '@')
		}
	}
	return 0, false
}
