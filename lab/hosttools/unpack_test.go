package hosttools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnpack runs stand-ins for apt-get and dpkg: unpacked programs are found below the folder, one failed package
// does not affect the others, and nothing is downloaded twice.
func TestUnpack(t *testing.T) {
	home, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"apt-get": `case $1 in update) exit 0 ;; esac
for p; do case $p in Dir::Cache::archives=*) dir=${p#*=} ;; caddy) echo no such package; exit 100 ;; esac; done
case "$*" in *--download-only*) : >"$dir/${p%-bin}.deb" ;; *) echo it would be installed; exit 1 ;; esac`,
		"dpkg": `[ "$1" = -x ] || exit 1
name=${2##*/}; name=${name%.deb}
mkdir -p "$3/usr/sbin" "$3/usr/lib/x86_64-linux-gnu" && cp "$0" "$3/usr/sbin/$name"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+text+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	brought, err := unpackBelow(t.Context(), home, Server)
	if !slices.Equal(brought, []string{"nginx", "haproxy", "apache2-bin"}) || err == nil ||
		!strings.Contains(err.Error(), "unpack caddy: apt-get install") {
		t.Errorf("%q, %v", brought, err)
	}
	path, env := findBelow(home, "haproxy")
	if path != filepath.Join(home, "haproxy/usr/sbin/haproxy") ||
		!slices.Equal(env, []string{"LD_LIBRARY_PATH=" + filepath.Join(home, "haproxy/usr/lib/x86_64-linux-gnu")}) {
		t.Errorf("%q with %q", path, env)
	}
	if path, _ := findBelow(home, "caddy"); path != "" {
		t.Errorf("caddy is at %q", path)
	}
	if again, err := unpackBelow(t.Context(), home, Server); len(again) != 0 || err == nil {
		t.Errorf("once more: %q, %v", again, err)
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".unpack-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}
