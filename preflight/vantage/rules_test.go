package vantage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestHostKeys: a host key is accepted only if a file has exactly it for the host; only a host without any known key
// may be accepted for the first time.
func TestHostKeys(t *testing.T) {
	shown, other := sshtest.NewKey(t).PublicKey(), sshtest.NewKey(t).PublicKey()
	line := func(host string, k ssh.PublicKey) string { return knownhosts.Line([]string{host}, k) + "\n" }
	missing := filepath.Join(t.TempDir(), "none")
	remote := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22}
	for name, tc := range map[string]struct {
		files []string // texts
		want  string   // part of the error
		first bool     // whether the operator may accept a first key
	}{
		"known":                   {[]string{line("node", shown)}, "", false},
		"known in the second":     {[]string{line("other", other), line("node", shown)}, "", false},
		"two known keys":          {[]string{line("node", other) + line("node", shown)}, "", false},
		"another key":             {[]string{line("node", other)}, "the host key of node:22 has CHANGED", false},
		"another key in one file": {[]string{line("node", other), line("other", shown)}, "has CHANGED", false},
		"another host's": {[]string{line("other", shown)},
			"no host key of node:22 has been accepted yet (looked in ", true},
		"another port's": {[]string{line("[node]:2222", shown)}, "no host key of node:22", true},
		"an empty file":  {[]string{""}, "(looked in ", true},
		"no file":        {nil, "(" + missing + " does not exist)", true},
		"revoked": {[]string{line("node", shown) + "@revoked " + line("node", shown)}, "is revoked by ",
			false},
		"revoked, and never accepted": {[]string{"@revoked * " + strings.SplitN(line("node", shown), " ", 2)[1]},
			"is revoked by ", false},
	} {
		hosts := []string{missing}
		for _, text := range tc.files {
			hosts = append(hosts, writeFile(t, "known_hosts", []byte(text)))
		}
		to := &target{host: "node", port: "22", user: "root", knownHosts: hosts}
		known, err := readKnownKeys(t.Context(), to, "trust it")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = known.check(to, remote, shown)
		var refused *hostKeyError
		if errors.As(err, &refused) != (tc.want != "") || (refused != nil && (refused.unknown != tc.first ||
			!strings.Contains(refused.text, tc.want) || !strings.Contains(refused.text, ssh.FingerprintSHA256(shown)) ||
			strings.Contains(refused.text, "trust it") != tc.first)) {
			t.Errorf("%s: %+v, want %q, first %t", name, err, tc.want, tc.first)
		}
	}
	known := &knownKeys{files: []string{missing, missing + "2"}}
	if got := known.searched(); got != "none of "+missing+", "+missing+"2 exists" {
		t.Error(got)
	}
	skipping, err := readKnownKeys(t.Context(),
		&target{knownHosts: []string{writeFile(t, "k", []byte("no line of a key\n"))}}, "")
	if err != nil || len(skipping.hosts.Skipped) != 1 || !strings.Contains(skipping.hosts.Skipped[0], "k:1: ") {
		t.Errorf("a file that is none of known hosts: %v %v", skipping, err)
	}
}

// TestSSHFilesOfProfiles: a missing identity is refused, a missing known_hosts is not, and a pipe is never read.
func TestSSHFilesOfProfiles(t *testing.T) {
	dir := t.TempDir()
	key, public, pipe, none := filepath.Join(dir, "k"), filepath.Join(dir, "p"), filepath.Join(dir, "pipe"),
		filepath.Join(dir, "none")
	if err := errors.Join(os.WriteFile(key, nil, 0o600), os.WriteFile(public+".pub", nil, 0o600),
		syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		of   profile.SSH
		want string // the start of the error
	}{
		"nothing":                {profile.SSH{}, ""},
		"a key and a file":       {profile.SSH{Identity: key, KnownHosts: key}, ""},
		"a public key alone":     {profile.SSH{Identity: public}, ""},
		"no key":                 {profile.SSH{Identity: none}, "ssh.identity: "},
		"a key of each host":     {profile.SSH{Identity: none + "/%h"}, ""},
		"a file not yet there":   {profile.SSH{KnownHosts: none}, ""},
		"a file of each host":    {profile.SSH{KnownHosts: pipe + "/%h"}, ""},
		"a pipe":                 {profile.SSH{KnownHosts: pipe}, "ssh.known_hosts: " + pipe + " is a pipe"},
		"a folder":               {profile.SSH{KnownHosts: dir}, "ssh.known_hosts: "},
		"neither can be used":    {profile.SSH{Identity: none, KnownHosts: pipe}, "ssh.identity: "},
		"an identity is enough":  {profile.SSH{Identity: key}, ""},
		"known hosts are enough": {profile.SSH{KnownHosts: key}, ""},
	} {
		err := CheckFiles(tc.of)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if err := CheckFiles(profile.SSH{Identity: none, KnownHosts: pipe}); strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("both mistakes: %v", err)
	}
}

// TestWordsOfSessions: what the remote side wrote, and how it ended unless it ended well.
func TestWordsOfSessions(t *testing.T) {
	for want, s := range map[string]*session{
		"":                       {status: "exit status 0", last: scriptLine{code: -1}},
		"exit status 3":          {status: "exit status 3", last: scriptLine{code: -1}},
		"exit code 0":            {status: "exit status 3", last: scriptLine{word: "exit", code: 0}},
		"exit code 7":            {last: scriptLine{word: "exit", code: 7}},
		"killed":                 {status: "killed", last: scriptLine{word: "exit", code: -1}},
		"wrong":                  {stderr: []byte("wrong\n"), last: scriptLine{code: -1}},
		"output: hello":          {greeting: []byte("hello"), last: scriptLine{code: -1}},
		"a; output: b; status c": {stderr: []byte("a"), greeting: []byte("b"), status: "status c"},
	} {
		if got := s.words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a := Answer{Notes: []string{"one 1", "two", "one 2"}}
	for word, want := range map[string]string{"one": "1 true", "two": " true", "on": " false", "": " false"} {
		if rest, found := a.Note(word); fmt.Sprint(rest, " ", found) != want {
			t.Errorf("%q: %q %t, want %s", word, rest, found, want)
		}
	}
}

// TestBudget: two streams write as many bytes together as the budget has; the byte after that is written to neither,
// and ends them.
func TestBudget(t *testing.T) {
	spent := make(chan struct{}, 1)
	var a, b bytes.Buffer
	of := &budget{left: 4, spent: func() { spent <- struct{}{} }}
	first, second := of.of(&a), of.of(&b)
	for _, w := range []io.Writer{first, second} {
		if _, err := io.WriteString(w, "xy"); err != nil || of.over() {
			t.Errorf("within the budget: %v", err)
		}
	}
	if n, err := io.WriteString(second, ""); n != 0 || err != nil || of.over() {
		t.Errorf("nothing is within the budget: %d %v", n, err)
	}
	if n, _ := io.WriteString(first, "z"); n != 0 || !of.over() {
		t.Errorf("%d bytes over the budget were written", n)
	}
	<-spent
	if _, err := io.WriteString(second, "z"); !errors.Is(err, os.ErrClosed) || a.String()+b.String() != "xyxy" {
		t.Errorf("after it: %v, %q %q", err, a.String(), b.String())
	}
	of = &budget{left: 3, spent: func() { spent <- struct{}{} }}
	a.Reset()
	if _, _ = io.WriteString(of.of(&a), "abcd"); a.String() != "abc" {
		t.Errorf("what the budget still has is written: %q", a.String())
	}
	<-spent
}

// TestReasonsOfFailures: what a phase waited for, and an error's shortest text.
func TestReasonsOfFailures(t *testing.T) {
	to := &target{host: "node", port: "22"}
	for phase, want := range map[string]string{
		phaseConfig: "the login was not attempted", phaseDNS: "the name node was not looked up in time",
		phaseTCP:     "node:22 did not answer the connection",
		phaseBanner:  "node:22 accepted the connection and sent no SSH banner",
		phaseHostKey: "node:22 sent its banner and did not finish the key exchange",
		phaseAuth:    "node:22 did not finish the login",
	} {
		if got := silence(phase, to); got != want {
			t.Errorf("%s: %s", phase, got)
		}
		if got := NotFound(fmt.Errorf("it: %w", &refusal{phase: phase})); got != (phase == phaseDNS) {
			t.Errorf("%s: a name does not exist: %t", phase, got)
		}
	}
	if NotFound(io.EOF) {
		t.Error("a stream that ends is no name")
	}
	for want, errs := range map[string][]error{
		"end of stream": {io.EOF, io.ErrUnexpectedEOF, fmt.Errorf("read: %w", net.ErrClosed),
			errors.New("ssh: unexpected packet in response to channel open: <nil>")},
		"connection reset": {fmt.Errorf("read: %w", syscall.ECONNRESET)},
		"no way":           {errors.New("ssh: handshake failed: no way"), errors.New("no way")},
	} {
		for _, err := range errs {
			if got := reason(err); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
			if got := probeErrno(err); (got == "ECONNRESET") != (want == "connection reset") {
				t.Errorf("%v: %q", err, got)
			}
		}
	}
}

// TestManyKeys: a server that ends the login after too many keys has not seen all of them, unless it accepted one.
func TestManyKeys(t *testing.T) {
	one, two := sshtest.NewKey(t), sshtest.NewKey(t)
	many := errors.New("ssh: disconnect, reason 2: Too many authentication failures")
	name := "key"
	for what, tc := range map[string]struct {
		keys     []ssh.Signer
		accepted *string
		err      error
		cut      bool
	}{
		"two keys": {[]ssh.Signer{one, two}, nil, many, true}, "one key": {[]ssh.Signer{one}, nil, many, false},
		"accepted":      {[]ssh.Signer{one, two}, &name, many, false},
		"another error": {[]ssh.Signer{one, two}, nil, io.EOF, false}, "no error": {[]ssh.Signer{one, two}, nil, nil, false},
	} {
		c := &credentials{signers: tc.keys}
		c.accepted.Store(tc.accepted)
		if c.cutShort(tc.err); (len(c.missing) > 0) != tc.cut {
			t.Errorf("%s: %q", what, c.missing)
		}
		got := c.refused("op")
		if strings.Contains(got, "accepts the key "+name) != (tc.accepted != nil) ||
			strings.Contains(got, ssh.FingerprintSHA256(one.PublicKey())) == (tc.accepted != nil) {
			t.Errorf("%s: %s", what, got)
		}
	}
}
