package logfile

import (
	"bytes"
	"strings"
)

// jsonStart returns where JSON begins in a line that has nothing else before it, -1 without: "data: " of server-sent
// events and the separator of json-seq are passed over.
func jsonStart(b []byte) int {
	if c := b[0]; c > ' ' && c != '{' && c != '[' && c != 'd' && c != 0xef {
		return -1
	}
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(b, " \t\x1e\ufeff"), []byte("data: ")), " \t")
	if len(trimmed) == 0 || (trimmed[0] != '{' && trimmed[0] != '[') {
		return -1
	}
	rest := bytes.TrimLeft(trimmed[1:], " \t")
	if len(rest) == 0 || rest[0] == '"' || rest[0] == '{' || (trimmed[0] == '{' && rest[0] == '}') {
		return len(b) - len(trimmed)
	}
	return -1
}

// object reads JSON that begins with b, and may go on in the lines that follow.
func (r *reader) object(b []byte, goesOn bool, ctx context) {
	if !goesOn && r.skippable(b) {
		return
	}
	r.outer = ctx
	r.json = &jsonParser{
		done: func(texts []waiting, f *fields) {
			r.log.Kernel = r.log.Kernel || f.get("_transport", "syslog_identifier", "__realtime_timestamp") != "" || isDmesg(f)
			r.named(texts, f, r.outer)
		},
		lost: r.lostText,
	}
	if !r.feed(b) {
		r.plainText(b)
	}
}

// isDmesg reports whether a record is one of dmesg -J, or one of a log whose text has the kernel's frame.
func isDmesg(f *fields) bool {
	_, ok := kernelTime(f.get("time"))
	if ok && f.get("msg") != "" {
		return true
	}
	text := f.get("message", "msg", "log", "line", "_raw")
	return text != "" && frameOf(plain(text), -1, false).log
}

// skippable reports whether a line of JSON that is whole says nothing of the driver and begins no boot.
func (r *reader) skippable(b []byte) bool {
	has := &r.in.has
	if !r.log.Kernel || b[len(b)-1] != '}' || (has.hint && hinted(b)) ||
		(has.banner && bytes.Contains(b, []byte(banner))) || (has.escape && bytes.Contains(b, []byte(`\u00`))) ||
		bytes.Contains(b, []byte(`"MESSAGE":[`)) || bytes.Contains(b, []byte(`"MESSAGE" : [`)) {
		return false
	}
	i := bytes.Index(b, []byte(`"_BOOT_ID"`))
	if i < 0 {
		return true
	}
	for _, host := range r.boots.order { // a known ID begins no boot, unless machines share the file
		if id := r.boots.hosts[host].boot; len(r.boots.order) == 1 && id != "" &&
			bytes.Contains(b[i:min(len(b), i+60)], []byte(id)) {
			return true
		}
	}
	return false
}

// feed gives a part of the file to the JSON that has begun. It returns false if the part is none of it.
func (r *reader) feed(b []byte) bool {
	begin := len(b)
	for len(b) > 0 {
		used := r.json.feed(b, r.n)
		if r.json.failed {
			r.json.end()
			r.json = nil
			if len(b) == begin { // it may be a line like others
				return false
			}
			r.plainText(b)
			return true
		}
		b = b[used:]
		if r.json.deep() {
			return true
		}
		b = bytes.TrimLeft(b, ", \t\r\n\x1e")
		if len(b) > 0 && b[0] != '{' && b[0] != '[' {
			r.json = nil
			r.plainText(b)
			return true
		}
	}
	if r.json != nil && !r.json.deep() {
		r.json = nil
	}
	return true
}

// plainText lists what was taken for JSON and is none, if the driver's words are in it.
func (r *reader) plainText(b []byte) {
	if hinted(b) {
		r.lostText(waiting{r.n, "", string(b)})
	}
}

// ansible notes the machine that ansible names before its results: "gpu-7 | CHANGED | rc=0 >>", "ok: [gpu-7] => {".
func (r *reader) ansible(line string) {
	if name, rest, ok := strings.Cut(line, " | "); ok && isName(name) {
		if rest != "" && (strings.HasPrefix(rest, "CHANGED") || strings.HasPrefix(rest, "SUCCESS") ||
			strings.HasPrefix(rest, "FAILED")) {
			r.host = name
		}
		return
	}
	if _, rest, ok := strings.Cut(line, ": ["); ok && strings.HasSuffix(line, "=> {") {
		if name, _, ok := strings.Cut(rest, "]"); ok && isName(name) {
			r.host = name
		}
	}
}

// part is the begin of a line that a container's runtime has split.
type part struct {
	line int
	text string
}

// maxParts bounds the streams whose lines are split at the same time.
const maxParts = 16

// join puts lines together that a container's runtime has split: "TIME stdout P TEXT" until "TIME stdout F TEXT". It
// returns nil while the end is not there.
func (r *reader) join(b []byte) []byte {
	for _, stream := range [...]string{" stdout ", " stderr "} {
		i := bytes.Index(b[:min(len(b), 80)], []byte(stream))
		if i < 0 || len(b) < i+len(stream)+1 {
			continue
		}
		tag, text := b[i+len(stream)], b[min(len(b), i+len(stream)+2):]
		key := stream
		p := r.partial[key]
		switch {
		case tag == 'P' && p == nil && len(r.partial) < maxParts:
			if n, _ := timeAt(string(b[:i])); n != i {
				return b
			}
			if r.partial == nil {
				r.partial = map[string]*part{}
			}
			r.partial[key] = &part{r.n, string(b)}
			return nil
		case p != nil && (tag == 'P' || tag == 'F'):
			if len(p.text) < maxLine {
				p.text += string(text)
			} else {
				r.plainText(text)
			}
			if tag == 'P' {
				return nil
			}
			delete(r.partial, key)
			return []byte(p.text)
		}
	}
	return b
}

// begins of lines that kernels print, for a log without times.
var kernelLines = [...]string{"Linux version ", "Command line:", "BIOS-", "ACPI: ", "ACPI BIOS", "pci 0000:",
	"pci_bus ",
	"pcieport ", "usb ", "usbcore:", "EXT4-fs ", "XFS (", "audit: ", "nvidia", "NVRM:", "mlx5_core ", "IPv6: ", "IPv4: ",
	"x86/", "SMP: ", "smpboot:", "rcu: ", "NET: Registered", "Memory: ", "Call Trace:", "RIP: ", "CPU: "}

// recognize notes whether the file looks like a kernel log at all: not every line of a long file is looked at.
func (r *reader) recognize(b []byte) {
	if r.log.Kernel || (r.n > 2000 && r.n%256 != 0) {
		return
	}
	s := plain(string(b[:min(len(b), 512)]))
	if frameOf(s, -1, false).log {
		r.log.Kernel = true
		return
	}
	for _, begin := range kernelLines {
		if strings.HasPrefix(s, begin) {
			r.log.Kernel = true
			return
		}
	}
}
