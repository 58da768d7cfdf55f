package logfile

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// frame is what a line has before its text.
type frame struct {
	writer writer
	host   string
	at     stamp
	log    bool // as a kernel log, a syslog or a journal has it
	bare   bool // nothing but blanks
	ticked bool // with the kernel's own time, which is uptime
	uptime time.Duration
	text   int // where the text begins
}

// parser reads a frame from left to right. A frame may be within another one, as in a container's log: a layer.
type parser struct {
	s    string // what precedes the text, or the line
	open bool   // s is a line whose text begins anywhere
	pos  int
	frame

	named    bool     // the kernel is named
	vm       bool     // it is that of ESXi, whose lines have another facility
	clocked  bool     // the kernel's own time was there
	facility bool     // the facility is another program's
	timed    bool     // this layer had a time
	retimed  bool     // a writer that is not named gives a time of its own
	doubt    bool     // something is no part of a frame
	words    []string // of this layer, before its time
	after    []string // and after it
	name     string   // begins the layer and ends in ":": a machine or a program
	tokens   int
}

// frameOf parses the frame of a line whose text begins at end. With end < 0 the line is one of unknown content, and the
// text begins where no frame is recognized any more. named: it is known that the kernel wrote it.
func frameOf(line string, end int, named bool) frame {
	p := parser{s: line, open: end < 0, named: named}
	if end >= 0 {
		p.s = line[:end]
	}
	for p.tokens < 64 && p.writer != program {
		p.pos += len(p.s) - p.pos - len(strings.TrimLeft(p.s[p.pos:], " \t\ufeff"))
		if p.pos == len(p.s) || (p.open && p.ends()) {
			break
		}
		n := p.token(p.s[p.pos:])
		if n == 0 {
			p.doubt = !p.open
			break
		}
		p.pos += n
		p.tokens++
	}
	p.text, p.bare = p.pos, p.tokens == 0 && !p.doubt
	p.decide()
	return p.frame
}

// ends reports whether the text of an open line begins here.
func (p *parser) ends() bool {
	return (p.named || p.clocked) && p.tokens > 0 && p.s[p.pos] != '[' &&
		(p.named || !monotonic().MatchString(p.s[p.pos:]))
}

// token consumes one part of a frame, and returns its length: 0 if it is none.
func (p *parser) token(s string) int {
	for _, read := range [...]func(*parser, string) int{
		(*parser).priority, (*parser).hypervisor, (*parser).bracket, (*parser).record, (*parser).time, (*parser).container,
		(*parser).labels, (*parser).bar, (*parser).word,
	} {
		if n := read(p, s); n > 0 {
			return n
		}
	}
	return 0
}

// decide turns what was read into a writer.
func (p *parser) decide() {
	switch {
	case p.writer == program:
	case p.facility && !p.vm:
		p.writer = program
	case p.doubt, !p.wordsFit():
		p.writer = unclear
	case p.named && p.retimed:
		p.writer = unclear
	case p.named:
		p.writer = kernel
	case p.retimed:
		p.writer = program
	case p.name != "" && !machine(p.name) && !p.clocked:
		p.writer = unclear
	}
	if p.host == "" {
		p.host = p.machine()
	}
	p.log = p.log || p.clocked || p.named
}

// machine returns the machine that the bare words name.
func (p *parser) machine() string {
	switch {
	case p.name != "":
		return p.name
	case len(p.after) > 0:
		return p.after[0]
	case len(p.words) == 1 && strings.Trim(p.words[0], "0123456789") != "": // a number is one of a line
		return p.words[0]
	}
	return ""
}

// wordsFit reports whether the bare words may be names of machines, pods and containers: one before a time or two of
// which the first has the form of such a name, one behind it or two.
func (p *parser) wordsFit() bool {
	if len(p.words) > 2 || len(p.after) > 2 || slices.ContainsFunc(slices.Concat(p.words, p.after), isLevel) {
		return false
	}
	if len(p.words) > 0 && !machine(p.words[0]) && (len(p.words) == 2 || !(p.timed || p.clocked || p.named)) {
		return false
	}
	if len(p.words) == 2 && !(p.timed || p.clocked || p.named) && !machine(p.words[1]) && !isLog(p.words[1]) {
		return false
	}
	return len(p.after) < 2 || machine(p.after[1]) || isLog(p.after[1])
}

// layer begins a frame within a frame: what was said outside of it is about who carried the line.
func (p *parser) layer() {
	if p.host == "" {
		p.host = p.machine()
	}
	p.doubt = p.doubt || p.named || p.clocked || !p.wordsFit()
	p.timed, p.retimed, p.words, p.after, p.name = false, false, nil, nil, ""
}

// bracket parses "[...]": the kernel's time or caller, a time, the names that kubectl puts before a line, a machine.
func (p *parser) bracket(s string) int {
	if s[0] != '[' {
		return 0
	}
	inner, _, ok := strings.Cut(s[1:], "]")
	if !ok {
		return 0
	}
	n := len(inner) + 2
	if strings.HasPrefix(s[n:], ":") {
		n++
	}
	trimmed := strings.TrimSpace(inner)
	at, isUptime := kernelTime(inner)
	_, isDelta := kernelTime(strings.TrimLeft(strings.TrimLeft(trimmed, "<+"), " "))
	length, wall := 0, stamp{}
	if !isUptime && !isDelta {
		date, _, _ := strings.Cut(trimmed, "<") // dmesg -T -d
		trimmed = strings.TrimSpace(date)
		length, wall = timeAt(trimmed)
	}
	switch {
	case isUptime || isDelta:
		p.keepTime(at)
		p.clocked = true
		if isUptime {
			p.ticked, p.uptime = true, at.at
		}
	case isKernel(inner) && !p.clocked: // metalog
		p.named = true
	case caller(inner):
	case length > 0 && length == len(trimmed):
		p.keepTime(wall)
		p.clocked = p.clocked || len(p.after) == 0 // dmesg -T
	case strings.Contains(inner, "/") && isName(inner) && !p.named && !p.clocked:
		p.layer()
	case !p.named && !p.clocked && len(p.words)+len(p.after) == 0 && p.name == "" && machine(inner):
		p.name = inner
	default:
		return 0
	}
	return n
}

// records are copies of /dev/kmsg, and dmesg -x.
var records = sync.OnceValue(func() [2]*regexp.Regexp {
	return [...]*regexp.Regexp{
		regexp.MustCompile(`^(\d{1,5}),\d{1,20},(\d{1,18}),[^;]{0,100};`),
		regexp.MustCompile(`^(` + strings.Join(facilities, "|") + `) *: *` +
			`(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug) *: *`),
	}
})

// record parses the head of a copied record of /dev/kmsg, or facility and level of dmesg -x.
func (p *parser) record(s string) int {
	if part := records()[0].FindStringSubmatch(s[:min(len(s), 160)]); part != nil {
		p.facility = p.facility || num(part[1]) > 7
		at, _ := kernelTime(micro(part[2]))
		p.keepTime(at)
		p.log, p.clocked = true, true
		return len(part[0])
	}
	if part := records()[1].FindStringSubmatch(s[:min(len(s), 40)]); part != nil && !p.named && !p.clocked {
		p.facility = p.facility || part[1] != "kern"
		p.log = true
		return len(part[0])
	}
	return 0
}

// micro turns microseconds into the kernel's form of a time.
func micro(digits string) string {
	digits = strings.Repeat("0", max(7-len(digits), 0)) + digits
	return digits[:len(digits)-6] + "." + digits[len(digits)-6:]
}

// time parses a time without a bracket. The kernel puts its own between brackets: one that follows a name belongs to
// what that name wrote.
func (p *parser) time(s string) int {
	n, at := timeAt(s)
	if n == 0 {
		return 0
	}
	if p.named || p.clocked {
		p.doubt = true
	}
	switch {
	case len(p.after) == 1 && strings.Contains(p.after[0], "/"): // a stream of a log store
		p.layer()
	case len(p.after) > 0:
		p.retimed = true
	}
	p.keepTime(at)
	p.timed = true
	for n < len(s) && (s[n] == ':' || s[n] == ',') {
		n++
	}
	return n
}

// keepTime keeps a time: the first of each clock, and the wall's before the kernel's.
func (p *parser) keepTime(at stamp) {
	if at.at != 0 && (p.at.at == 0 || p.at.clock == Boot) {
		p.at = at
	}
}
