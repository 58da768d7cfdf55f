package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// The kinds of platforms that a profile may describe.
const (
	KindGPUaaS         = "gpuaas" // the reference platform: its default paths are declared
	KindSSHOnly        = "ssh-only"
	KindSSHHTTPS       = "ssh-https"
	KindKubernetesNode = "kubernetes-node"
	KindTeleportLike   = "teleport-like"
	KindSlurmNode      = "slurm-node"
)

// Kinds returns the kinds of platforms, in the order of the constants.
func Kinds() []string {
	return []string{KindGPUaaS, KindSSHOnly, KindSSHHTTPS, KindKubernetesNode, KindTeleportLike, KindSlurmNode}
}

func checkKind(kind string) error {
	if kind == "" || slices.Contains(Kinds(), kind) {
		return nil
	}
	return fmt.Errorf("there is no kind of platform %q%s: want %s", kind, strictyaml.Nearest(kind, Kinds()),
		strings.Join(Kinds(), ", "))
}

// checkAbsentAgent refuses settings of an agent that the profile declares absent.
func checkAbsentAgent(a Agent) error {
	if a.Absent() && a.describes() {
		return errors.New("agent.present is false, so agent has no other key: remove one or the other")
	}
	return nil
}

// describes reports whether any key but present is set.
func (a Agent) describes() bool {
	return a.Unit != "" || a.EnvFile != "" || a.Dir != "" || a.Binary != "" || a.Record != "" || a.GPUState != "" ||
		a.VersionCommand != nil
}
