package openssh

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// local is a machine where two names exist.
func local() Local {
	names := map[string]string{"gpu-a.lab.test.": "gpu-a.lab.test.", "www.lab.test.": "edge.cdn.test."}
	return Local{Home: "/home/op", User: "op", UID: "1000", Name: "desk.lab.test",
		Getenv: func(name string) (string, bool) { return "value", name == "SET" },
		Run:    func(_ context.Context, _, command string) (bool, error) { return command == "yes", nil },
		Lookup: func(_ context.Context, name string) (string, error) {
			if canonical, ok := names[name]; ok {
				return canonical, nil
			}
			return "", errors.New("no such name")
		}}
}

func read(t *testing.T, text, host string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(t.Context(), []File{{Path: file, Checked: true}}, host, Given{}, local())
}

// valuesOf are values that a keyword accepts, where a plain word is none.
var valuesOf = map[string]string{"port": "22", "addressfamily": "inet", "canonicalizehostname": "yes",
	"canonicalizemaxdots": "2", "requiredrsasize": "2048", "connecttimeout": "5s", "kexalgorithms": "curve25519-sha256",
	"ciphers": "aes128-ctr", "macs": "hmac-sha2-256", "hostkeyalgorithms": "ssh-ed25519", "hostname": "h",
	"pubkeyacceptedalgorithms": "ssh-ed25519", "casignaturealgorithms": "ssh-ed25519", "pubkeyauthentication": "yes"}

// TestEveryKeyword: no keyword of ssh_config is dropped without a word. Each is kept for who honours it, or is named
// with file and line, or has no effect on a login.
func TestEveryKeyword(t *testing.T) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(keywords)), slices.Collect(maps.Keys(aliases))) {
		if name == "refuseconnection" {
			continue
		}
		class, ok := ClassOf(name)
		if !ok {
			t.Errorf("%s has no class", name)
			continue
		}
		real := name
		if a, is := aliases[name]; is {
			real = a
		}
		value := valuesOf[real]
		if value == "" {
			value = map[bool]string{true: "yes", false: "word"}[keywords[real].shape == bool2]
		}
		c, err := read(t, "Host h\n"+strings.ToUpper(name)+" = "+value+"\n", "h")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := func(failed bool) bool {
			return strings.Contains(strings.Join(c.NotUsed(failed), "\n"), strings.ToUpper(name)+" "+value+" (")
		}
		if c.Get(real) == nil {
			t.Errorf("%s is not kept", name)
		}
		if said(false) != (class == Unused) || said(true) != (class == Unused || class == Instead) {
			t.Errorf("%s, of class %d, is named: %q, %q", name, class, c.NotUsed(false), c.NotUsed(true))
		}
		for _, idle := range keywords[real].idle {
			c, err := read(t, name+" "+idle, "h")
			if err != nil || len(c.NotUsed(true)) > 0 {
				t.Errorf("%s %s changes nothing, and is named: %v %v", name, idle, c, err)
			}
		}
	}
	if _, ok := ClassOf("nosuchkeyword"); ok {
		t.Error("a keyword that is none has a class")
	}
}

// TestRefusesAsOpenSSH: a mistake in any line refuses every login.
func TestRefusesAsOpenSSH(t *testing.T) {
	for _, bad := range []string{"NoSuchKeyword yes", "Port 0", "Port x", "Port 1 2", "User", "IdentitiesOnly maybe",
		"User \"open", "AddressFamily ipx", "CanonicalizeHostname often", "CanonicalizeMaxDots x", "ConnectTimeout soon",
		"Ciphers nosuch", "KexAlgorithms +nosuch", "Host", "Match", "Match nonsense x", "Match host", "Match user x all",
		"Include", "RefuseConnection closed", "ProxyCommand", "RequiredRSASize x"} {
		for _, before := range []string{"", "Host other\n"} {
			if bad == "RefuseConnection closed" && before != "" {
				continue
			}
			if _, err := read(t, before+bad+"\n", "h"); err == nil || !strings.Contains(err.Error(), "config:") {
				t.Errorf("%q after %q: %v", bad, before, err)
			}
		}
	}
	if _, err := read(t, "IgnoreUnknown No*,Use*\nNoSuchKeyword yes\nUseSuch x y z\n", "h"); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o620)); err != nil {
		t.Fatal(err)
	}
	_, err := Read(t.Context(), []File{{Path: file, Checked: true}}, "h", Given{}, local())
	if err == nil || !strings.Contains(err.Error(), "bad owner or permissions") {
		t.Errorf("a file that others may write: %v", err)
	}
}

// TestCanonicalNames: a short name is looked up in the domains, and the files are read again for what is found.
func TestCanonicalNames(t *testing.T) {
	const always = "CanonicalizeHostname yes\nCanonicalDomains none.test lab.test\n"
	const blocks = "Host *.lab.test\n  Port 2201\nMatch canonical host *.test\n  User final\n"
	for name, tc := range map[string]struct{ config, host, want string }{
		"found":             {always + blocks, "gpu-a", "final@gpu-a.lab.test:2201"},
		"capitals":          {always + blocks, "GPU-a", "final@gpu-a.lab.test:2201"},
		"not found":         {always + blocks, "gpu-z", "op@gpu-z:22"},
		"not asked for":     {"CanonicalDomains lab.test\n" + blocks, "gpu-a", "op@gpu-a:22"},
		"many dots":         {always + blocks, "a.b.gpu-a", "op@a.b.gpu-a:22"},
		"no dot is allowed": {always + "CanonicalizeMaxDots 0\n" + blocks, "gpu-a.x", "op@gpu-a.x:22"},
		"behind a proxy":    {always + blocks + "Match all\n  ProxyCommand x\n", "gpu-a", "op@gpu-a:22"},
		"always": {"CanonicalizeHostname always\nCanonicalDomains lab.test\n" + blocks +
			"Match all\n  ProxyJump x\n", "gpu-a", "final@gpu-a.lab.test:2201"},
		"an alias": {always + "CanonicalizePermittedCNAMEs *.lab.test:*.cdn.test\n" + blocks,
			"www", "final@edge.cdn.test:22"},
		"a foreign alias": {always + "CanonicalizePermittedCNAMEs *.lab.test:*.lab.test\n" + blocks,
			"www", "final@www.lab.test:2201"},
		"an address":       {always + blocks, "::0001", "op@::1:22"},
		"an old address":   {blocks, "127.1", "op@127.0.0.1:22"},
		"a name is set":    {always + "Host n\n  HostName gpu-a\n" + blocks, "n", "final@gpu-a.lab.test:2201"},
		"final alone":      {"Host n\n  HostName X\nMatch final host x\n  User f\n", "n", "f@x:22"},
		"the domain's end": {always + blocks, "gpu-a.lab.test.", "final@gpu-a.lab.test:2201"},
	} {
		c, err := read(t, tc.config, tc.host)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.User() + "@" + c.Host + ":" + c.Port(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if _, err := read(t, always+"CanonicalizeFallbackLocal no\n", "gpu-z"); err == nil {
		t.Error("a host in no domain was taken")
	}
}

// TestTokens: tokens and variables are expanded where ssh_config(5) allows them.
func TestTokens(t *testing.T) {
	c, err := read(t, "HostName %h.test\nUser ops\nPort 2200\nProxyJump me@first,last:1\n", "n")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"%d/%h/%n/%p/%r/%u/%i": "/home/op/n.test/n/2200/ops/op/1000",
		"%L %l %k %j":          "desk desk.lab.test n last:1", "%%h": "%h",
		"~/x": "/home/op/x", "~op/x": "/home/op/x", "~other/x": "~other/x", "${SET}/x": "value/x", "$SET": "$SET",
		"%C": "6d9d97f6b8b8b8b8", "%q": "", "%": "", "${UNSET}": "", "${SET": "", "${}": "",
	} {
		got, err := c.Path(&Value{Word: "IdentityFile"}, text)
		if text == "%C" {
			if len(got) != 40 || err != nil {
				t.Errorf("%s: %q %v", text, got, err)
			}
			continue
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
}

// FuzzRead: no text makes the reader fail otherwise than by an error, and what it keeps is of known keywords.
func FuzzRead(f *testing.F) {
	f.Add("Host a\n Port=22\nMatch exec \"yes\" final\nUser 'x y'\nInclude *\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(t, text, "host")
		if err != nil {
			return
		}
		for name := range c.values {
			if _, ok := ClassOf(name); !ok {
				t.Errorf("%q was kept", name)
			}
		}
	})
}
