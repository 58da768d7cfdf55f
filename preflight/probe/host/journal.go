//go:build linux

package host

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
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// journalLines is how many lines are read without Request.Limit, journalMost the maximum limit.
	journalLines, maxJournalLines = 200, 5000
	// journalInput bounds journalctl's output, which has some 400 bytes per line besides its text.
	journalInput = 4 << 20
	// logFolder has the log files; the content of files outside it is never returned.
	logFolder = "/var/log/"
)

// journal reads the newest lines of Target, a unit or a log file below /var/log. Every line is scrubbed here, before it
// goes anywhere. Failures: not_permitted (lines that were read are kept), file_missing, file_unreadable, unsupported
// (no journal, no such file name), timeout.
func (p *Prober) journal(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Journal = &diag.JournalFacts{Unit: req.Target}
	limit := journalLines
	if req.Limit > 0 {
		limit = min(req.Limit, maxJournalLines)
	}
	var newestFirst []diag.JournalLine
	if strings.HasPrefix(req.Target, "/") {
		newestFirst = tailLog(req, limit, f)
	} else {
		newestFirst = p.readJournal(ctx, req, limit, f)
	}
	f.Journal.Lines = scrub.Journal(newestFirst, f.Journal)
}

// readJournal runs journalctl, newest first, so that the oldest lines are the ones that do not fit. It counts and omits
// lines that another process wrote in the unit's name.
func (p *Prober) readJournal(ctx context.Context, req diag.Request, limit int, f *diag.Fact) []diag.JournalLine {
	if !isUnitName(req.Target) {
		measure.Fail(f, "journal", diag.Unsupported, fmt.Errorf("%q is not a unit name", req.Target))
		return nil
	}
	argv := []string{"journalctl", "--unit=" + req.Target, "--output=json",
		"--output-fields=MESSAGE,PRIORITY,_BOOT_ID,_UID,_EXE,_SYSTEMD_UNIT,_TRANSPORT", "--lines=" + strconv.Itoa(limit),
		"--reverse", "--no-pager"}
	if !req.Since.IsZero() {
		argv = append(argv, "--since=@"+strconv.FormatInt(req.Since.Unix(), 10))
	}
	s, err := searchJournal(ctx, argv, req.Match)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		measure.Fail(f, "journal", diag.Unsupported, errors.New("journalctl is not installed"))
	case err != nil:
		measure.Fail(f, "journal", systemdWord(err), fmt.Errorf("asking journalctl: %w", err))
	case strings.Contains(s.Complaint(), "insufficient permissions"),
		strings.Contains(s.Complaint(), "not seeing messages"):
		measure.Fail(f, "journal", diag.NotPermitted, errors.New(s.Complaint()))
	case s.Code != 0:
		measure.Fail(f, "journal", diag.Unsupported, fmt.Errorf("journalctl: %s", s.Complaint()))
	}
	var lines []diag.JournalLine
	read, by := 0, p.writerOf(ctx, req.Target)
	for rest := s.Out; len(rest) > 0; {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		var entry map[string]json.RawMessage
		if bounded.Unmarshal(text, &entry, bounded.Answer()) != nil {
			continue
		}
		l := journalEntry(entry)
		if l.Text == "" {
			continue
		}
		if read++; !by.wrote(entry) {
			f.Journal.Foreign++
			continue
		}
		if matches(l.Text, req.Match) {
			lines = append(lines, l)
		}
	}
	f.Journal.Truncated = s.Cut || read >= limit
	return lines
}

// searchJournal lets journalctl search for the texts, so that the newest lines of all units do not hide the matches. A
// journalctl built without search returns the newest lines.
func searchJournal(ctx context.Context, argv, match []string) (host.Answer, error) {
	if len(match) == 0 {
		return runCommand(ctx, host.Command{Most: journalInput}, argv...)
	}
	s, err := runCommand(ctx, host.Command{Most: journalInput},
		append(argv, "--grep="+pattern(match), "--case-sensitive=true")...)
	if err == nil && s.Code != 0 && strings.Contains(s.Complaint(), "attern") {
		return runCommand(ctx, host.Command{Most: journalInput}, argv...)
	}
	if s.Code == 1 && s.Complaint() == "" { // exit code 1 without an error text means no matches
		s.Code = 0
	}
	return s, err
}

// pattern returns a regular expression that matches any of the texts literally.
func pattern(match []string) string {
	quoted := make([]string, len(match))
	for i, text := range match {
		quoted[i] = regexp.QuoteMeta(text)
	}
	return strings.Join(quoted, "|")
}

// matches reports whether a line contains one of the texts, or no texts are given.
func matches(line string, match []string) bool {
	for _, text := range match {
		if strings.Contains(line, text) {
			return true
		}
	}
	return len(match) == 0
}

// journalEntry decodes one entry of journalctl's JSON, which has a text with invalid UTF-8 as a list of numbers.
func journalEntry(entry map[string]json.RawMessage) (l diag.JournalLine) {
	get := func(name string) string { s, _ := measure.JSONText(entry[name]); return s }
	l.Text, l.Boot = get("MESSAGE"), get("_BOOT_ID")
	l.Priority, _ = strconv.Atoi(get("PRIORITY"))
	if us, _ := strconv.ParseInt(get("__REALTIME_TIMESTAMP"), 10, 64); us > 0 {
		l.At = diag.At(time.UnixMicro(us))
	}
	if bytes.HasPrefix(entry["MESSAGE"], []byte("[")) {
		l.Text = ofBytes(l.Text)
	}
	return l
}

// ofBytes decodes a list of bytes: [104,105].
func ofBytes(list string) string {
	var b []byte
	for _, n := range strings.Split(strings.Trim(list, "[]"), ",") {
		c, _ := strconv.Atoi(strings.TrimSpace(n))
		b = append(b, byte(c))
	}
	return string(b)
}

// tailLog reads the end of a log file, newest first. It omits lines before Since if they have a time.
func tailLog(req diag.Request, limit int, f *diag.Fact) []diag.JournalLine {
	data, err := readTail(req.Target, f.Journal)
	if err != nil {
		word := diag.Unsupported
		if !errors.Is(err, errNoLog) {
			word = measure.FileWord(err)
		}
		measure.Fail(f, "read", word, err)
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

// errNoLog refuses files outside the log folder: a request for a key file must not return the key.
var errNoLog = errors.New("a log file is a regular file below " + logFolder)

// readTail returns the end of a log file, beginning with a complete line.
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
	from := max(0, st.Size()-scrub.MaxText)
	data, err := io.ReadAll(io.NewSectionReader(file, from, scrub.MaxText))
	if from > 0 {
		j.Truncated = true
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data, err
}

// timeOf returns a log line's own time: RFC 3339 at the beginning, as nginx and slog write it; zero if it has none.
func timeOf(line string) diag.Time {
	head := line[:min(len(line), 64)]
	for _, mark := range [...]string{`"time":"`, "time="} {
		if _, after, ok := strings.Cut(head, mark); ok {
			head = after
			break
		}
	}
	head = head[:len(head)-len(strings.TrimLeftFunc(head, timeRune))]
	t, err := time.Parse(time.RFC3339Nano, head)
	if err != nil {
		return diag.Time{}
	}
	return diag.At(t)
}

func timeRune(c rune) bool { return measure.IsAlphanumeric(c) || strings.ContainsRune(":-+.", c) }
