//go:build linux

package lab

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The lab's address plan is the same in every lab, so that profiles, transcripts and tests have the same
// addresses.
const (
	netnsName    = "gpuaas-lab" // the namespace that holds the bridge and one end of every machine's link
	bridgeName   = "lab0"
	hostLink     = "gpuaas-lab" // the host's end of the link into the namespace
	uplinkName   = "uplink"     // the link's other end, a port of the bridge
	prefixLen    = 24
	subnet       = "10.231.77.0/24"
	hostAddress  = "10.231.77.1"
	edgeAddress  = "10.231.77.10" // on the platform: public edge, DNS, node-facing terminal
	nodeAddress  = "10.231.77.11" // platform: node ingress
	appPort      = 8888
	platformName = "platform"
	nodePrefix   = "compute-node-"
	barePrefix   = "bare-node-"
)

// splitNode is the number of the node with a small root file system and a separate one for /var, as on many real
// hosts: its root can be full while its agent's record is not.
const splitNode = 2

// Names that the lab's DNS serves.
const (
	apiHost     = "api.gpuaas.test"
	termHost    = "term.gpuaas.test"
	nodeAPIHost = "node-api.gpuaas.test"
	appsDomain  = "apps.gpuaas.test"
)

// Disk sizes: small, so that a disk is quickly filled; large enough for binaries, the journal and a database.
const (
	nodeDisk     = "256m"
	smallRoot    = "96m"
	ownVar       = "192m"
	bareDisk     = "256m,nr_inodes=16384" // few inodes, so that a drill can use them up
	platformDisk = "384m"
)

// Machine is one machine of the lab.
type Machine struct {
	Name      string
	Addresses []string // SSH answers on the first one
	Disk      string   // size of the writable layer, as tmpfs spells it
	Var       string   // size of a separate file system for /var; "": /var is on Disk
}

// IsPlatform reports whether m runs the control plane.
func (m Machine) IsPlatform() bool { return m.Name == platformName }

// Address is the address on which SSH answers.
func (m Machine) Address() string { return m.Addresses[0] }

// IsBare reports whether m is a machine with nothing of a platform on it.
func (m Machine) IsBare() bool { return strings.HasPrefix(m.Name, barePrefix) }

// IsNode reports whether m is a compute node, with an agent and an allocation.
func (m Machine) IsNode() bool { return strings.HasPrefix(m.Name, nodePrefix) }

// Allocation is the id of a node's only allocation: alloc-01 on compute-node-01.
func (m Machine) Allocation() string { return "alloc-" + strings.TrimPrefix(m.Name, nodePrefix) }

// AppUnit is the systemd unit of a node's allocation.
func (m Machine) AppUnit() string { return "gpuaas-app-" + m.Allocation() + ".service" }

// container is the machine's name for systemd-nspawn; it must be unique on the host.
func (m Machine) container() string { return "gpuaas-lab-" + m.Name }

func nodeName(i int) string { return fmt.Sprintf(nodePrefix+"%02d", i) }

// machines returns the platform, n nodes and so many bare machines.
func machines(n, bare int) []Machine {
	ms := []Machine{{Name: platformName, Addresses: []string{edgeAddress, nodeAddress}, Disk: platformDisk}}
	for i := 1; i <= n; i++ {
		m := Machine{Name: nodeName(i), Addresses: []string{fmt.Sprintf("10.231.77.%d", 100+i)}, Disk: nodeDisk}
		if i == splitNode {
			m.Disk, m.Var = smallRoot, ownVar
		}
		ms = append(ms, m)
	}
	for i := 1; i <= bare; i++ {
		ms = append(ms, Machine{Name: fmt.Sprintf(barePrefix+"%02d", i),
			Addresses: []string{fmt.Sprintf("10.231.77.%d", 200+i)}, Disk: bareDisk})
	}
	return ms
}

// place holds the paths of a machine's files on the host.
type place struct{ dir string }

func (l *Lab) place(m Machine) place {
	return place{filepath.Join(l.opts.StateDir, "machines", m.Name)}
}

func (p place) disk() string    { return filepath.Join(p.dir, "disk") }
func (p place) varDisk() string { return filepath.Join(p.dir, "var") }
func (p place) root() string    { return filepath.Join(p.dir, "root") }
func (p place) lock() string    { return filepath.Join(p.dir, "seat") }
func (p place) console() string { return filepath.Join(p.dir, "console.log") }
