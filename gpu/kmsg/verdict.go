package kmsg

import "strings"

// Severities, as the driver's words are kept: it writes Nonfatal, Non-fatal and others.
const (
	Fatal       = "Fatal"
	Nonfatal    = "Non-fatal"
	AlwaysFatal = "Always fatal"
)

// What the driver itself has in a line about a reset, where the line has it.
const (
	ResetNone  = "none"
	ResetGPU   = "gpu_reset"       // RST: Yes
	ResetDrain = "drain_and_reset" // D-RST: Yes: once the GPU's present work has ended

	ResetUnknown = "unknown" // words that this version does not know, or that are cut off
)

// Verdict is what the driver's own words in a line decide. Words that a line does not have are "".
type Verdict struct {
	Severity string // of an SXID and of an error of NVLink 5
	Reset    string
	Unit     string // of NVLink 5: the unit that reported it, as RLW_REMAP
	Link     int    // of NVLink or of the switch; Absent if the line names none
	// Status are the registers or status words, as 0x... separated by a blank. Drivers from 575 on lay out those of
	// NVLink 5 otherwise than drivers before.
	Status   string
	Injected bool // the driver's mark of an error that was injected for a test
}

// Codes whose text has a form of its own.
const (
	nvlinkCode      = 74
	lostCode        = 79
	containedCode   = 94
	uncontainedCode = 95
	firstNVLink5    = 144
	lastNVLink5     = 150
	recoveryCode    = 154
)

// maxStatusWords is how many status words are kept. The driver prints at most nine.
const maxStatusWords = 12

// VerdictOf parses the text of an XID, without process and cause. A process's name may end up in the text, so nothing
// counts that fits into one.
func VerdictOf(code int, text string) Verdict {
	v := Verdict{Link: Absent}
	v.Reset = resetOf(code, text)
	five := code >= firstNVLink5 && code <= lastNVLink5
	if v.nvlink5(text, five) || five {
		return v
	}
	switch code {
	case nvlinkCode:
		v.Link, v.Status = linkOf(text), statusWords(text, "(", ")")
	case 136, 137, 155: // training, privilege and software errors of NVLink
		v.Link = linkOf(text)
		if unit, _, ok := strings.Cut(text, " interrupt hit "); ok && isUnit(unit) {
			v.Unit = unit
		}
	}
	return v
}

// resetOf parses "RST: No, D-RST: Yes", with which a text about a contained or uncontained error ends. Of these two
// codes, the first half is enough: the line may be cut off.
func resetOf(code int, text string) string {
	const mark = "RST:"
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return ""
	}
	reset, drain := yes(text[i+len(mark):]), ""
	if head, found := strings.CutSuffix(text[:i], "D-"); found && strings.Contains(head, mark) {
		drain, reset = reset, yes(head[strings.LastIndex(head, mark)+len(mark):])
	} else if code != containedCode && code != uncontainedCode {
		return ""
	}
	switch {
	case reset == "yes":
		return ResetGPU
	case reset == "no" && drain == "yes":
		return ResetDrain
	case reset == "no" && drain == "no":
		return ResetNone
	}
	return ResetUnknown
}

// yes returns "yes" or "no" if s begins with that word and a comma or the end follows.
func yes(s string) string {
	s, _, _ = strings.Cut(s, ",")
	switch s = strings.ToLower(strings.Trim(s, " .\r")); s {
	case "yes", "no":
		return s
	}
	return ""
}

// nvlink5 parses "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)". XC tells whether the error is contained
// to this GPU, i whether it was injected; "cross-contain=0, injected=0," are in use for them. Of a code that is known
// to have this form, a part of it is enough. What is behind the last comma counts: a part of a process's name may be
// before it.
func (v *Verdict) nvlink5(text string, known bool) bool {
	if i := strings.LastIndex(text, ", "); i >= 0 && v.nvlink5Words(text[i+2:], known) && v.Severity != "" {
		return true
	}
	return v.nvlink5Words(text, known)
}

func (v *Verdict) nvlink5Words(text string, known bool) bool {
	unit, rest, _ := strings.Cut(text, " ")
	unit = strings.TrimRight(unit, ",:")
	if !isUnit(unit) {
		if !known {
			return false
		}
		unit, rest = "", text
	}
	word, rest := severity(strings.TrimLeft(rest, " "))
	marks := strings.Fields(rest)
	marked := word != "" && len(marks) >= 3 && strings.HasPrefix(marks[0], "XC") && len(marks[1]) == 2 &&
		marks[1][0] == 'i' && marks[2] == "Link" // longer than a process's name
	if !marked && !known {
		return false
	}
	v.Unit, v.Severity = cut(unit, maxUnit), word
	v.Injected = (marked && marks[1] == "i1") || (!marked && word != "" && strings.Contains(rest, " injected=1,"))
	v.Link, v.Status = linkOf(rest), statusWords(rest, "(", ")")
	return true
}

// isUnit reports whether s is the name of a unit of the hardware, which is in capitals, as NETIR/NETIR_INT is.
func isUnit(s string) bool {
	if len(s) < 2 || len(s) > maxUnit {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '_' && c != '/' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// linkOf returns the first number behind the word link; Absent if there is none, or if it is -1.
func linkOf(text string) int {
	lower := strings.ToLower(text)
	for from := 0; ; {
		i := strings.Index(lower[from:], "link ")
		if i < 0 {
			return Absent
		}
		from += i + len("link ")
		if before := from - len("link ") - 1; before >= 0 && !strings.ContainsRune(" ,(:", rune(lower[before])) {
			continue // another word's end
		}
		if n, _ := decimal(strings.TrimLeft(lower[from:], " ")); n >= 0 && n <= maxLink {
			return n
		}
	}
}

// statusWords returns the hexadecimal words between the last open and the next end, which may be cut off.
func statusWords(text, open, end string) string {
	i := strings.LastIndex(text, open)
	if i < 0 {
		return ""
	}
	inner, _, _ := strings.Cut(text[i+len(open):], end)
	var words []string
	for word := range strings.FieldsFuncSeq(inner, func(r rune) bool { return r == ',' || r == ' ' }) {
		digits, ok := strings.CutPrefix(word, "0x")
		if !ok || hexes(digits, 16) == "" || len(words) == maxStatusWords {
			break
		}
		words = append(words, word)
	}
	return cut(strings.Join(words, " "), maxStatus)
}

// recovery parses the action that the driver now requests from the text of an XID 154: "... changed from 0x0 (None) to
// 0x2 (Node Reboot Required)". Either of number and words is enough. Absent if neither is known, or if the number for
// no action has words of another one.
func recovery(text string) int {
	lower := strings.ToLower(text)
	_, after, ok := strings.Cut(lower, "recovery action changed ")
	if !ok {
		return Absent
	}
	if _, to, found := strings.Cut(" "+after, " to "); found {
		after = to
	} else {
		return Absent
	}
	after = strings.TrimLeft(after, " ")
	n, words := action(after)
	isHex := strings.HasPrefix(after, "0x")
	words = strings.Trim(words, " ().\r")
	named, known := actions[words]
	switch {
	case n == Absent && known:
		return named
	case n == 0 && words == "" && (strings.Contains(lower, "(") || strings.Contains(lower, "0x") != isHex):
		return Absent // cut off: words or digits should follow
	case n == 0 && words != "" && (!known || named != 0):
		return Absent
	}
	return n
}

// actions are the driver's words for its recovery actions, and other words in use for them.
var actions = map[string]int{
	"none": 0, "gpu reset required": 1, "gpu reset": 1, "reset gpu": 1, "reset": 1,
	"node reboot required": 2, "node reboot": 2, "os reboot": 2, "reboot": 2, "reboot node": 2,
	"drain p2p": 3, "drain and reset": 4, "recover imex domain": 5,
}

// action parses "0x2 (words)", "2 (words)" or "words".
func action(s string) (n int, words string) {
	digits, isHex := strings.CutPrefix(s, "0x")
	if !isHex {
		if n, rest := decimal(s); n >= 0 && (rest == "" || rest[0] == ' ' || rest[0] == '(') {
			return n, rest
		}
		return Absent, s
	}
	i := 0
	for i < len(digits) && i < 7 && hex(digits[i]) >= 0 {
		n = n<<4 | hex(digits[i])
		i++
	}
	if i == 0 || i == 7 {
		return Absent, strings.TrimLeft(digits, "0123456789abcdef")
	}
	return n, digits[i:]
}
