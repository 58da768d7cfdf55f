package cmdutil

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muesli/cancelreader"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// ParseReport parses a report. It ignores fields that a newer version added, and names them on stderr.
func (a *App) ParseReport(data []byte) (*diag.Report, error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return nil, errors.New("not a report (JSON)")
	}
	r := &diag.Report{}
	unknown, err := ReadJSON(data, r)
	if err == nil {
		err = bounded.Numbers(r)
	}
	if err != nil {
		return nil, err
	}
	if r.Kind == diag.KindPreflight {
		a.NoteUnknown(r.Kind, r.Run.ToolVersion, unknown)
	}
	return r, nil
}

// mostNamed bounds how many unknown fields a note lists.
const mostNamed = 5

// NoteUnknown notes the fields of a document that this version does not know, by kind and the version that wrote it.
func (a *App) NoteUnknown(kind, version string, unknown []string) {
	if len(unknown) == 0 {
		return
	}
	named, more := unknown[:min(len(unknown), mostNamed)], ""
	if n := len(unknown) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	if version != "" {
		kind += " of gpuaasctl " + version
	}
	a.Note("%s: ignored fields that gpuaasctl %s does not know: %s%s", kind, a.ToolVersion(), strings.Join(named, ", "),
		more)
}

// Read parses a file, or stdin for "-". Any error is a usage error: exit 2.
func Read[T any](ctx context.Context, a *App, path string, parse func([]byte) (T, error)) (v T, err error) {
	data, err := a.ReadAll(ctx, path)
	if err != nil {
		return v, &UsageError{Err: err}
	}
	if v, err = parse(data); err != nil {
		return v, &UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	return v, nil
}

// ReadAll reads a file, or stdin for "-", up to the maximum size of a report.
func (a *App) ReadAll(ctx context.Context, path string) ([]byte, error) {
	return From(ctx, a, "report", path, func(in io.Reader) ([]byte, error) {
		return bounded.Read(in, bounded.DocumentBytes)
	})
}

// From calls read with a file that should contain what, or with stdin for "-". It stops waiting for a pipe or a
// terminal when ctx ends.
func From[T any](ctx context.Context, a *App, what, path string, read func(io.Reader) (T, error)) (v T, err error) {
	in := a.Stdin
	if path != "-" {
		f, err := bounded.Open(path)
		if err != nil {
			return v, &UsageError{Err: fmt.Errorf("read %s: %w", what, err)}
		}
		defer f.Close()
		in = f
	}
	in, end := InterruptibleReader(ctx, in)
	defer end()
	got, err := read(in)
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return v, ctx.Err()
	}
	return v, fmt.Errorf("read %s: %w", path, err)
}

// InterruptibleReader returns in as a reader whose reads of a pipe or a terminal end with ctx. end releases what it
// needs.
func InterruptibleReader(ctx context.Context, in io.Reader) (r io.Reader, end func()) {
	type deadliner interface{ SetReadDeadline(time.Time) error }
	if f, ok := in.(deadliner); ok && f.SetReadDeadline(time.Time{}) == nil {
		stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
		return in, func() { stop() }
	}
	waits, err := cancelreader.NewReader(in) // as most standard inputs, which this process must not set non-blocking
	if err != nil {                          // not even waited for: a regular file
		return in, func() {}
	}
	stop := context.AfterFunc(ctx, func() { waits.Cancel() })
	return waits, func() { stop(); _ = waits.Close() }
}

// ReadAnswer reads one typed line, of a reader that InterruptibleReader has made. without is what an answer was needed
// for.
func ReadAnswer(ctx context.Context, in *bufio.Reader, without string) (string, error) {
	line, err := in.ReadString('\n')
	switch {
	case err == nil:
		return strings.TrimSpace(line), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	return "", Usagef("no answer: %s", without)
}

// ReadJSON decodes exactly one document into v, and returns the names of its fields that v does not have; an error
// names the line. A document over a limit is refused before it is decoded.
func ReadJSON(data []byte, v any) (unknown []string, err error) {
	switch unknown, err = bounded.Tolerant(data, v, bounded.Document()); {
	case err == nil:
		return unknown, nil
	case errors.Is(err, bounded.ErrLimit):
		return nil, err
	case errors.Is(err, bounded.ErrMore):
		return nil, errors.New("something follows the report")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the file ends before the report does")
	default:
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:errorAt(data, err)], []byte("\n")), err)
	}
}

// errorAt returns the offset of the decoder's error in data, as precisely as it is known.
func errorAt(data []byte, err error) int {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	at := 0
	switch {
	case errors.As(err, &syntax):
		at = int(syntax.Offset)
	case errors.As(err, &typ):
		at = int(typ.Offset)
	}
	return min(max(at, 0), len(data))
}

// Rejudge parses a report, and judges its facts by today's rules.
func (a *App) Rejudge(data []byte) (*diag.Report, error) {
	recorded, err := a.ParseReport(data)
	if err != nil {
		return nil, err
	}
	return verdict.Replay(a.Chain(), recorded)
}
