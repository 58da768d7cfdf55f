package cmdutil

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// With GITHUB_ACTIONS=true a run writes its summary to the job's page and annotates it, without a flag. stdout still
// has only the document: a runner interprets workflow commands on stderr as well.

// Environment variables of a runner: that it is one, and the file of the step's summary.
const (
	envGitHub  = "GITHUB_ACTIONS"
	envSummary = "GITHUB_STEP_SUMMARY"
)

const (
	mostSummary     = 1 << 20 // GitHub's limit for a step's summary, in bytes
	mostAnnotations = 10      // GitHub's limit per level and step
	mostMessage     = 2000    // limit for one annotation, in runes
)

func (a *App) onGitHub() bool { return a.Env(envGitHub) == "true" }

// Annotation is one line on a job's page.
type Annotation struct {
	Warning     bool // else an error
	Title, Text string
}

// Publish appends the Markdown of write to the step's summary, and annotates the job; outside GitHub Actions it does
// nothing. A failure is noted, and changes no exit code, since the document is written. --quiet omits the annotations.
func (a *App) Publish(notes []Annotation, write func(io.Writer) error) {
	if !a.onGitHub() {
		return
	}
	if path := a.Env(envSummary); path != "" {
		var b bytes.Buffer
		err := write(&b)
		if err == nil {
			err = appendSummary(path, b.Bytes())
		}
		if err != nil {
			a.Note("no step summary: %v", err)
		}
	}
	if a.Quiet {
		return
	}
	shown := map[bool]int{}
	for _, n := range notes {
		if shown[n.Warning]++; shown[n.Warning] <= mostAnnotations {
			_, _ = io.WriteString(Raw(a.Stderr), n.line()) // a write error has no other place to be reported
		}
	}
}

// appendSummary appends text to the file at path, completely or not at all.
func appendSummary(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Size()+int64(len(text)) > mostSummary:
		err = fmt.Errorf("%s would have more than %d bytes, GitHub's limit", path, mostSummary)
	default:
		_, err = f.Write(text)
	}
	return errors.Join(err, f.Close())
}

// line is the annotation as a workflow command. Whatever the text contains, it is one line and one command.
func (n Annotation) line() string {
	level := "error"
	if n.Warning {
		level = "warning"
	}
	return fmt.Sprintf("::%s title=%s::%s\n", level, property.Replace(inert(shortened(page.Clean(n.Title)))),
		data.Replace(inert(message(n.Text))))
}

// message joins lines of text, each cleaned.
func message(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = page.Clean(l)
	}
	return shortened(strings.Join(lines, "\n"))
}

// inert disables the older form of a command, which runners look for anywhere in a line.
func inert(text string) string { return string(clean.Inert([]byte(text))) }

// shortened truncates a text that is too long for a job's page.
func shortened(text string) string {
	if runes := []rune(text); len(runes) > mostMessage {
		return string(runes[:mostMessage]) + " ..."
	}
	return text
}

// The escapes in a workflow command's message, and in a property.
var (
	data     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
