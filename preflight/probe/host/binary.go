//go:build linux

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// binary reads the program Target; with Unit, the program that the unit in fact starts (a drop-in may have replaced
// it). It runs nothing but Request.VersionCommand. Failures: binary_missing, binary_not_executable (its mode), and
// binary_exec_format (it is no program for this machine).
func (p *Prober) binary(ctx context.Context, req diag.Request, f *diag.Fact) {
	b := &diag.BinaryFacts{Path: req.Target}
	f.Binary = b
	running := "" // the kernel's link to the program that the unit runs
	if req.Unit != "" {
		if props, err := p.units.show(ctx, req.Unit); err != nil {
			f.Detail = "the unit's own program is not known: " + err.Error()
		} else {
			if started := execOf(props); started != "" {
				b.Path = started
			}
			if pid := props.PID(); pid > 0 {
				running = fmt.Sprintf("/proc/%d/exe", pid)
				b.Running, _ = digest(ctx, running)
			}
		}
	}
	if !filepath.IsAbs(b.Path) {
		measure.Fail(f, "stat", diag.Unsupported, errors.New("binary wants an absolute path or a unit that has one"))
		return
	}
	if !lookProgram(ctx, f, running) {
		return
	}
	identify(ctx, b, running)
	if len(req.VersionCommand) > 0 {
		p.askVersion(ctx, req, f)
	}
}

// lookProgram reads the program's file; it returns false if f has failed. running is the path of the program that the
// unit runs, "" if none.
func lookProgram(ctx context.Context, f *diag.Fact, running string) bool {
	b := f.Binary
	st, err := os.Stat(b.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		measure.Fail(f, "stat", diag.BinaryMissing, err)
		return false
	case err != nil:
		measure.Fail(f, "stat", diag.NotPermitted, err)
		return false
	case !st.Mode().IsRegular():
		measure.Fail(f, "stat", diag.BinaryExecFormat, fmt.Errorf("%s is not a regular file", b.Path))
		return false
	}
	b.Size = st.Size()
	if runs, err := os.Stat(running); err == nil && b.Running != "" && os.SameFile(st, runs) &&
		st.ModTime().Equal(runs.ModTime()) {
		b.SHA256 = b.Running
	} else if b.SHA256, err = digest(ctx, b.Path); err != nil {
		f.Detail = measure.JoinDetail(f.Detail, "not digested: "+err.Error())
	}
	if st.Mode().Perm()&0o111 == 0 {
		measure.Fail(f, "stat", diag.BinaryNotExecutable, &os.PathError{Op: "exec", Path: b.Path, Err: syscall.EACCES})
		return false
	}
	host, known := hostMachine()
	if known {
		b.Host = host.String()
	}
	p, err := readFormat(b.Path)
	if errors.Is(err, fs.ErrPermission) {
		measure.Fail(f, "read", diag.NotPermitted, err)
		return false
	}
	b.Kind = p.kind
	if p.kind == kindELF {
		b.Machine = p.machine.String()
	}
	if p.kind == kindELF && known && p.machine != 0 && !runsOn(p.machine, host) {
		err = fmt.Errorf("%s is for %s, this machine is %s", b.Path, b.Machine, b.Host)
	}
	if err != nil && (b.Running == "" || b.Running != b.SHA256) { // a program that runs can be executed
		measure.Fail(f, "format", diag.BinaryExecFormat, err)
		return false
	}
	return true
}

// identify finds out whether the program is gpuaas-agent: by the Go build info of the file or of the running program,
// or because it is the program of this very process. A script may start anything, so a script is reported as another
// program only if another program is seen to run.
func identify(ctx context.Context, b *diag.BinaryFacts, running string) {
	ours, known := false, b.Kind == kindELF
	for _, path := range [...]string{b.Path, running} {
		if path == "" {
			continue
		}
		id, err := readIdentity(path)
		if err != nil {
			known = false
			continue
		}
		known = known || path == running
		if path == b.Path {
			b.GoMain, b.Version = id.goMain, id.version
		}
		if strings.HasSuffix(id.goMain, agentMain) {
			ours = true
			b.Version = cmp.Or(b.Version, id.version)
		}
	}
	if !ours && known {
		self, err := digest(ctx, "/proc/self/exe")
		ours = err == nil && (self == b.SHA256 || self == b.Running)
		known = ctx.Err() == nil // otherwise the programs were not read completely
	}
	if ours || known {
		b.OurAgent = &ours
	}
}

// askVersion runs the profile's version_command and keeps the first line of its output. A failure of the command is not
// evidence about the agent's program; the version is then unknown.
func (p *Prober) askVersion(ctx context.Context, req diag.Request, f *diag.Fact) {
	if !p.Commands {
		f.Detail = measure.JoinDetail(f.Detail,
			"its version was not asked: only a helper that the operator started may run version_command")
		return
	}
	s, err := command(ctx, req.VersionCommand...)
	line, _, _ := strings.Cut(strings.TrimSpace(string(s.Out)), "\n")
	why := ""
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		measure.Interrupted(ctx, f, "version")
		return
	case err != nil && ctx.Err() != nil:
		why = "the walk did not wait for it"
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("no answer within %s", commandLimit)
	case err != nil:
		why = err.Error()
	case s.Code != 0:
		why = fmt.Sprintf("exit status %d: %s", s.Code, measure.Clip([]byte(scrub.Text(s.Complaint())), 200))
	case line == "":
		why = "it printed nothing"
	default:
		f.Binary.Version = string(measure.Clip([]byte(scrub.Text(line)), 120))
		return
	}
	f.Detail = measure.JoinDetail(f.Detail, "its version is not known: version_command: "+why)
}
