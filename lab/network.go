//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const netnsDir = "/run/netns"

func netnsPath() string { return filepath.Join(netnsDir, netnsName) }

// networkPlan returns the commands that create the lab's network, in order. The host's end comes last: if it
// exists with its address, the whole network does.
func networkPlan() [][]string {
	in := func(args ...string) []string { return append([]string{"ip", "-n", netnsName}, args...) }
	return [][]string{
		{"ip", "netns", "add", netnsName},
		in("link", "set", "lo", "up"),
		in("link", "add", bridgeName, "type", "bridge"),
		in("link", "set", bridgeName, "up"),
		{"ip", "link", "add", hostLink, "type", "veth", "peer", "name", uplinkName, "netns", netnsName},
		in("link", "set", uplinkName, "master", bridgeName, "up"),
		{"ip", "link", "set", hostLink, "up"},
		{"ip", "address", "add", fmt.Sprintf("%s/%d", hostAddress, prefixLen), "dev", hostLink},
	}
}

// networkUp reports whether the complete network exists.
func networkUp(ctx context.Context) bool {
	ifi, err := net.InterfaceByName(hostLink)
	if err != nil {
		return false
	}
	addrs, _ := ifi.Addrs()
	if !slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), hostAddress+"/") }) {
		return false
	}
	_, err = command(ctx, "ip", "-n", netnsName, "link", "show", bridgeName)
	return err == nil
}

// makeNetwork rebuilds the network. Machines on the old network must be stopped first.
func makeNetwork(ctx context.Context) error {
	if err := removeNetwork(ctx); err != nil {
		return err
	}
	if err := subnetFree(); err != nil {
		return err
	}
	for _, argv := range networkPlan() {
		if _, err := command(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork removes the link and the namespace. A missing one is not an error.
func removeNetwork(ctx context.Context) error {
	var errs []error
	if _, err := net.InterfaceByName(hostLink); err == nil {
		_, err := command(ctx, "ip", "link", "delete", hostLink)
		errs = append(errs, err)
	}
	if _, err := os.Stat(netnsPath()); err == nil {
		_, err := command(ctx, "ip", "netns", "delete", netnsName)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// subnetFree returns an error if the host already uses the lab's addresses.
func subnetFree() error {
	lab := netip.MustParsePrefix(subnet)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list the host's addresses: %w", err)
	}
	for _, a := range addrs {
		if ip, err := netip.ParsePrefix(a.String()); err == nil && lab.Contains(ip.Addr()) {
			return fmt.Errorf("this host already has %s in the lab's network %s", a, subnet)
		}
	}
	return nil
}
