package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// worldOf writes a profile of two nodes, with that SSH port, and that API unless it is empty; it returns the file's
// name.
func worldOf(t *testing.T, sshPort int, api string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("ssh:\n  port: %d\nauth:\n  token_file: %s\nnodes:\n", sshPort, token)
	for i := range 7 {
		text += fmt.Sprintf("  compute-node-0%d: {host: 127.0.0.1}\n", i)
	}
	if api != "" { // and enough time for a busy machine's answer
		text += "api_base: " + api + "\nbudgets: {control_plane_access: 1m, allocation_binding: 1m, node_heartbeat: 1m}\n"
	}
	file := filepath.Join(dir, "world.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// said runs the tool to its end and returns its exit code, stdout and stderr.
func said(t *testing.T, args ...string) (code int, out, words string) {
	t.Helper()
	cmd, stdout := command(t, append([]string{"gpuaasctl"}, args...)...)
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	code = waitCode(t, cmd)
	return code, stdout.String(), stderr.String()
}

// untouched fails the test if a client connects to ln.
func untouched(t *testing.T, ln net.Listener) {
	t.Helper()
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(100 * time.Millisecond))
	if c, err := ln.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("this machine was dialled: %v %v", c, err)
	}
}

// namesNoNode are the commands that do not list a profile's nodes for an unknown one, and why.
var namesNoNode = map[string]string{
	"gpuaasctl node status": "it asks the platform alone, and the profile names none",
	"gpuaasctl gpu status":  "as node status",
	"gpuaasctl ssh trust":   "NODE may be a host that is in no profile",
}

// aboutNode returns the command lines of every command that connects to a node, or queries one, for that node: NODE if
// it is an argument, and --node-id.
func aboutNode(node string) (all [][]string) {
	everyCommand(aTree(), func(c *cobra.Command) {
		of := map[string]bool{"gpuaasctl history list": true, "gpuaasctl profile init": true} // these go nowhere
		flag := c.Flags().Lookup("node-id")
		if !c.Runnable() || of[c.CommandPath()] || (flag == nil && !strings.Contains(c.Use, "NODE")) {
			return
		}
		line := strings.Fields(c.CommandPath())[1:]
		if strings.Contains(c.Use, "DRILL") {
			line = append(line, "agent-stopped")
		}
		for name, value := range map[string]string{"reason": "x", "apply": "true", "confirm": node} {
			if c.Flags().Lookup(name) != nil {
				line = append(line, "--"+name+"="+value)
			}
		}
		var behind []string
		if strings.Contains(c.Use, " -- ") {
			behind = []string{"--", "true"}
		}
		if strings.Contains(c.Use, "NODE") && c.Name() != "revert" { // the first word of revert is RUN
			all = append(all, slices.Concat(line, []string{node}, behind))
		}
		if flag != nil {
			all = append(all, slices.Concat(line, []string{"--node-id", node}, behind))
		}
	})
	return all
}

// TestUnknownNodeIsNeverDialled: no command contacts an unknown node, least of all by dialling this machine.
func TestUnknownNodeIsNeverDialled(t *testing.T) {
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file := worldOf(t, ln.Addr().(*net.TCPAddr).Port, "")
	const node = "compute-node-77"
	all := aboutNode(node)
	if len(all) < 30 {
		t.Errorf("only %d command lines: %q", len(all), all)
	}
	for _, args := range all {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			at := slices.Index(args, "--")
			if at < 0 {
				at = len(args)
			}
			code, out, text := said(t, slices.Insert(slices.Clone(args), at, "--profile", file)...)
			reason := namesNoNode["gpuaasctl "+strings.Join(args[:2], " ")]
			if (code != cmdutil.ExitUsage && (reason == "" || code != cmdutil.ExitFailed)) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, text)
			}
			if n := strings.Count(text, "compute-node-0"); reason == "" && (!strings.Contains(text, node) || n != 5) {
				t.Errorf("%d names: %s", n, text)
			}
			untouched(t, ln)
			if reason != "" {
				return
			}
			code, out, text = said(t, args...) // without a profile
			if code != cmdutil.ExitUsage || out != "" {
				t.Errorf("without a profile: exit code %d: %s%s", code, out, text)
			}
			untouched(t, ln)
		})
	}
}

// TestPlatformKnowsNoSuchNode: the platform's 404 is the answer, with similar names.
func TestPlatformKnowsNoSuchNode(t *testing.T) {
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"code":"node_not_found"}}`)
		}
	}))
	defer platform.Close()
	file := worldOf(t, ln.Addr().(*net.TCPAddr).Port, platform.URL)
	const node = "compute-node-77"
	for _, args := range [][]string{
		{"preflight", "--node-id", node}, {"preflight", "--node-id", node, "-o", "short"},
		{"preflight", "--node-id", node, "-o", "json"}, {"preflight", "--node-id", node, "-o", "junit"},
		{"preflight", "--node-id", node, "-o", "markdown"}, {"diag", "classify", node}, {"diag", "timeline", node},
		{"diag", "bundle", node, "--file", filepath.Join(t.TempDir(), "b.tar.gz")}, {"node", "status", node},
		{"node", "status", node, "compute-node-01"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, out, words := said(t, append(args, "--profile", file)...)
			if code != cmdutil.ExitUsage {
				t.Errorf("exit code %d", code)
			}
			text := strings.Join(strings.Fields(out+words), " ")
			if !strings.Contains(text, "knows no node "+node) || !strings.Contains(text, "compute-node-0") ||
				strings.Contains(text, "do not decide") {
				t.Errorf("it says %s", text)
			}
			untouched(t, ln)
		})
	}
}

// TestFilesThatAProfileNames: unusable files are refused before the walk.
func TestFilesThatAProfileNames(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"ssh.identity": filepath.Join(t.TempDir(), "id"), "ssh.known_hosts": t.TempDir(), "trust.operator_ca": garbage,
		"trust.node_ca": garbage,
	} {
		t.Run(key, func(t *testing.T) {
			section, field, _ := strings.Cut(key, ".")
			file := filepath.Join(t.TempDir(), "p.yaml")
			text := fmt.Sprintf("api_base: https://127.0.0.1:1\nnodes:\n  n1: {host: 127.0.0.1}\n%s:\n  %s: %s\n", section,
				field, value)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, words := said(t, "preflight", "--profile", file, "--node-id", "n1")
			if code != cmdutil.ExitUsage || out != "" || !strings.Contains(words, key) || !strings.Contains(words, value) {
				t.Errorf("exit code %d: %s%s", code, out, words)
			}
		})
	}
}
