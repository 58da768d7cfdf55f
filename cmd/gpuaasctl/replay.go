package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight"
)

func newReplay(a *app) *cobra.Command {
	var output, fail string
	var baseline baselineFlag
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Judge the facts of a recorded report again",
		Long: `Judges the facts of a recorded report (FILE, or - for stdin) again. Nothing is measured: the same facts and the same
rules give the same verdict. Where other rules made the file's verdict and today's differ, one line on stderr and the
field "replayed" of the JSON name both. Its list of changes stays as it was, unless --baseline compares it again. Exit
codes are those of preflight; a file that is not a valid report is 2.`,
		Example: `  gpuaasctl preflight replay preflight.json
  gpuaasctl preflight replay - -o json <preflight.json
  gpuaasctl preflight replay after.json --baseline before.json --fail-on regression`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.replay(cmd.Context(), args[0], output, fail, &baseline)
		},
	}
	outputFlags(cmd, &output, &fail)
	baseline.add(cmd)
	group(cmd.Flags(), headOutput, "baseline")
	return cmd
}

// replay reads, judges and renders. Whatever is wrong with the file is the caller's to repair: exit 2.
func (a *app) replay(ctx context.Context, path, output, fail string, baseline *baselineFlag) error {
	data, err := a.readAll(ctx, path)
	if err != nil {
		return &usageError{err: err}
	}
	recorded, err := parseReport(data)
	if err != nil {
		return &usageError{err: fmt.Errorf("%s: %w", path, err)}
	}
	report, err := preflight.Replay(recorded)
	if err != nil {
		return &usageError{err: fmt.Errorf("%s: %w", path, err)}
	}
	preflight.Compared(recorded, report)
	a.noteOtherVerdict(path, recorded, report)
	if report.Diff == nil || baseline.name != "" {
		if err := a.compareReplay(ctx, report, fail, baseline); err != nil {
			return err
		}
	}
	if err := a.render(report, output, fail); err != nil {
		return err
	}
	return judged(report, fail)
}

// noteOtherVerdict says on stderr that the file states another verdict than these rules give.
func (a *app) noteOtherVerdict(path string, recorded, replayed *diag.Report) {
	file, now := preflight.Stated(recorded), preflight.Stated(replayed)
	if !preflight.SameVerdict(file, now) {
		note(a.stderr, "%s states %s (rules %s); the same facts by rules %s: %s", path, statedWords(file), cmp.Or(file.RulesVersion, "unknown"),
			now.RulesVersion, statedWords(now))
	}
}

// statedWords is a verdict in one line.
func statedWords(s diag.StatedVerdict) string {
	words := []string{cmp.Or(string(s.Outcome), "no outcome")}
	if s.Hop != "" {
		words = append(words, string(s.Hop), string(s.Signal))
	}
	if s.Failure != "" {
		words = append(words, "("+string(s.Failure)+")")
	}
	if s.FirstFailedHop != s.Hop {
		words = append(words, "first failed "+cmp.Or(string(s.FirstFailedHop), "none"))
	}
	if s.Confidence != "" {
		words = append(words, string(s.Confidence))
	}
	return strings.Join(append(words, "reason "+cmp.Or(string(s.Reason), "none")), " ")
}

// compareReplay gives a replayed report a diff, where one is asked for.
func (a *app) compareReplay(ctx context.Context, r *diag.Report, fail string, baseline *baselineFlag) error {
	if err := baseline.read(ctx, a, fail); err != nil || baseline.name == "" {
		return err
	}
	m := a.recall(ctx, r.Subject, r.Plan, false)
	defer m.close()
	m.compare(baseline, r)
	return nil
}

// readAll reads a file, or stdin for "-". It stops waiting for a pipe or a terminal when ctx ends.
func (a *app) readAll(ctx context.Context, path string) ([]byte, error) {
	type text struct {
		data []byte
		err  error
	}
	done := make(chan text, 1)
	go func() {
		data, err := a.readFile(path)
		done <- text{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case t := <-done:
		return t.data, t.err
	}
}

// readFile reads at most maxReport bytes.
func (a *app) readFile(path string) ([]byte, error) {
	in := a.stdin
	if path != "-" {
		f, err := openFile(path)
		if err != nil {
			return nil, fmt.Errorf("read report: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := bounded.Read(in, bounded.DocumentBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// openFile opens a file to read. A folder is refused, and a pipe that nobody writes to reads as empty in place of
// waiting for a writer. The error names the path.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		_ = f.Close()
		if err == nil {
			err = fmt.Errorf("%s is a folder", path)
		}
		return nil, err
	}
	return f, nil
}

// strictJSON decodes exactly one document without unknown fields into v; an error names the line. A document that is over
// a limit is refused before it is decoded.
func strictJSON(data []byte, v any) error {
	switch err := bounded.Strict(data, v, bounded.Document()); {
	case err == nil:
		return nil
	case errors.Is(err, bounded.ErrLimit):
		return err
	case errors.Is(err, bounded.ErrMore):
		return errors.New("something follows the report")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends before the report does")
	default:
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:errorAt(data, err)], []byte("\n")), err)
	}
}

// errorAt is where in data the decoder's error is, as well as that can be told.
func errorAt(data []byte, err error) int {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	at := 0
	switch {
	case errors.As(err, &syntax):
		at = int(syntax.Offset)
	case errors.As(err, &typ):
		at = int(typ.Offset)
	default: // an unknown field has no offset, only its name in quotes
		if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
			at = bytes.Index(data, []byte(name))
		}
	}
	return min(max(at, 0), len(data))
}
