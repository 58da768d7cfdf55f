//go:build linux

package node

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestTenantPlantsNoResidue: nothing that a tenant can create, under this tool's names, fails a drill.
func TestTenantPlantsNoResidue(t *testing.T) {
	tier.NeedsHost(t)
	needNft(t)
	if !inside(t) {
		return
	}
	const tenant = 54321
	as := func(script string, flags uintptr) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", script+"\nexec sleep 60")
		cmd.Dir = "/dev/shm"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tenant, Gid: tenant}, Cloneflags: flags}
		if flags != 0 { // root of its own user namespace, which any user may create
			cmd.SysProcAttr.Credential = nil
			one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: tenant, Size: 1}}
			cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = one, one
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait.For(t, script+" gets to its end", func() bool {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
			return err == nil && string(b) == "sleep\n"
		})
	}
	if err := os.Chmod("/dev/shm", 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	before := takeStaged(t)
	as("mkdir gpuaasctl-r-s; echo x >gpuaasctl-r-t", 0)
	as("mount -t tmpfs gpuaasctl-r-s-1 /mnt", syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS)
	as("cp /bin/sleep gpuaas-fault-0123456789abcdef; ./gpuaas-fault-0123456789abcdef 60 &", 0)
	asTenant := func(plant func() error) {
		t.Helper()
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread keeps the user, and ends with this function
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, tenant, tenant, tenant)
			if errno != 0 {
				done <- errno
				return
			}
			done <- plant()
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	asTenant(listen(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 4711}))
	asTenant(listen(unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 4712}))
	asTenant(listen(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "/dev/shm/left.sock"}))
	asTenant(listen(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@gpuaasctl"}))
	for _, r := range Diff(before, takeStaged(t), step.Scope{}, nil) {
		t.Errorf("a tenant's doing is residue: %s", r)
	}
	own, err := ListResidue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range own {
		t.Errorf("a tenant's doing is taken for this tool's: %s", r)
	}
}
