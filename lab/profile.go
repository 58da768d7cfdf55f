//go:build linux

package lab

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/profile"
)

// writeProfile writes the profile for preflights, drills and bundles of this lab.
func (l *Lab) writeProfile() (string, error) {
	p, err := l.profile()
	if err != nil {
		return "", err
	}
	data, err := yaml.Marshal(p)
	if err != nil {
		return "", err
	}
	head := "# written by `gpuaasctl lab up`, removed by `gpuaasctl lab down`\n"
	return l.state.Profile, writeFile(l.state.Profile, append([]byte(head), data...), 0o600)
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
	ssh := profile.SSH{User: "ops", Port: 22, Identity: l.secret(fileSSHKey), KnownHosts: l.secret(fileKnownHosts)}
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
	for _, m := range l.Machines()[1:] {
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
