package hosttools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// folder creates a folder with executable files of these names; one that ends in "-" is not executable.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		mode := os.FileMode(0o755)
		if strings.HasSuffix(name, "-") {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, strings.TrimSuffix(name, "-")), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMissing(t *testing.T) {
	var all []string
	for _, tool := range Table {
		all = append(all, tool.Program)
	}
	everything := folder(t, all...)
	without := func(names ...string) string {
		return folder(t, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(names, s) })...)
	}
	for name, tc := range map[string]struct {
		uses Use
		path string
		want []string // packages
	}{
		"all there":         {Lab | Fast | Suite | Oracle | Bench, everything, nil},
		"no nft":            {Fast, without("nft"), []string{"nftables"}},
		"nft is not lab's":  {Lab, without("nft"), nil},
		"two of a package":  {Fast, without("mkfs.ext4", "e2fsck", "nft"), []string{"nftables", "e2fsprogs"}},
		"in another folder": {Fast, without("nft") + ":" + folder(t, "nft"), nil},
		"not executable":    {Fast, without("nft") + ":" + folder(t, "nft-"), []string{"nftables"}},
		"no path":           {Oracle, "", []string{"openssh-client", "curl", "jq", "openssl"}},
	} {
		if got := Packages(Missing(tc.uses, tc.path)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestInstall runs a stand-in for apt-get, which prints its arguments and installs the programs of some packages.
func TestInstall(t *testing.T) {
	for name, tc := range map[string]struct {
		apt  string // its script; "" is a host without one
		want string // packages, or the error's text
	}{
		"installs": {`case $1 in
			update) touch "$0.updated" ;;
			install) [ -e "$0.updated" ] && for p in nft mkfs.ext4 e2fsck chattr curl openssl zsh fish; do cp "$0" "${0%/*}/$p"; done ;;
			esac`, "nftables e2fsprogs curl openssl procps zsh fish"},
		"no apt-get": {"", "install nftables e2fsprogs curl openssl procps zsh fish first: this host has no apt-get"},
		"cannot update": {`echo no route to the mirror >&2; exit 100`,
			"apt-get update -q: exit status 100: no route to the mirror"},
		"cannot install":   {`[ $1 = update ] || { echo no such package; exit 100; }`, "no such package"},
		"brings it not":    {`exit 0`, "nft is in no folder of PATH"},
		"asks no question": {`[ "$DEBIAN_FRONTEND" = noninteractive ] || exit 0; echo quiet; exit 1`, "quiet"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, "ip", "unshare", "nsenter", "mount", "umount", "ssh")
			if tc.apt != "" {
				if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+tc.apt+"\n"),
					0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			installed, err := Install(t.Context(), Fast)
			got := strings.Join(installed, " ")
			if err != nil {
				got = err.Error()
			}
			if (err == nil && got != tc.want) || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if err == nil {
				if again, err := Install(t.Context(), Fast); len(again) > 0 || err != nil {
					t.Errorf("once more: %q, %v", again, err)
				}
			}
		})
	}
}

// TestDrillsOfTheOperator: every program that a built-in drill runs on the operator's machine is installed with
// the lab.
func TestDrillsOfTheOperator(t *testing.T) {
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range all {
		for _, p := range []chaos.Probe{s.VerifyInjected.Probe, s.VerifyInjected.Control, s.Recovery.Proof} {
			if p.From != chaos.RoleOperator {
				continue
			}
			found++
			program := p.Probe[0]
			if !slices.ContainsFunc(For(Lab), func(tool Tool) bool { return tool.Program == program }) {
				t.Errorf("%s runs %q from the operator's machine: add it to Table, for Lab", s.Metadata.ID, program)
			}
		}
	}
	if found == 0 {
		t.Error("no drill probes from the operator's machine: nothing was compared")
	}
}
