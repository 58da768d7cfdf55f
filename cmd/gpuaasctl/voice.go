package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag/render"
)

// This file owns how the tool speaks beside its documents: what went wrong, then what to do next.

// sayError writes err to w, one line per mistake, and the command that helps.
func sayError(w io.Writer, err error) {
	var verdict *verdictError
	switch {
	case err == nil, errors.As(err, &verdict):
		return
	case errors.Is(err, context.Canceled):
		note(w, "interrupted")
		return
	}
	for line := range strings.Lines(strings.TrimRight(err.Error(), "\n")) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			note(w, "%s", line)
		}
	}
	var usage *usageError
	if errors.As(err, &usage) && usage.command != "" {
		note(w, "for help, run: %s --help", usage.command)
	}
}

// note writes one line for people, whatever a far side or a file put into it. A note that cannot be written is lost:
// there is nowhere else to say so.
func note(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(w, "gpuaasctl: "+render.Clean(fmt.Sprintf(format, args...)))
}

// usagef is a mistake on the command line.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}
