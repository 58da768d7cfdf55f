package scrub

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag"
)

// MaxID bounds an id in an answer.
const MaxID = 128

// MaxText bounds the lines of one answer in total, and journalLine each line: an answer is sent as one line of the
// protocol.
const MaxText, journalLine = 1 << 20, 4 << 10

// Journal truncates and scrubs lines, given newest first, and returns them oldest first. It drops the oldest lines
// that do not fit.
func Journal(lines []diag.JournalLine, j *diag.JournalFacts) []diag.JournalLine {
	n, size := 0, 0
	for ; n < len(lines); n++ {
		l := &lines[n]
		l.Text, j.Truncated = clipLine(l.Text, j.Truncated)
		if size += len(l.Text); size > MaxText {
			j.Truncated = true
			break
		}
	}
	kept := make([]diag.JournalLine, n)
	for i := range kept {
		kept[i] = lines[n-1-i]
	}
	counts := map[string]int{}
	Lines(kept, counts)
	if len(counts) > 0 {
		j.Redacted = counts
	}
	return kept
}

// Lines scrubs the lines of one log, oldest first, in place, and adds to counts the redactions of each rule. It
// keeps ids. A private key that was logged line by line is redacted completely.
func Lines(lines []diag.JournalLine, counts map[string]int) {
	left := 0
	for i := range lines {
		lines[i].Text, left = scrubLine(lines[i].Text, left, counts)
	}
}

// keyLines is the maximum number of lines of a private key; a beginning without an end redacts no more than these.
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

// scrubLine scrubs one line. left is how many lines, from this one on, may still belong to a private key.
func scrubLine(s string, left int, counts map[string]int) (string, int) {
	key := &redactions()[0]
	if left > 0 {
		if strings.Contains(s, "-----END ") {
			left = 1
		}
		counts[key.name]++
		return diag.Redacted, left - 1
	}
	if m := key.find.FindAllStringSubmatchIndex(s, -1); len(m) > 0 && m[len(m)-1][2] < 0 {
		left = keyLines
	}
	hidden, ids := hideIDs(s)
	return showIDs(Counting(hidden, counts), ids), left
}

const (
	// idNames are the field names of ids and of digests of programs in logs. Scrubbing would redact most of their
	// values, because a random id looks like a token, and a line without its ids cannot be joined with others.
	idNames = `correlation_id|node_id|node_instance_id|allocation_id|task_id|session_id|workflow_id|boot_id|` +
		`operation_id|cert_serial|serial|sha256|package|package_sha256|prior_sha256`
	// idPrefixes begin the ids that the platform and this tool generate, which also occur without a field name in paths
	// and sentences.
	idPrefixes = `task|ts|op|req|probe|start|preflight|diag|run|agent|reason|notice|sweep|trust|gateway`
	// idPiece is lower-case letters and digits, or a time as in 20060102T150405Z.
	idPiece = `(?:[a-z0-9]+|[0-9]{8}T[0-9]{6}Z)`
	// idEnd are the bytes that may follow a named id.
	idEnd = " \t\n\f\r,;\"'[]&})"
)

// ids has the expressions that find and check the ids of a line.
var ids = sync.OnceValue(func() (e struct{ find, form, agents *regexp.Regexp }) {
	e.find = regexp.MustCompile(`\b(?:(?:` + idNames + `)"?\s*[:=]"?([\w.:-]+)|((?:` + idPrefixes + `)-[\w-]*))`)
	e.form = regexp.MustCompile(`^[-_.:]*` + idPiece + `(?:[-_.:]+` + idPiece + `)*[-_.:]*$`)
	e.agents = regexp.MustCompile(`^agent-[A-Z2-7]{26}$`)
	return e
})

// maxHidden bounds the ids of one line: while the line is scrubbed, each is replaced by a control character, which no
// line contains.
const maxHidden = 8

// hideIDs replaces each value that is named an id and looks like one by a mark.
func hideIDs(s string) (string, []string) {
	var hidden []string
	var out strings.Builder
	from := 0
	for _, m := range ids().find.FindAllStringSubmatchIndex(s, -1) {
		value, end := m[2], m[3]
		good := value >= 0 && (end == len(s) || strings.IndexByte(idEnd, s[end]) >= 0)
		if value < 0 {
			value, end = m[4], m[5]
			good = value == 0 || s[value-1] != '-' // otherwise it is the end of another name
		}
		if !good || !isID(s[value:end]) {
			continue
		}
		out.WriteString(s[from:value])
		hidden, from = append(hidden, s[value:end]), end
		if out.WriteByte(byte(len(hidden))); len(hidden) == maxHidden {
			break
		}
	}
	out.WriteString(s[from:])
	return out.String(), hidden
}

// Line scrubs one line of a log, but keeps its ids.
func Line(s string, counts map[string]int) string {
	if counts == nil {
		counts = map[string]int{}
	}
	s, _ = clipLine(s, false)
	s, _ = scrubLine(s, 0, counts)
	return s
}

// showIDs restores the ids.
func showIDs(s string, ids []string) string {
	for i, id := range ids {
		s = strings.Replace(s, string(rune(1+i)), id, 1)
	}
	return s
}

// isID tells an id from a token by its form: tokens mix upper and lower case.
func isID(s string) bool {
	if len(s) == len("agent-")+26 && strings.HasPrefix(s, "agent-") {
		return ids().agents.MatchString(s)
	}
	return len(s) <= MaxID && ids().form.MatchString(s)
}
