//go:build linux

package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// plainName reports whether s is 1 to most letters, digits and marks, and does not begin with a dash.
func plainName(s, marks string, most int) bool {
	for i := range len(s) {
		if !measure.IsAlphanumeric(rune(s[i])) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= most && s[0] != '-'
}

// user looks Target up by name, as the agent does. Failures: user_missing, shell_missing, unsupported, timeout.
func (p *Prober) user(ctx context.Context, req diag.Request, f *diag.Fact) {
	pw, err := host.FindUser(ctx, command, req.Target)
	if err != nil {
		measure.Fail(f, "user", userWord(err), err)
		return
	}
	f.User = &diag.UserFacts{Name: pw.Name, UID: int(pw.UID), Home: pw.Home, Shell: pw.Shell}
	home, err := os.Stat(pw.Home)
	homeOK := err == nil && home.IsDir()
	shellErr := host.UsableShell(pw.Shell)
	shellOK := shellErr == nil
	f.User.HomeOK, f.User.ShellOK = &homeOK, &shellOK
	if !shellOK {
		measure.Fail(f, "shell", diag.ShellMissing, shellErr)
	}
}

func userWord(err error) diag.Failure {
	switch {
	case errors.Is(err, host.ErrNoUser):
		return diag.UserMissing
	case errors.Is(err, context.DeadlineExceeded):
		return diag.Timeout
	case errors.Is(err, context.Canceled):
		return diag.Cancelled
	case errors.Is(err, exec.ErrNotFound):
		return diag.Unsupported
	}
	return diag.Unknown
}
