package kmsg

import (
	"strconv"
	"strings"
)

// Limits of places: bytes of one, and number in one text.
const (
	maxPlace  = 64
	maxPlaces = 32
)

// separator is between the texts of the lines that report one fault.
const separator = "; "

// Places returns the parts of the hardware that the text of an XID or SXID names, each once, in the driver's words with
// the same spelling for the same part: "GPC 1, TPC 4, SM 0", "GPC 1, GPCCLIENT_T1_8", "link 8", "partition 5,
// subpartition 0", "row 0x00000000c5aa". A fault that repeats at one place points to the hardware.
func Places(code int, text string) (all []string) {
	for part := range strings.SplitSeq(text, separator) {
		place := cut(placeIn(code, part), maxPlace)
		known := place == "" || len(all) == maxPlaces
		for _, other := range all {
			known = known || other == place
		}
		if !known {
			all = append(all, place)
		}
	}
	return all
}

// placeIn returns the place that one line's text names, or "".
func placeIn(code int, text string) string {
	switch code {
	case 31:
		return mmuPlace(text)
	case 63, 64:
		return rowPlace(text)
	case containedCode, uncontainedCode:
		return containedPlace(text)
	}
	if place := clusterPlace(text); place != "" {
		return place
	}
	if place := partitionPlace(text); place != "" {
		return place
	}
	if n := linkOf(text); n != Absent {
		return "link " + strconv.Itoa(n)
	}
	return ""
}

// clusterPlace parses "on (GPC 1, TPC 4, SM 0)" and "on GPC 0".
func clusterPlace(text string) string {
	_, after, ok := strings.Cut(text, " on ")
	if !ok {
		return ""
	}
	after = strings.TrimPrefix(after, "(")
	var words []string
	for _, unit := range [...]string{"GPC ", "TPC ", "SM "} {
		v, ok := strings.CutPrefix(strings.TrimLeft(after, ", "), unit)
		if !ok {
			break
		}
		n, rest := decimal(v)
		if n == Absent {
			break
		}
		words, after = append(words, unit+strconv.Itoa(n)), rest
	}
	return strings.Join(words, ", ")
}

// mmuPlace parses "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x7f".
func mmuPlace(text string) string {
	_, after, ok := strings.Cut(text, "MMU Fault: ENGINE ")
	if !ok {
		return ""
	}
	unit, _, ok := strings.Cut(after, " faulted")
	words := strings.Fields(unit)
	if !ok || len(words) < 2 || len(words) > 3 {
		return ""
	}
	client := words[len(words)-1]
	if cluster, ok := strings.CutPrefix(words[1], "GPC"); ok && len(words) == 3 {
		if n := whole(cluster); n != Absent {
			return "GPC " + cluster + ", " + client
		}
	}
	return client
}

// partitionPlace parses "at partition 5, subpartition 0".
func partitionPlace(text string) string {
	const word, sub = "partition ", "subpartition "
	i := strings.Index(text, word)
	if i < 0 || strings.HasSuffix(text[:i], "sub") {
		return ""
	}
	v := text[i+len(word):]
	n, rest := decimal(v)
	if n == Absent {
		return ""
	}
	place := word + strconv.Itoa(n)
	if v, ok := strings.CutPrefix(strings.TrimLeft(rest, ", "), sub); ok {
		if n, _ := decimal(v); n != Absent {
			place += ", " + sub + strconv.Itoa(n)
		}
	}
	return place
}

// rowPlace parses the row or page of "New row (0x00000000c5aa) marked for remapping".
func rowPlace(text string) string {
	i := strings.Index(text, "(0x")
	if i < 0 {
		return ""
	}
	digits, _, ok := strings.Cut(text[i+len("(0x"):], ")")
	if !ok || hexes(digits, 16) == "" {
		return ""
	}
	if strings.Contains(strings.ToLower(text), "page") {
		return "page 0x" + strings.ToLower(digits)
	}
	return "row 0x" + strings.ToLower(digits)
}

// containedPlace parses the unit of "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No".
func containedPlace(text string) string {
	_, unit, ok := strings.Cut(text, "ontained: ")
	if !ok {
		return ""
	}
	unit, _, _ = strings.Cut(unit, ". RST")
	unit = strings.TrimRight(unit, " .")
	if strings.Contains(unit, "Channel") { // of a program, not a part of the hardware
		return ""
	}
	return unit
}
