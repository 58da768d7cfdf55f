package kmsg

import "strings"

// uncoded are the driver's words for what it reports without a code, in lower case, most specific first. A "*" is
// what differs from line to line.
var uncoded = [...]struct {
	kind  Kind
	words string
	// follows is true for words that the driver prints after the report itself, which has more.
	follows bool
}{
	{Lost, "fallen off the bus", false},
	{Lost, "fell off the bus", false},
	{Lost, "gpu_is_lost", false},
	{Lost, "gpu is lost", false},
	{Lost, "gpu *:* is lost", false},
	{Lost, "gpu lost from the bus", false},
	{ResetRequired, "err_reset_required", false},
	{ResetRequired, "requires reset", false},
	{ResetRequired, "requires a reset", false},
	{ResetRequired, "reset required", false},
	{ResetRequired, "reset is required", false},
	{ResetRequired, "needs to be reset", false},
	{ResetRequired, "may need to be reset", false},
	{ResetRequired, "must be reset", false},
	{ResetRequired, "requiring os reboot", false},
	{InitFailed, "rminitadapter failed", false},
	{InitFailed, "rm_init_adapter*failed", true},
	{InitFailed, "gpu initialization failed", false},
	{InitFailed, "adapter initialization failed", false},
	{InitFailed, "failed to initialize the gpu", false},
	{InitFailed, "requires use of the nvidia open", false},
	{InitFailed, "assigned to your nvidia device is invalid", false},
	{InitFailed, "failed to allocate nvkmskapidevice", true},
	{InitFailed, "no nvidia gpu found", true},
	{InitFailed, "probe routine failed", true},
	{InitFailed, "none of the nvidia devices were initialized", true},
	{InitFailed, "none of the nvidia graphics adapters were initialized", true},
}

// mismatch is how the driver begins a line that has a text from a program: the version that a client claims.
const mismatch = "API mismatch"

// parseUncoded parses what follows "NVRM:" in a line without a code: "GPU 0000:91:00.0: GPU has fallen off the bus.".
// The device is "" if the line names none.
func parseUncoded(s string) (Line, bool) {
	if strings.HasPrefix(s, mismatch) {
		l := blank(Mismatch)
		l.Text = cut(strings.TrimRight(s, " \r"), maxText)
		return l, true
	}
	lower := strings.ToLower(s)
	for _, u := range uncoded {
		if !has(lower, u.words) {
			continue
		}
		l := blank(u.kind)
		l.Device, l.Text, l.Part = deviceIn(s), cut(essential(s), maxText), u.follows
		return l, true
	}
	return Line{}, false
}

// has reports whether s has the words, with any text in place of each "*".
func has(s, words string) bool {
	for part := range strings.SplitSeq(words, "*") {
		_, after, ok := strings.Cut(s, part)
		if !ok {
			return false
		}
		s = after
	}
	return true
}

// essential returns the words of a line without the places in the driver's source that differ from line to line, as in
// "nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62) returned from x @ y.c:1".
func essential(s string) string {
	for _, mark := range [...]string{"Assertion failed: ", "Check failed: "} {
		if _, after, ok := strings.Cut(s, mark); ok {
			s = after
			if head, _, ok := strings.Cut(s, "]"); ok && strings.Contains(head, "[") {
				return head + "]"
			}
		}
	}
	head, _, _ := strings.Cut(s, " @ ")
	return strings.TrimSpace(head)
}

// deviceIn returns the first PCI address that the words of a line name, "" if there is none. A GPU's id of 32 bits is
// its address, too.
func deviceIn(s string) string {
	words := strings.Fields(s)
	for i, word := range words {
		word = strings.Trim(word, "()[],;'")
		if id, ok := strings.CutPrefix(word, "0x"); ok && i >= 2 && words[i-1] == "ID" && words[i-2] == "[GPU" &&
			len(id) == 8 && hexes(id, 8) != "" {
			return address(id[:4] + ":" + id[4:6] + ":" + id[6:])
		}
		if strings.Count(word, ":") < 2 {
			continue
		}
		if d := address(strings.TrimRight(word, ":.")); d != "" {
			return d
		}
	}
	return ""
}

// uuidIn parses "GPU at PCI:0000:9b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d", which the driver prints once before
// the first error of a GPU.
func uuidIn(s string) (device, uuid string) {
	rest, ok := strings.CutPrefix(s, "GPU at ")
	if !ok {
		return "", ""
	}
	words := strings.Fields(rest)
	if len(words) != 2 || !isUUID(words[1]) {
		return "", ""
	}
	return deviceIn(words[0]), words[1]
}

// isUUID reports whether s is GPU- and a UUID.
func isUUID(s string) bool {
	id, ok := strings.CutPrefix(s, "GPU-")
	if !ok || len(id) != 36 {
		return false
	}
	for i := range len(id) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (id[i] == '-') || (!dash && hex(id[i]) < 0) {
			return false
		}
	}
	return true
}
