package logfile

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
)

func itoa(n int) string { return strconv.Itoa(n) }

// hints are parts of the driver's words, in every case that is seen; a line without any of them cannot be marked.
var hints = [...]string{"NVRM", "nvrm", "Nvrm", "Xid", "xid", "XID", "nvswitch", "allen off", "ALLEN OFF",
	"GPU is lost", "gpu is lost", "GPU IS LOST", "nvidia-modeset:", "nv_drm", "nvidia-drm", "nit_adapter", "nitAdapter",
	"RESET_REQUIRED"}

// hinted reports whether it is worth looking for the driver's words.
func hinted(line []byte) bool {
	for _, h := range hints {
		if bytes.Contains(line, []byte(h)) {
			return true
		}
	}
	return false
}

// Marked reports whether text has words by which the driver reports an error, in whatever case and spacing, and
// whether or not the rest of it can be parsed.
func Marked(text string) bool { return markedAt(text) >= 0 }

// markedAt returns where the first of those words begins, -1 without one.
func markedAt(text string) int {
	low := lower(text)
	best := -1
	note := func(i int) {
		if i >= 0 && (best < 0 || i < best) {
			best = i
		}
	}
	note(xidAt(low))
	for _, words := range [...][]string{{"fallen", "off", "the", "bus"}, {"gpu", "is", "lost"},
		{"rminitadapter", "failed"}, {"rm_init_adapter", "failed"}, {"nv_err_reset_required"},
		{"gpu", "is", "probably", "locked"}, {"timeout", "waiting", "for", "rpc"}, {"gsp", "rpc", "timeout"},
		{"fell", "off", "the", "bus"}, {"uncorrectable", "ecc", "error"}, {"nv_err_gpu_in_fullchip_reset"}} {
		note(phraseAt(low, words))
	}
	return best
}

// xidAt finds "NVRM: Xid", "SXid (" and "Xid (PCI" in lower case. Other things are called XID as well: transactions of
// DHCP, chips of network cards.
func xidAt(low string) int {
	for from := 0; ; {
		i := strings.Index(low[from:], "xid")
		if i < 0 {
			return -1
		}
		i += from
		from = i + len("xid")
		before, after := low[:i], strings.TrimLeft(low[from:], " \t:")
		if j := strings.LastIndex(before, "nvrm"); j >= 0 && i-j < 12 && strings.Trim(before[j+4:], " \t:;,-=s") == "" {
			return j
		}
		if strings.HasPrefix(after, "(pci") || strings.HasPrefix(after, "pci:") {
			return begin(low, i)
		}
		if strings.HasSuffix(before, "s") && (strings.HasPrefix(after, "(") || strings.Contains(before, "nvswitch")) {
			return begin(low, i)
		}
	}
}

// begin returns where the driver's text begins whose word "xid" is at i.
func begin(low string, i int) int {
	if j := strings.LastIndex(low[:i], "nvidia-nvswitch"); j >= 0 && i-j < 40 {
		return j
	}
	if i > 0 && low[i-1] == 's' {
		return i - 1
	}
	return i
}

// phraseAt finds words that only blanks separate.
func phraseAt(low string, words []string) int {
	for from := 0; ; {
		i := strings.Index(low[from:], words[0])
		if i < 0 {
			return -1
		}
		i += from
		from = i + len(words[0])
		rest, ok := low[from:], true
		for _, w := range words[1:] {
			trimmed := strings.TrimLeft(rest, " \t\r\n")
			if rest, ok = strings.CutPrefix(trimmed, w); !ok {
				break
			}
		}
		if ok {
			return i
		}
	}
}

// lower is strings.ToLower for ASCII alone, so that offsets stay.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// driverAt returns where a driver's text begins: at its name or, without that, at its words; -1 without either.
func driverAt(line string) int {
	best := -1
	for _, name := range kmsg.Marks {
		if i := strings.Index(line, name); i >= 0 && (best < 0 || i < best) {
			best = i
		}
	}
	if m := markedAt(line); best < 0 || (m >= 0 && m < best) {
		best = m
	}
	return best
}

// escapes are the forms in which the control character ESC is written as text.
var escapes = [...]string{"\x1b", "^[", "ESC", "#033", `\x1b`, `\x1B`, `\033`, `\u001b`, `\u001B`, `\e`, "\u241b"}

// plain removes what terminals take as commands (colours, titles), and control characters. Text forms of ESC count
// only before "[".
func plain(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b\b\a\f\v\x00\u241b\r") && !strings.Contains(s, "[") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if n := command(s[i:]); n > 0 {
			i += n
			continue
		}
		switch c := s[i]; {
		case c == '\b': // what is struck over
			out = out[:max(len(out)-1, 0)]
		case c >= ' ' || c == '\t' || c == '\n':
			out = append(out, c)
		}
		i++
	}
	return string(out)
}

// command returns the length of a terminal's command at the begin of s, 0 without one.
func command(s string) int {
	switch s[0] {
	case 0x1b, '^', 'E', '#', '\\', 0xe2, 0xc2:
	default:
		return 0
	}
	if strings.HasPrefix(s, "\u009b") {
		return len("\u009b") + csi(s[len("\u009b"):])
	}
	for _, esc := range escapes {
		rest, ok := strings.CutPrefix(s, esc)
		if !ok {
			continue
		}
		if after, ok := strings.CutPrefix(rest, "["); ok {
			if n := csi(after); n > 0 {
				return len(esc) + 1 + n
			}
		}
		if esc == "\x1b" {
			return 1 + other(rest)
		}
	}
	return 0
}

// csi returns the length of parameters and final byte.
func csi(s string) int {
	for i := range min(len(s), 32) {
		switch c := s[i]; {
		case c >= '@' && c <= '~':
			return i + 1
		case c < ' ' || c > '?':
			return 0
		}
	}
	return 0
}

// other returns the length of what follows ESC in a command other than csi: a title up to BEL or ST, a set of
// characters, or one letter.
func other(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == ']' || s[0] == 'P' || s[0] == '_' || s[0] == '^':
		if i := strings.IndexAny(s, "\a\x1b"); i >= 0 {
			if strings.HasPrefix(s[i:], "\x1b\\") {
				return i + 2
			}
			return i + 1
		}
		return 1
	case strings.IndexByte("()*+#%", s[0]) >= 0 && len(s) > 1:
		return 2
	}
	return 1
}
