package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// Program is the program that judges. gpuaasctl finds it where it finds gpuaas-agent: in libexec, or next to itself.
const Program = "gpuaas-gpu-policy"

// Schema is the version of requests and replies. A program with another version is not used.
const Schema = 1

// Operations of a request.
const (
	OpCheck = "check" // the policy alone
	OpTest  = "test"  // the policy, by cases
	OpJudge = "judge" // judge evidence, or one case of a file
	OpShow  = "show"  // return the file of a built-in policy, or its cases
)

// Request is a line on the program's stdin; each gets a Reply.
type Request struct {
	Schema int    `json:"schema"`
	Op     string `json:"op"`

	Policy File  `json:"policy"`
	Shadow *File `json:"shadow,omitempty"` // also judges the same evidence, without effect
	Cases  *File `json:"cases,omitempty"`  // nil: the built-in cases of a built-in policy

	Case     string     `json:"case,omitempty"`   // in Cases: the case to judge; to show the cases, "*"
	Events   *File      `json:"events,omitempty"` // a GPUEvent on each line, the oldest first
	Sample   *File      `json:"sample,omitempty"` // a GPUSample
	Expected *int       `json:"gpus_expected,omitempty"`
	Now      *time.Time `json:"now,omitempty"`
}

// File is a file's text. Without text, Path is the name of a built-in policy.
type File struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
}

// Reply is a line on its stdout. Exactly one of Error, Mistakes and the rest is set.
type Reply struct {
	Schema   int       `json:"schema"`
	Version  string    `json:"version"` // the program's version
	Error    string    `json:"error,omitempty"`
	Mistakes []Mistake `json:"mistakes,omitempty"`

	Text      []byte     `json:"text,omitempty"` // for OpShow
	Policy    *Policy    `json:"policy,omitempty"`
	Tested    []Tested   `json:"tested,omitempty"`
	Judgement *Judgement `json:"judgement,omitempty"`
	Shadow    *Judgement `json:"shadow,omitempty"`
}

// Mistake is one mistake in a file.
type Mistake struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func (m Mistake) Error() string {
	if m.Line == 0 {
		return m.Path + ": " + m.Text
	}
	return fmt.Sprintf("%s:%d: %s", m.Path, m.Line, m.Text)
}

// Tested is the result of a case.
type Tested struct {
	Case     string `json:"case"`
	Line     int    `json:"line"`
	Want     Health `json:"want"`
	WantRule string `json:"want_rule,omitempty"`
	Got      Health `json:"got"`
	GotRule  string `json:"got_rule,omitempty"`
	Why      string `json:"why,omitempty"`
	OK       bool   `json:"ok"`
}

// Limits of the program's streams and running time. A judgement takes milliseconds; the rest is for busy machines.
const (
	MaxRequest = 16 << 20
	maxReply   = 32 << 20
	askTimeout = 60 * time.Second
	// askGrace is how long the reply of a program that has ended is still read, for busy machines.
	askGrace = 10 * time.Second
)

// ReplyError is the program's error for a request that names something unknown.
type ReplyError struct{ Text string }

func (e *ReplyError) Error() string { return e.Text }

// Find finds the program in one of the folders. One that another user could have written is refused: it would run with
// the caller's rights. So is one that is not of build.
func Find(folders []string, build owned.Build) (string, error) {
	for _, dir := range folders {
		for _, name := range []string{Program, Program + "-" + runtime.GOOS + "-" + runtime.GOARCH} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				continue
			}
			f, err := owned.Open(path, owned.Caller().WithProgram())
			if err != nil {
				return "", fmt.Errorf("%s is not run, since another user could have written it: %w", path, err)
			}
			h := sha256.New()
			_, err = io.Copy(h, f)
			if err = errors.Join(err, f.Close()); err != nil {
				return "", fmt.Errorf("read %s: %w", path, err)
			}
			return path, build.Check(path, Program, hex.EncodeToString(h.Sum(nil)))
		}
	}
	return "", fmt.Errorf("there is no %s in %q", Program, folders)
}

// Ask starts the program and sends it one request. version is the program's required version: the caller's own build.
func Ask(ctx context.Context, program, version string, q Request) (Reply, error) {
	var r Reply
	q.Schema = Schema
	in, err := json.Marshal(q)
	if err != nil {
		return r, fmt.Errorf("write a request for %s: %w", program, err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	full := func() { stop(errTooMuch) }
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = []string{}
	cmd.Stdin = bytes.NewReader(append(in, '\n'))
	out, errs := &limited{most: maxReply, full: full}, &limited{most: 4 << 10, full: full}
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.WaitDelay = askGrace
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("run %s: %w: %s", program, errors.Join(context.Cause(ctx), err),
			bytes.TrimSpace(errs.kept.Bytes()))
	}
	if err := json.Unmarshal(out.kept.Bytes(), &r); err != nil {
		return r, fmt.Errorf("read the reply of %s: %w", program, err)
	}
	switch {
	case r.Schema != Schema || r.Version != version:
		return r, fmt.Errorf("%s is of build %q (schema %d), and this is %q (schema %d): install both of one build",
			program, r.Version, r.Schema, version, Schema)
	case r.Error != "":
		return r, &ReplyError{r.Error}
	}
	return r, nil
}

// errTooMuch means that a program writes more than any reply has.
var errTooMuch = errors.New("it writes more than a reply may have")

// limited buffers writes up to a limit, and then stops the writer, which would otherwise block for ever. The buffer is
// not embedded, since its ReadFrom would bypass the limit.
type limited struct {
	kept bytes.Buffer
	most int
	full func()
}

func (l *limited) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > l.most {
		l.full()
		return 0, io.ErrShortWrite
	}
	return l.kept.Write(p)
}
