package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Messages of the tool besides documents: what went wrong, then what to do next.

// PrintError writes err to w, one line per mistake, and the command that helps.
func PrintError(w io.Writer, err error) {
	switch {
	case err == nil, errors.As(err, new(*VerdictError)):
		return
	case errors.Is(err, context.Canceled):
		Note(w, "interrupted")
		return
	}
	for line := range strings.Lines(strings.TrimRight(err.Error(), "\n")) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			Note(w, "%s", line)
		}
	}
	var usage *UsageError
	if errors.As(err, &usage) && usage.Command != "" {
		Note(w, "for help, run: %s --help", usage.Command)
	}
}

// Note writes one line for people, without control characters. It ignores a write error, which has no other place to be
// reported.
func Note(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(w, "gpuaasctl: "+page.Clean(fmt.Sprintf(format, args...)))
}

// Note is Note on stderr, for messages besides a document: --quiet omits it. Errors are never omitted.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		Note(a.Stderr, format, args...)
	}
}

// Usagef returns a mistake on the command line.
func Usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}
