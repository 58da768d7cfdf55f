//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
)

// binary looks at the program Target; with Unit, at what that unit really starts (a drop-in may have replaced it).
// Words: binary_missing, binary_exec_format (it cannot be executed here), binary_version (it runs and says none).
func (p *Prober) binary(ctx context.Context, req diag.Request, f *diag.Fact) {
	b := &diag.BinaryFacts{Path: req.Target}
	f.Binary = b
	var runs os.FileInfo
	if req.Unit != "" {
		if props, err := p.units.show(ctx, req.Unit); err != nil {
			f.Detail = "the unit's own program is not known: " + err.Error()
		} else {
			if started := props.program(); started != "" {
				b.Path = started
			}
			if pid := props.pid(); pid > 0 {
				exe := fmt.Sprintf("/proc/%d/exe", pid)
				runs, _ = os.Stat(exe)
				b.Running, _ = digest(ctx, exe)
			}
		}
	}
	if !filepath.IsAbs(b.Path) {
		fail(f, "stat", diag.Unsupported, errors.New("binary wants an absolute path or a unit that has one"))
		return
	}
	if !lookProgram(ctx, f, runs) {
		return
	}
	if req.Target != "" && filepath.Base(b.Path) != filepath.Base(req.Target) && !strings.HasPrefix(filepath.Base(b.Path), filepath.Base(req.Target)) {
		// A program of another name may take "version" for anything at all.
		fail(f, "version", diag.BinaryVersion, fmt.Errorf("the unit starts %s, not %s; it was not asked for its version", b.Path, req.Target))
		return
	}
	askVersion(ctx, f)
}

// lookProgram reads the program without running it; false when f has failed. runs is the file whose digest is known
// already, since it runs; nil for none.
func lookProgram(ctx context.Context, f *diag.Fact, runs os.FileInfo) bool {
	b := f.Binary
	st, err := os.Stat(b.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		fail(f, "stat", diag.BinaryMissing, err)
		return false
	case err != nil:
		fail(f, "stat", diag.NotPermitted, err)
		return false
	case !st.Mode().IsRegular():
		fail(f, "stat", diag.BinaryExecFormat, fmt.Errorf("%s is no regular file", b.Path))
		return false
	}
	b.Size = st.Size()
	if runs != nil && b.Running != "" && os.SameFile(st, runs) && st.ModTime().Equal(runs.ModTime()) {
		b.SHA256 = b.Running
	} else if b.SHA256, err = digest(ctx, b.Path); err != nil {
		f.Detail = joinDetail(f.Detail, "not digested: "+err.Error())
	}
	if st.Mode().Perm()&0o111 == 0 {
		fail(f, "stat", diag.BinaryExecFormat, &os.PathError{Op: "exec", Path: b.Path, Err: syscall.EACCES})
		return false
	}
	host, known := hostMachine()
	if known {
		b.Host = host.String()
	}
	machine, ok := elfMachine(b.Path)
	if !ok {
		return true // a script, or nothing: running it tells
	}
	b.Machine = machine.String()
	if known && !machine.runsOn(host) {
		fail(f, "elf", diag.BinaryExecFormat, fmt.Errorf("%s is for %s, this machine is %s", b.Path, b.Machine, b.Host))
		return false
	}
	return true
}

// askVersion runs the program as "PATH version" and keeps the first line that it says.
func askVersion(ctx context.Context, f *diag.Fact) {
	s, err := command(ctx, f.Binary.Path, "version")
	switch {
	case err != nil && interrupted(ctx, f, "version"):
		return
	case errors.Is(err, context.DeadlineExceeded):
		fail(f, "version", diag.BinaryVersion, fmt.Errorf("%s gave no version within %s", f.Binary.Path, commandLimit))
	case errors.Is(err, fs.ErrNotExist):
		// The file is there: what is missing is the interpreter that it names.
		fail(f, "version", diag.BinaryExecFormat, fmt.Errorf("its interpreter or loader is missing: %w", err))
	case err != nil:
		fail(f, "version", diag.BinaryExecFormat, err)
	case s.code != 0:
		fail(f, "version", diag.BinaryVersion, fmt.Errorf("%s version: exit status %d: %s", f.Binary.Path, s.code, clip([]byte(Scrub(s.errs)), 200)))
	default:
		line, _, _ := strings.Cut(strings.TrimSpace(string(s.out)), "\n")
		f.Binary.Version = string(clip([]byte(Scrub(line)), 120))
		if line == "" {
			fail(f, "version", diag.BinaryVersion, fmt.Errorf("%s version: it printed nothing", f.Binary.Path))
		}
	}
}
