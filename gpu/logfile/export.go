package logfile

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// journalRecord collects a record of journalctl -o export, or of -o verbose, which indents it.
type journalRecord struct {
	open    bool
	verbose bool
	line    int
	fields  fields
	message string
	head    stamp // of the line before a verbose record
}

// journalField parses "_TRANSPORT=kernel", indented by four blanks in a verbose record.
func journalField(line string) (key, value string, verbose, ok bool) {
	rest, verbose := strings.CutPrefix(line, "    ")
	key, value, ok = strings.Cut(rest, "=")
	return key, value, verbose, ok && journalKey(key)
}

// journalKey reports whether s may be the name of a journal's field.
func journalKey(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(s) > 1 && len(s) <= 64
}

// journal takes a line if it is one of a record of the journal.
func (r *reader) journal(line string) bool {
	rec := &r.rec
	key, value, verbose, ok := journalField(line)
	switch {
	case ok && !rec.open && !begins(key, verbose):
		return false
	case ok && rec.open && verbose != rec.verbose, ok && rec.open && rec.fields.seen(key, "__cursor"):
		r.endRecord()
		return r.journal(line)
	case ok:
		if !rec.open {
			*rec = journalRecord{open: true, verbose: verbose, line: r.n}
			if verbose {
				_, rec.head = timeAt(string(r.prev))
			}
		}
		r.recordField(key, value)
		return true
	case !rec.open:
		return false
	case !rec.verbose && journalKey(line):
		if value, ok := r.binaryField(); ok {
			r.recordField(line, value)
			return true
		}
	case rec.verbose && strings.HasPrefix(line, "     "): // a message of several lines
		r.recordField("", strings.TrimSpace(line))
		return true
	}
	r.endRecord()
	return line == "" // it ends a record; another line is none of it
}

// mayBegin reports whether a line may be the first of a record.
func mayBegin(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("    "))
	for i, c := range b[:min(len(b), 65)] {
		if (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return c == '=' && i > 0
		}
	}
	return false
}

// begins reports whether a record begins with that field. Other logs have lines such as "PATH=/bin", too.
func begins(key string, verbose bool) bool {
	return strings.HasPrefix(key, "_") || key == "MESSAGE" || (verbose && (strings.HasPrefix(key, "SYSLOG_") ||
		key == "PRIORITY" || key == "MESSAGE_ID" || key == "CODE_FILE"))
}

// seen reports whether key is the one that begins a record, and is there already.
func (f *fields) seen(key, first string) bool { return lower(key) == first && f.get(first) != "" }

// recordField adds a field; of an equal one the first counts. Without a key it continues the message.
func (r *reader) recordField(key, value string) {
	rec := &r.rec
	switch {
	case key == "":
		if rec.message != "" && len(rec.message) < maxString {
			rec.message += "\n" + value
		}
	case key == "MESSAGE":
		if rec.message == "" {
			rec.message = value
		}
	case hinted([]byte(value)) && !strings.HasPrefix(key, "_"):
		r.aside = append(r.aside, waiting{r.n, key, value})
		if len(r.aside) > maxSeen {
			r.lostText(r.aside[0])
			r.aside = r.aside[1:]
		}
	default:
		rec.fields.add(key, value)
	}
}

// binaryField reads the size and the bytes of a field of an export that has newlines.
func (r *reader) binaryField() (string, bool) {
	size, ok := r.in.raw(8)
	if !ok {
		return "", false
	}
	n := binary.LittleEndian.Uint64(size)
	if n > maxBinary {
		return "", false
	}
	value, ok := r.in.raw(int(n) + 1)
	if !ok || value[n] != '\n' {
		return string(value), len(value) > 0
	}
	return string(value[:n]), true
}

// maxBinary bounds a field of a journal with newlines; journald itself bounds a message of a program.
const maxBinary = 1 << 20

// endRecord judges the record that has ended.
func (r *reader) endRecord() {
	rec := r.rec
	r.rec = journalRecord{}
	if !rec.open {
		return
	}
	r.log.Kernel = r.log.Kernel || rec.fields.get("_transport", "syslog_identifier", "__cursor", "_boot_id") != ""
	texts := r.aside
	r.aside = nil
	if rec.message != "" {
		texts = append(texts, waiting{rec.line, "MESSAGE", rec.message})
	}
	r.named(texts, &rec.fields, context{host: r.host, at: rec.head})
}
