package agent

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestAddressesOfTheMachine: an agent in its own network namespace does not know the machine's addresses, and
// reports none: a platform would take the namespace's addresses for those of a machine that moved.
func TestAddressesOfTheMachine(t *testing.T) {
	tier.NeedsHost(t)
	const inside = "GPUAASCTL_TEST_OWN_NETWORK"
	if os.Getenv(inside) != "" {
		give(t, "lo", [4]byte{10, 200, 0, 2})
		if all, err := net.InterfaceAddrs(); err != nil || !slices.ContainsFunc(all, func(a net.Addr) bool {
			return strings.HasPrefix(a.String(), "10.200.0.2/")
		}) {
			t.Fatalf("the namespace's addresses are %v, %v", all, err)
		}
		if got := addresses(); len(got) > 0 {
			t.Errorf("in a network of its own it reports %v", got)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAddressesOfTheMachine$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("in a namespace of its own: %v\n%s", err, out)
	}
}

// give adds an IPv4 address to an interface of this network namespace, and brings it up.
func give(t *testing.T, name string, address [4]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.SetInet4Addr(address[:]); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, req); err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
}
