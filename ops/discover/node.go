package discover

import (
	"context"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Node is what a node showed.
type Node struct {
	Host string
	// HostKey is the fingerprint of a host key that nobody has accepted yet; "" if the key is known, or was not seen.
	HostKey string
	Error   string // why no login was possible; "" if one was
	As      string // who a login may become: "root", "sudo", or "login" for nobody else
	System  string // PRETTY_NAME of its os-release; "" if it has none
	Agents  []Agent
	GPU     bool // NVIDIA's driver is loaded
}

// Agent is a unit of a platform's agent that a node has.
type Agent struct {
	Unit   string
	Active bool
	Kind   string // of the platform, as in a profile
}

// agents are the units that are looked for, with the kind of platform that each belongs to.
var agents = [...]Agent{
	{Unit: "gpuaas-node-agent.service", Kind: profile.KindGPUaaS},
	{Unit: "kubelet.service", Kind: profile.KindKubernetesNode},
	{Unit: "k3s-agent.service", Kind: profile.KindKubernetesNode},
	{Unit: "k3s.service", Kind: profile.KindKubernetesNode},
	{Unit: "rke2-agent.service", Kind: profile.KindKubernetesNode},
	{Unit: "snap.microk8s.daemon-kubelite.service", Kind: profile.KindKubernetesNode},
	{Unit: "teleport.service", Kind: profile.KindTeleportLike},
	{Unit: "slurmd.service", Kind: profile.KindSlurmNode},
}

// inspectNode logs in and reads. Nothing is written on the node.
func inspectNode(ctx context.Context, cfg vantage.NodeConfig) *Node {
	found := &Node{Host: cfg.Host}
	cfg.Bare = true
	cfg.SSH.Sudo = new(bool) // the login itself looks
	node := vantage.NewNode(cfg)
	defer node.Close()
	s := vantage.Script{Text: nodeScript}
	for _, a := range agents {
		s.Args = append(s.Args, a.Unit)
	}
	answer, err := node.Exec(ctx, s)
	if err == nil {
		found.read(answer.Notes)
		return found
	}
	found.Error = err.Error()
	if vantage.KeyUnknown(err) {
		if fingerprint, _, err := vantage.AcceptHostKey(ctx, cfg); err == nil {
			found.HostKey = fingerprint
		}
	}
	return found
}

// read takes the script's notes.
func (n *Node) read(notes []string) {
	for _, note := range notes {
		word, rest, _ := strings.Cut(note, " ")
		switch word {
		case "as":
			if slices.Contains([]string{"root", "sudo", "login"}, rest) {
				n.As = rest
			}
		case "system":
			n.System = strings.Trim(rest, `"'`)
		case "gpu":
			n.GPU = true
		case "unit":
			name, state, _ := strings.Cut(rest, " ")
			if i := slices.IndexFunc(agents[:], func(a Agent) bool { return a.Unit == name }); i >= 0 {
				n.Agents = append(n.Agents, Agent{Unit: name, Kind: agents[i].Kind, Active: state == "active"})
			}
		}
	}
	if n.As == "" {
		n.Error = "the node's shell did not say who the login is"
	}
}

// nodeScript says who the login is and may become, what system the node has, and which of the units in its arguments.
const nodeScript = `export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
say() { printf 'GPUAASCTL-SENTINEL %s\n' "$*" >&2; }
as=login
if [ "$(id -u)" = 0 ]; then as=root; elif sudo -n true 2>/dev/null; then as=sudo; fi
say "as $as"
name=$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | head -n 1 | tr -dc '[:print:]' | head -c 80)
[ -z "$name" ] || say "system $name"
[ ! -e /proc/driver/nvidia/version ] || say gpu
for u; do
  [ "$(systemctl show -p LoadState "$u" 2>/dev/null)" = LoadState=loaded ] || continue
  state=$(systemctl is-active "$u" 2>/dev/null)
  say "unit $u $state"
done
`
