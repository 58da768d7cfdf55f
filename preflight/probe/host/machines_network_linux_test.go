package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/host"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestInMachinesNetwork: what a process finds out about itself, in a tree like /proc, and in its own namespaces.
func TestInMachinesNetwork(t *testing.T) {
	const inUnit, first = "0::/system.slice/agent.service\n", "0::/init.scope\n"
	for name, tc := range map[string]struct {
		ours, first string
		sameNetwork bool
		want        bool
	}{
		"a service of the machine":           {inUnit, first, true, true},
		"of version 1 control groups":        {"1:name=systemd:/a\n", "1:name=systemd:/init.scope\n", true, true},
		"a network of its own":               {inUnit, first, false, false},
		"processes of its own":               {inUnit, inUnit, true, false},
		"processes and a network of its own": {inUnit, inUnit, false, false},
		"a container":                        {"0::/\n", "0::/\n", true, false},
		"process 1 is hidden":                {inUnit, "", true, false},
	} {
		proc := t.TempDir()
		for who, group := range map[string]string{"thread-self": tc.ours, "1": tc.first} {
			if group == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Join(proc, who, "net"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, who, "cgroup"), []byte(group), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ours, theirs := filepath.Join(proc, "thread-self/net/dev"), filepath.Join(proc, "1/net/dev")
		if err := os.WriteFile(ours, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		switch {
		case tc.first == "":
		case tc.sameNetwork:
			if err := os.Link(ours, theirs); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.WriteFile(theirs, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := inMachinesNetwork(host.Proc(proc)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestOwnNetworkIsNotMistaken: an agent in its own namespaces never takes their network for the machine's.
func TestOwnNetworkIsNotMistaken(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	for _, flags := range []string{"-n", "-pf --mount-proc -n", "-pf --mount-proc", "-pf -n", "-pf --mount-proc -n -C"} {
		argv := append(strings.Fields(flags), os.Args[0], "-test.run=^TestSeenNetwork$", "network")
		out, err := exec.Command("unshare", argv...).CombinedOutput()
		if own := strings.Contains(flags, "-n"); err != nil || (own && !strings.Contains(string(out), "machines: false")) {
			t.Errorf("unshare %s: %v, %s", flags, err, out)
		}
	}
}

// TestSeenNetwork is not a test: TestOwnNetworkIsNotMistaken runs it in other namespaces.
func TestSeenNetwork(t *testing.T) {
	if !slices.Contains(os.Args, "network") {
		return
	}
	fmt.Println("machines:", InMachinesNetwork())
	os.Exit(0)
}
