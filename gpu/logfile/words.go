package logfile

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// facilities of a syslog, by number.
var facilities = []string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
	"ftp", "ntp", "security", "console", "solaris-cron", "local0", "local1", "local2", "local3", "local4", "local5",
	"local6", "local7"}

// kernels are names under which logs have the kernel.
var kernels = []string{"kernel", "kern", "vmkernel", "vmkwarning", "vmunix", "klogd", "kmsg"}

// programs are names before ":" that have no number and are of no machine.
var programs = []string{"logger", "sudo", "su", "sshd", "cron", "crond", "systemd", "systemd-journald", "rsyslogd",
	"dockerd", "containerd", "kubelet", "bash", "sh", "zsh", "python", "python3", "audit", "auditd", "tee", "echo", "grep",
	"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-device-plugin", "dcgm", "dcgm-exporter", "nv-hostengine",
	"gpud", "node-problem-detector", "dbus-daemon", "networkmanager"}

// levels are words of programs' loggers.
var levels = []string{"error", "err", "warn", "warning", "info", "debug", "notice", "crit", "critical", "fatal",
	"trace", "alert", "emerg", "panic"}

// logs are names of containers and units that pass a kernel log on.
var logs = []string{"dmesg", "journal", "journalctl", "syslog", "kmsg", "kernel", "kern", "klog"}

// streams are what tools that run commands on machines put behind the machine's name.
var streams = []string{"out", "err", "stdout", "stderr"}

func isLevel(w string) bool   { return slices.Contains(levels, lower(w)) }
func isLog(w string) bool     { return slices.Contains(logs, lower(w)) }
func isKernel(w string) bool  { return slices.Contains(kernels, lower(w)) }
func isProgram(w string) bool { return slices.Contains(programs, lower(w)) }

// machine reports whether a word has the form of a machine's or a pod's name, which no word of a sentence has.
func machine(w string) bool { return isName(w) && strings.ContainsAny(w, "0123456789-_.") }

// isName reports whether s may be a name of a machine, a pod, a container or a file.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-_./@:", c) < 0 &&
			c < 0x80 {
			return false
		}
	}
	return s != "" && len(s) <= 253
}

// isFile reports whether a name is one of a log file, as grep prints it.
func isFile(s string) bool {
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || s == "(standard input)" {
		return true
	}
	base := s[strings.LastIndexByte(s, '/')+1:]
	for _, end := range [...]string{".log", ".txt", ".gz", ".out", ".xz", ".bz2", ".zst", ".1", ".2", ".3", ".4"} {
		if strings.HasSuffix(base, end) {
			return true
		}
	}
	return slices.Contains([]string{"messages", "syslog", "dmesg", "kern", "-"}, base)
}

// wrote takes a name that the log gives as the writer: "kernel", "tenant[77]".
func (p *parser) wrote(name string) {
	bare, _, _ := strings.Cut(name, "[")
	if isKernel(bare) {
		p.named = true
		p.vm = p.vm || strings.HasPrefix(lower(bare), "vmk")
		return
	}
	p.writer = program
}

// process is a program with its number: "sudo[77]:", "init.scope/systemd[1]:".
var process = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([^\s:\[\]"'{}]{1,128})\[(?:\d{1,10}|-)\]:?$`)
})

// headless is what follows the program in RFC 5424 where a relay has dropped the priority.
var headless = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ (?:-|\d{1,10}) (?:-|[!-~]{1,32}) - `) })

// monotonic is what follows the time in journalctl -o short-monotonic: a machine and a writer.
var monotonic = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[^\s:\[\]"'{}]{1,253} (?:kernel|[^\s:\[\]"'{}]{1,128}\[\d{1,10}\]):`)
})

// klog is the head of the lines of many programs written in Go: "W1120 10:00:00.000000".
var klog = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[IWEF][01]\d[0-3]\d$`)
})

// word parses what ends at a blank: a name, alone or with ":".
func (p *parser) word(s string) int {
	w := s
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		w = s[:i]
	}
	if p.tokens == 0 || p.onlyNames() {
		if n := p.glued(w); n > 0 {
			return n
		}
	}
	name, colon := strings.CutSuffix(w, ":")
	part := process().FindStringSubmatch(w)
	switch {
	case part != nil && isKernel(part[1]):
		p.named = true
	case part != nil:
		p.writer, p.log = program, p.log || p.timed
	case colon && name == "login" && len(p.words) == 1 && !p.timed: // a console that waits
	case colon && (p.level(name) || (p.name != "" && slices.Contains(streams, name))):
	case !isName(name):
		return 0
	case isKernel(name) && (colon || !p.clocked):
		p.wrote(name)
		if part := headless().FindString(s[len(w):]); part != "" && !colon && p.timed {
			return len(w) + len(part)
		}
	case p.busybox(name):
	case colon:
		return p.tag(name, w)
	case klog().MatchString(name) && p.tokens == 0:
		p.writer = program
	case p.clocked && !p.named && len(p.after) == 0 && monotonic().MatchString(s):
		p.after = append(p.after, name)
	case p.named || p.clocked:
		return 0
	case p.timed:
		p.after = append(p.after, name)
	default:
		p.words = append(p.words, name)
	}
	return len(w)
}

// onlyNames reports whether this layer has nothing but one name yet.
func (p *parser) onlyNames() bool {
	return p.name == "" && !p.timed && !p.named && !p.clocked && len(p.words) == 0
}

// level takes the level that some kernels' logs put behind the writer: "kern: warning:", "cpu3:77)WARNING:".
func (p *parser) level(name string) bool { return p.named && isLevel(name) }

// busybox takes "kern.err", the facility and level of busybox's syslogd.
func (p *parser) busybox(name string) bool {
	facility, level, ok := strings.Cut(name, ".")
	if !ok || !isLevel(level) || !slices.Contains(facilities, facility) {
		return false
	}
	p.facility = p.facility || facility != "kern"
	return true
}

// tag takes a name with ":" that has no number: behind time and machine it is a program; at the begin, a machine or a
// program; elsewhere it could be either.
func (p *parser) tag(name, w string) int {
	switch {
	case isProgram(name), p.timed && len(p.after) > 0 && !p.named && !p.clocked:
		p.writer, p.log = program, p.log || p.timed
	case p.onlyNames() && isFile(name):
	case p.onlyNames():
		p.name = name
	default:
		return 0
	}
	return len(w)
}

// glued takes what is before a line without a blank between: grep's file and number, a machine.
func (p *parser) glued(w string) int {
	if name, rest, ok := strings.Cut(w, ":"); ok && rest != "" {
		switch {
		case strings.Trim(name, "0123456789") == "" && name != "", isFile(name):
			return len(name) + 1
		case p.name == "" && machine(name) && !isProgram(name) && strings.IndexByte("[<{\"", rest[0]) >= 0:
			p.name = name
			return len(name) + 1
		}
	}
	for i := range len(w) { // the lines around a match
		if w[i] == '-' && isFile(w[:i]) && strings.Contains(w[:i], ".") {
			digits := strings.TrimLeft(w[i+1:], "0123456789")
			if strings.HasPrefix(digits, "-") && len(digits) < len(w[i+1:]) {
				return len(w) - len(digits) + 1
			}
			return i + 1
		}
	}
	return 0
}

// container parses what container runtimes put between their time and the line: "stdout F ".
func (p *parser) container(s string) int {
	for _, stream := range [...]string{"stdout ", "stderr "} {
		rest, ok := strings.CutPrefix(s, stream)
		if !ok || rest == "" || (rest[0] != 'F' && rest[0] != 'P') || !p.timed || len(p.after) > 0 {
			continue
		}
		tags, _, ok := strings.Cut(rest, " ")
		if !ok {
			tags = rest
		}
		if len(tags) == 1 || tags[1] == ':' {
			p.layer()
			return len(stream) + len(tags)
		}
	}
	return 0
}

// labels parses what logcli puts before a line: {job="x", node="gpu-7"}.
func (p *parser) labels(s string) int {
	if s[0] != '{' || p.named || p.clocked {
		return 0
	}
	var f fields
	rest := s[1:]
	for {
		rest = strings.TrimLeft(rest, " ,")
		if strings.HasPrefix(rest, "}") {
			break
		}
		key, after, ok := strings.Cut(rest, "=")
		if !ok || !isName(key) {
			return 0
		}
		value, n := unquote(after)
		if n == 0 {
			return 0
		}
		f.add(key, value)
		rest = after[n:]
	}
	switch f.writer() {
	case program:
		p.writer = program
	case kernel:
		defer func() { p.named = true }()
	}
	p.layer()
	if h := f.host(); h != "" {
		p.host = h
	}
	return len(s) - len(rest) + 1
}

// hypervisors are the heads of ESXi's and Xen's lines, and of MPI's.
var hypervisors = sync.OnceValue(func() [4]*regexp.Regexp {
	return [...]*regexp.Regexp{
		regexp.MustCompile(`^cpu\d{1,4}:\d{1,12}(?: opid=[^\s)]{1,64})?\)`),
		regexp.MustCompile(`^(?:In|Wa|Er|No|Db|Al|Em|Cr)\(\d{1,3}\)(?:\[[+-]?\])? ?`),
		regexp.MustCompile(`^\((?:XEN|d\d{1,5})\) ?`),
		regexp.MustCompile(`^\[\d{1,6},\d{1,6}\]<std(?:out|err)>:? ?`), // mpirun --tag-output
	}
})

// hypervisor parses "cpu34:2101234)", the level "In(182)" of ESXi 8, and "(d7)", the console of a guest of Xen.
func (p *parser) hypervisor(s string) int {
	for i, re := range hypervisors() {
		if n := len(re.FindString(s[:min(len(s), 100)])); n > 0 {
			if i == 0 {
				p.named, p.vm = true, true
			}
			return n
		}
	}
	return 0
}

// bar parses "|", which separates a container's name from its line.
func (p *parser) bar(s string) int {
	if s[0] != '|' || len(p.words)+len(p.after) > 1 || (p.tokens > 0 && len(p.words) == 0 && p.name == "") {
		return 0
	}
	if len(p.words) == 1 { // whatever its form
		p.host, p.words = p.words[0], nil
	}
	p.layer()
	return 1
}
