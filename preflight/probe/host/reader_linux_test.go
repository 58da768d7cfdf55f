package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestFilesThatTheAgentsUserMayNotRead: this process is root and reads everything; its agent may have another user.
func TestFilesThatTheAgentsUserMayNotRead(t *testing.T) {
	tier.NeedsHost(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const nobody, group = 65534, 4242
	cert, key := kit.WritePair(t, kit.NewAuthority(t, "signing").Leaf(t, kit.Leaf{}))
	dir := filepath.Dir(cert)
	for name, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, cert: 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		as     syscall.Credential
		mode   os.FileMode
		denied string
	}{
		"root":                   {syscall.Credential{}, 0o600, ""},
		"another user":           {syscall.Credential{Uid: nobody, Gid: nobody}, 0o600, key},
		"a file for all":         {syscall.Credential{Uid: nobody, Gid: nobody}, 0o644, ""},
		"of its group":           {syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{group}}, 0o640, ""},
		"of a group without it":  {syscall.Credential{Uid: nobody, Gid: nobody}, 0o640, key},
		"of its own first group": {syscall.Credential{Uid: nobody, Gid: group}, 0o640, ""},
	} {
		agent := exec.Command("sleep", "60")
		agent.SysProcAttr = &syscall.SysProcAttr{Credential: &c.as}
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(key, 0, group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(key, c.mode); err != nil {
			t.Fatal(err)
		}
		p := &Prober{Agent: AgentView{PID: agent.Process.Pid}}
		f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpCert, Cert: cert, Key: key})
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if f.Failure != diag.OK || f.Cert == nil || f.Cert.DeniedFile != c.denied ||
			(c.denied != "") != (f.Cert.DeniedUID == nobody) {
			t.Errorf("%s: %q %s: %+v", name, f.Failure, f.Detail, f.Cert)
		}
	}
	if _, err := os.ReadFile(key); err != nil || os.Geteuid() != 0 {
		t.Errorf("this process has lost its own rights: %v", err)
	}
}
