package probe

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// journalText bounds the lines of one answer together, and journalLine one of them: an answer travels as one line
	// of the protocol.
	journalText, journalLine = 1 << 20, 4 << 10
	privateKeyBegin          = "-----BEGIN "
	privateKeyEnd            = "-----END "
)

// scrubLines cuts and scrubs lines, newest first, and returns them oldest first. What does not fit is the oldest.
func scrubLines(lines []diag.JournalLine, j *diag.JournalFacts) []diag.JournalLine {
	n, size := 0, 0
	for ; n < len(lines); n++ {
		l := &lines[n]
		l.Text, j.Truncated = clipLine(l.Text, j.Truncated)
		if size += len(l.Text); size > journalText {
			j.Truncated = true
			break
		}
	}
	kept := make([]diag.JournalLine, n)
	for i := range kept {
		kept[i] = lines[n-1-i]
	}
	counts := map[string]int{}
	ScrubLines(kept, counts)
	if len(counts) > 0 {
		j.Redacted = counts
	}
	return kept
}

// ScrubLines scrubs the lines of one log, oldest first, in place, and adds to counts what each rule took out. The ids in
// them stay. A private key that was logged line by line is taken out as a whole.
func ScrubLines(lines []diag.JournalLine, counts map[string]int) {
	left := 0
	for i := range lines {
		lines[i].Text, left = scrubLine(lines[i].Text, left, counts)
	}
}

// keyLines is how many lines a private key has at most; a begin without an end takes no more with it.
const keyLines = 64

// clipLine makes one clean line of a text: no control characters, at most journalLine bytes.
func clipLine(s string, truncated bool) (string, bool) {
	if len(s) > journalLine {
		s, truncated = s[:journalLine]+" ...", true
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s, truncated
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?")), truncated
}

// scrubLine scrubs one line. left is of how many lines, from this one on, a private key may still be.
func scrubLine(s string, left int, counts map[string]int) (string, int) {
	if left > 0 {
		if strings.Contains(s, privateKeyEnd) {
			left = 1
		}
		counts[redactionNames[0]]++
		return diag.Redacted, left - 1
	}
	if begin, _ := pemLine(s, 0, privateKeyBegin); begin >= 0 {
		if end, _ := pemLine(s, begin, privateKeyEnd); end < 0 {
			left = keyLines
		}
	}
	hidden, ids := hideIDs(s)
	return showIDs(ScrubCounting(hidden, counts), ids), left
}

// idNames are the names under which logs say ids and digests of programs. Scrubbing would eat most of them, since an id
// that nobody guesses looks like a token; and a line without its ids joins with nothing.
var idNames = [...]string{"correlation_id", "node_id", "node_instance_id", "allocation_id", "task_id", "session_id",
	"workflow_id", "boot_id", "operation_id", "cert_serial", "serial", "sha256", "package", "package_sha256", "prior_sha256"}

// idPrefixes begin the ids that the platform and this tool make, which stand in paths and sentences without a name.
var idPrefixes = [...]string{"task-", "ts-", "op-", "req-", "probe-", "start-", "preflight-", "diag-", "run-", "agent-",
	"reason-", "notice-", "sweep-", "trust-", "gateway-"}

// maxHidden bounds the ids of one line: each stands for itself by one control character, which no line has.
const maxHidden = 8

// hideIDs puts a mark in place of each value that is named an id and looks like one.
func hideIDs(s string) (string, []string) {
	var ids []string
	var out strings.Builder
	from := 0
	for i := 0; i < len(s) && len(ids) < maxHidden; i++ {
		if at(s, i-1, word) || !at(s, i, word) {
			continue
		}
		value, last := findID(s, i)
		if value >= 0 {
			out.WriteString(s[from:value])
			out.WriteByte(byte(1 + len(ids)))
			ids, from = append(ids, s[value:last]), last
		}
		i = max(i, last-1)
	}
	out.WriteString(s[from:])
	return out.String(), ids
}

// findID looks at a word that begins at i: an id is s[value:last], where value is not below zero. The search goes on
// at last.
func findID(s string, i int) (value, last int) {
	for _, p := range idPrefixes {
		last = span(s, i, nameByte)
		if strings.HasPrefix(s[i:], p) && !at(s, i-1, nameByte) && isID(s[i:last]) {
			return i, last
		}
	}
	end := span(s, i, word)
	if !slices.Contains(idNames[:], s[i:end]) {
		return -1, end
	}
	if value = separator(s, end); value < 0 {
		return -1, end
	}
	if value < len(s) && s[value] == '"' {
		value++
	}
	last = span(s, value, idByte)
	if !isID(s[value:last]) || at(s, last, pathByte) {
		return -1, last
	}
	return value, last
}

// pathByte is what goes on where an id would end: then it is none.
func pathByte(c byte) bool { return valueByte(c) && !idByte(c) && c != '}' && c != ')' }

// ScrubLine scrubs one line of a log, and keeps the ids in it.
func ScrubLine(s string, counts map[string]int) string {
	if counts == nil {
		counts = map[string]int{}
	}
	s, _ = clipLine(s, false)
	s, _ = scrubLine(s, 0, counts)
	return s
}

// showIDs puts the ids back.
func showIDs(s string, ids []string) string {
	for i, id := range ids {
		s = strings.Replace(s, string(rune(1+i)), id, 1)
	}
	return s
}

// base32Byte is what an agent's own correlation ids are made of, after their prefix.
func base32Byte(c byte) bool { return 'A' <= c && c <= 'Z' || '2' <= c && c <= '7' }

func idByte(c byte) bool { return nameByte(c) || c == '.' || c == ':' }

// isID tells an id from a token by its form: pieces of lower case letters and digits, or a time as in 20060102T150405Z.
// What we take for tokens mixes cases.
func isID(s string) bool {
	if len(s) == 0 || len(s) > maxID {
		return false
	}
	if random, ok := strings.CutPrefix(s, "agent-"); ok && len(random) == 26 {
		return span(random, 0, base32Byte) == len(random)
	}
	for _, piece := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("-_.:", r) }) {
		if strings.ContainsFunc(piece, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'z') }) && !compactTime(piece) {
			return false
		}
	}
	return true
}

// compactTime reports whether s is of the form 20060102T150405Z.
func compactTime(s string) bool {
	if len(s) != len("20060102T150405Z") || s[8] != 'T' || s[15] != 'Z' {
		return false
	}
	for i := range len(s) - 1 {
		if i != 8 && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}
