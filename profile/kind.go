package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
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

// OptionalHops are the hops that Profile.Hops may add or leave out.
func OptionalHops() (ids []diag.HopID) {
	for _, row := range diag.Hops() {
		if row.Optional {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// LeavesOut says why this environment's walks leave an optional hop out; "" if they have it. Other kinds of platforms
// than the reference platform have it unless the profile says otherwise.
func (p *Profile) LeavesOut(id diag.HopID) string {
	wanted, said := p.Hops[id]
	switch {
	case wanted:
		return ""
	case said:
		return fmt.Sprintf("the profile leaves it out (hops.%s: false)", id)
	case p.Kind == "" || p.Kind == KindGPUaaS:
		return fmt.Sprintf("not asked for (hops.%s: true in the profile)", id)
	}
	return ""
}

func checkOptionalHop(id diag.HopID) error {
	if slices.Contains(OptionalHops(), id) {
		return nil
	}
	var names []string
	for _, known := range OptionalHops() {
		names = append(names, string(known))
	}
	return fmt.Errorf("there is no optional hop %q%s: want %s", id, strictyaml.Nearest(string(id), names),
		strings.Join(names, ", "))
}

// NoPaths maps every path of a platform to Absent, for a profile of machines that belong to none: nothing is sent
// there.
func NoPaths() map[string]string {
	paths := map[string]string{}
	for _, name := range pathNames() {
		paths[name] = Absent
	}
	return paths
}

// CheckURL refuses a base URL that no request could be sent to, or that holds a login.
func CheckURL(v string) error { return checkURL(v) }
