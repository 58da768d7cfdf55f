//go:build linux

package lab

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/profile"
)

// writeProfile writes the profile for preflights, drills and bundles of this lab, and that of its bare machines.
func (l *Lab) writeProfile() (string, error) {
	p, err := l.profile()
	if err != nil {
		return "", err
	}
	if len(l.bare()) > 0 {
		if err := putProfile(l.bareProfilePath(), l.bareProfile()); err != nil {
			return "", err
		}
	}
	return l.state.Profile, putProfile(l.state.Profile, p)
}

func putProfile(path string, p profile.Profile) error {
	data, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	head := "# written by `gpuaasctl lab up`, removed by `gpuaasctl lab down`\n"
	return writeFile(path, append([]byte(head), data...), 0o600)
}

// bareProfilePath is beside the lab's profile: lab-bare.yaml.
func (l *Lab) bareProfilePath() string {
	return strings.TrimSuffix(l.state.Profile, ".yaml") + "-bare.yaml"
}

// bareProfile describes the bare machines as somebody would who has no platform: SSH, and the address of an API.
func (l *Lab) bareProfile() profile.Profile {
	p := profile.Profile{
		Kind: profile.KindSSHOnly, Agent: profile.Agent{Present: new(false)},
		Allocation: profile.Allocation{Present: new(false)}, Nodes: map[string]profile.Node{}, SSH: l.login(),
		Chaos: profile.Chaos{Allow: true},
	}
	for _, m := range l.bare() {
		p.Nodes[m.Name] = profile.Node{Host: m.Address()}
	}
	return p
}

// login is how an operator logs in to every machine.
func (l *Lab) login() profile.SSH {
	return profile.SSH{User: "ops", Port: 22, Identity: l.secret(fileSSHKey), KnownHosts: l.secret(fileKnownHosts)}
}

func (l *Lab) profile() (profile.Profile, error) {
	sign, err := l.fingerprintOf(fileSigningCA)
	if err != nil {
		return profile.Profile{}, err
	}
	nodeAPI, err := l.fingerprintOf(fileNodeAPICert)
	if err != nil {
		return profile.Profile{}, err
	}
	ssh := l.login()
	platformSSH := ssh
	platformSSH.Host, platformSSH.User = edgeAddress, "root"
	p := profile.Profile{
		Kind: profile.KindGPUaaS, APIBase: "https://" + apiHost, APIResolveAddress: edgeAddress,
		TerminalBase: "https://" + termHost, TerminalResolveAddress: edgeAddress,
		AppResolveAddress: edgeAddress,
		NodeRuntimeAPIURL: nodeAPIURL, NodeRuntimeResolveAddress: nodeAddress,
		NodeTerminalURL: nodeTerminalURL, NodeTerminalResolveAddress: edgeAddress,
		Nodes: map[string]profile.Node{}, SSH: ssh, PlatformSSH: platformSSH,
		Auth: profile.Auth{TokenFile: l.secret(fileToken)},
		Trust: profile.Trust{
			OperatorCA: l.secret(fileEdgeCA), NodeCA: l.secret(fileNodeBundle),
			SigningCAFingerprint: sign, IngressCAFingerprint: sign, NodeAPIServerFingerprint: nodeAPI,
		},
		App: profile.App{
			Websocket: "/ws", HeadersPath: "/headers",
			InjectedHeaders: []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Allocation-Id"},
		},
		Policy: map[string]int64{profile.PolicyHeartbeatInterval: 2},
		Chaos:  profile.Chaos{Allow: true, CACert: l.secret(fileSigningCA), CAKey: l.secret(fileSigningKey)},
	}
	for _, row := range policy {
		p.Policy[row.Key] = row.Value
	}
	for _, m := range l.nodes() {
		p.Nodes[m.Name] = profile.Node{Host: m.Address(), Labels: map[string]string{"lab": "true"}}
	}
	return p, nil
}

func (l *Lab) fingerprintOf(name string) (string, error) {
	data, err := os.ReadFile(l.secret(name))
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", errors.New("no certificate in " + name)
	}
	return fmt.Sprintf("%x", sha256.Sum256(block.Bytes)), nil
}

// SSHArgv returns the command line that logs in to machine as root with the lab's key.
func (l *Lab) SSHArgv(machine string, argv ...string) ([]string, error) {
	m, err := l.Machine(machine)
	if err != nil {
		return nil, err
	}
	host := net.ParseIP(m.Address()).String()
	full := []string{"ssh", "-F", "none", "-i", l.secret(fileSSHKey), "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile=" + l.secret(fileKnownHosts), "-o", "StrictHostKeyChecking=yes", "root@" + host}
	return append(full, argv...), nil
}
