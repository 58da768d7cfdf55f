//go:build linux

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// fakes is the first folder in PATH, so that systemctl and getent are scripts of the test: test machines have no
// systemd, and their users must not be modified.
type fakes struct{ dir string }

func newFakes(t *testing.T) fakes {
	t.Helper()
	f := fakes{t.TempDir()}
	t.Setenv("PATH", f.dir+":"+os.Getenv("PATH"))
	return f
}

func (f fakes) script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(f.dir, name)
	// Renamed into place: running a script that another test's child still holds open for writing is ETXTBSY.
	if err := os.WriteFile(path+".new", []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// unit makes systemctl report one unit with these properties; every other unit is not found.
func (f fakes) unit(t *testing.T, name string, props ...string) {
	t.Helper()
	f.script(t, "systemctl", fmt.Sprintf(`for last; do :; done
test "$1" = show || exit 64
if test "$last" = %q; then cat <<'END'
%s
END
else echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0; fi`, name, strings.Join(props, "\n")))
}

// running returns the properties of a healthy unit with this main process.
func running(pid int, more ...string) []string {
	return append([]string{"LoadState=loaded", "ActiveState=active", "SubState=running", "Result=success",
		"ExecMainCode=0", "ExecMainStatus=0", "NRestarts=2", fmt.Sprintf("MainPID=%d", pid),
		"FragmentPath=/etc/systemd/system/x.service", "DropInPaths=/run/a.conf /run/b.conf"}, more...)
}

// passwd makes getent know one user.
func (f fakes) passwd(t *testing.T, entry string) {
	t.Helper()
	name, _, _ := strings.Cut(entry, ":")
	f.script(t, "getent", fmt.Sprintf(`test "$1 $2" = "passwd --" || exit 64
test "$3" = %q || exit 2
echo %q`, name, entry))
}

func measure(t *testing.T, req diag.Request) diag.Fact {
	t.Helper()
	return (&Prober{}).Run(patient(t), req)
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
}
