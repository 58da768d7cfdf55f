//go:build linux

package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// journalLines is how many lines are read where Request.Limit names no number, journalMost what it may name.
	journalLines, journalMost = 200, 5000
	// journalInput bounds what is read: journalctl spends some 400 bytes on a line beside its text.
	journalInput = 4 << 20
	// logFolder is where log files lie; of other files nothing is ever read aloud.
	logFolder = "/var/log/"
)

// journal reads the newest lines of Target, a unit, or a log file below /var/log. Every line is scrubbed here, before
// it goes anywhere. Words: not_permitted (lines that were seen stay), file_missing, file_unreadable, unsupported (no
// journal, no such file name), timeout.
func (p *Prober) journal(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Journal = &diag.JournalFacts{Unit: req.Target}
	limit := journalLines
	if req.Limit > 0 {
		limit = min(req.Limit, journalMost)
	}
	var newestFirst []diag.JournalLine
	if strings.HasPrefix(req.Target, "/") {
		newestFirst = tailLog(req, limit, f)
	} else {
		newestFirst = readJournal(ctx, req, limit, f)
	}
	f.Journal.Lines = scrubLines(newestFirst, f.Journal)
}

// readJournal asks journalctl, newest first: what does not fit is then the oldest.
func readJournal(ctx context.Context, req diag.Request, limit int, f *diag.Fact) []diag.JournalLine {
	if !isUnitName(req.Target) {
		fail(f, "journal", diag.Unsupported, fmt.Errorf("%q is no unit name", req.Target))
		return nil
	}
	argv := []string{"journalctl", "--unit=" + req.Target, "--output=json", "--output-fields=MESSAGE,PRIORITY,_BOOT_ID",
		"--lines=" + strconv.Itoa(limit), "--reverse", "--no-pager"}
	if !req.Since.IsZero() {
		argv = append(argv, "--since=@"+strconv.FormatInt(req.Since.Unix(), 10))
	}
	s, err := searchJournal(ctx, argv, req.Match)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		fail(f, "journal", diag.Unsupported, errors.New("there is no journalctl"))
	case err != nil:
		fail(f, "journal", systemdWord(err), fmt.Errorf("asking journalctl: %w", err))
	case strings.Contains(s.errs, "insufficient permissions"), strings.Contains(s.errs, "not seeing messages"):
		fail(f, "journal", diag.NotPermitted, errors.New(s.errs))
	case s.code != 0:
		fail(f, "journal", diag.Unsupported, fmt.Errorf("journalctl: %s", s.errs))
	}
	var lines []diag.JournalLine
	read := 0
	for rest := s.out; len(rest) > 0; {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		l, ok := journalEntry(text)
		if !ok {
			continue
		}
		if read++; matches(l.Text, req.Match) {
			lines = append(lines, l)
		}
	}
	f.Journal.Truncated = s.more || read >= limit
	return lines
}

// searchJournal has journalctl look for the texts, so that the newest lines of everybody do not stand for those that
// were meant. One that was built without a search gives the newest lines.
func searchJournal(ctx context.Context, argv, match []string) (said, error) {
	if len(match) == 0 {
		return commandFor(ctx, journalInput, argv...)
	}
	s, err := commandFor(ctx, journalInput, append(argv, "--grep="+pattern(match), "--case-sensitive=true")...)
	if err == nil && s.code != 0 && strings.Contains(s.errs, "attern") {
		return commandFor(ctx, journalInput, argv...)
	}
	if s.code == 1 && s.errs == "" { // that is how it says that nothing was found
		s.code = 0
	}
	return s, err
}

// pattern is a regular expression for one of the texts, each taken literally.
func pattern(match []string) string {
	var b strings.Builder
	for i, text := range match {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, c := range []byte(text) {
			if !word(c) && c < 0x80 {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}

// matches reports whether a line holds one of the texts, or none is asked for.
func matches(line string, match []string) bool {
	for _, text := range match {
		if strings.Contains(line, text) {
			return true
		}
	}
	return len(match) == 0
}

// journalEntry reads one entry of journalctl's JSON. A text with bytes that are no characters comes as a list of them.
func journalEntry(text []byte) (l diag.JournalLine, ok bool) {
	var entry map[string]json.RawMessage
	if bounded.Unmarshal(text, &entry, bounded.Answer()) != nil {
		return l, false
	}
	get := func(name string) string { s, _ := jsonText(entry[name]); return s }
	l.Text, l.Boot = get("MESSAGE"), get("_BOOT_ID")
	l.Priority, _ = strconv.Atoi(get("PRIORITY"))
	if us, _ := strconv.ParseInt(get("__REALTIME_TIMESTAMP"), 10, 64); us > 0 {
		l.At = diag.At(time.UnixMicro(us))
	}
	if bytes.HasPrefix(entry["MESSAGE"], []byte("[")) {
		l.Text = ofBytes(l.Text)
	}
	return l, l.Text != ""
}

// ofBytes is the text of a list of bytes: [104,105].
func ofBytes(list string) string {
	var b []byte
	for _, n := range strings.Split(strings.Trim(list, "[]"), ",") {
		c, _ := strconv.Atoi(strings.TrimSpace(n))
		b = append(b, byte(c))
	}
	return string(b)
}

// tailLog reads the end of a log file, newest first. Lines before Since are left out where they say their time.
func tailLog(req diag.Request, limit int, f *diag.Fact) []diag.JournalLine {
	data, err := readTail(req.Target, f.Journal)
	if err != nil {
		word := diag.Unsupported
		if !errors.Is(err, errNoLog) {
			word = fileWord(err)
		}
		fail(f, "read", word, err)
		return nil
	}
	var lines []diag.JournalLine
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	for i := len(all) - 1; i >= 0; i-- {
		text := all[i]
		l := diag.JournalLine{At: timeOf(text), Text: text}
		switch {
		case text == "", !matches(text, req.Match):
			continue
		case len(lines) == limit:
			f.Journal.Truncated = true
			return lines
		case !l.At.IsZero() && l.At.Before(req.Since.Time):
			return lines
		}
		lines = append(lines, l)
	}
	return lines
}

// errNoLog refuses what is no log file: nobody reads a key aloud by naming it one.
var errNoLog = errors.New("a log file is a regular file below " + logFolder)

// readTail is the end of a log file, from a line's begin on.
func readTail(path string, j *diag.JournalFacts) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(real, logFolder) {
		return nil, errNoLog
	}
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errNoLog
	}
	from := max(0, st.Size()-journalText)
	data, err := io.ReadAll(io.NewSectionReader(file, from, journalText))
	if from > 0 {
		j.Truncated = true
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data, err
}

// timeOf is a log line's own time: RFC 3339 at its begin, as nginx and slog write theirs; zero where it says none.
func timeOf(line string) diag.Time {
	head := line[:min(len(line), 64)]
	for _, mark := range [...]string{`"time":"`, "time="} {
		if _, after, ok := strings.Cut(head, mark); ok {
			head = after
			break
		}
	}
	head = head[:min(len(head), span(head, 0, timeByte))]
	t, err := time.Parse(time.RFC3339Nano, head)
	if err != nil {
		return diag.Time{}
	}
	return diag.At(t)
}

func timeByte(c byte) bool { return alphanum(c) || c == ':' || c == '-' || c == '+' || c == '.' }
