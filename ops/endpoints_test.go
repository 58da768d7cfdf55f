//go:build linux

package ops

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// thisNode runs a node's scripts on this machine, on files of the test. meddle runs between two scripts.
type thisNode struct {
	t      *testing.T
	meddle func()
}

func (n *thisNode) Run(_ context.Context, s vantage.Script) ([]string, error) {
	cmd := exec.Command("sh", append([]string{"-c", s.Text, "sh"}, s.Args...)...)
	cmd.Stdin = bytes.NewReader(s.Input)
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatal(err)
	}
	if n.meddle != nil {
		n.meddle()
		n.meddle = nil
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		said = append(said, strings.TrimPrefix(strings.TrimRight(line, "\n"), "GPUAASCTL-SENTINEL "))
	}
	return said, nil
}

func (n *thisNode) Probe(_ context.Context, reqs []diag.Request) []diag.Fact {
	return make([]diag.Fact, len(reqs))
}

// endpointsOf prepares work on one hosts file.
func endpointsOf(t *testing.T,
	text string) (do func(action EndpointsAction, meddle func()) (*Endpoints, error), hosts string) {
	t.Helper()
	hosts = filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "endpoints.log")
	return func(action EndpointsAction, meddle func()) (*Endpoints, error) {
		s := New(Site{Chosen: "lab", By: "tester"}).Node("n1", "")
		w := &endpointsWork{s: s, action: action, node: &thisNode{t, meddle}, hosts: hosts, log: log,
			entries: []endpoints.Entry{{Name: "node-api.test", Address: "10.0.0.11"}}}
		w.doc = Endpoints{Node: "n1", Action: action, File: hosts}
		err := w.do(t.Context())
		return &w.doc, err
	}, hosts
}

// TestEndpointsUndo: each change can be undone once, unless another process wrote after it.
func TestEndpointsUndo(t *testing.T) {
	tier.NeedsHost(t)
	const old = "127.0.0.1 localhost\n# BEGIN gpuaasctl\n10.9.9.9 node-api.test\n# END gpuaasctl\n"
	do, hosts := endpointsOf(t, old)
	if d, err := do(EndpointsPlan, nil); err != nil || d.Applied || !d.Resolves() || content(t, hosts) != old {
		t.Fatalf("plan: %v, applied %t", err, d.Applied)
	}
	d, err := do(EndpointsApply, nil)
	if err != nil || !d.Applied || d.Undo != "gpuaasctl node endpoints apply n1 --profile lab --undo" ||
		!strings.Contains(content(t, hosts), "10.0.0.11 node-api.test") {
		t.Fatalf("apply: %v %+v", err, d)
	}
	if d, err = do(EndpointsApply, nil); err != nil || d.Applied {
		t.Errorf("a second apply: %v, applied %t", err, d.Applied)
	}
	if _, err = do(EndpointsUndo, nil); err != nil || !strings.Contains(content(t, hosts), "10.9.9.9 node-api.test") ||
		strings.Contains(content(t, hosts), "10.0.0.11") {
		t.Errorf("undo: %v\n%s", err, content(t, hosts))
	}
	if _, err = do(EndpointsRemove, nil); err != nil || content(t, hosts) != "127.0.0.1 localhost\n" {
		t.Errorf("remove: %v\n%s", err, content(t, hosts))
	}
	if err := os.WriteFile(hosts, []byte("10.0.0.1 mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err = do(EndpointsUndo, nil); err == nil || !strings.Contains(err.Error(), "changed since") ||
		content(t, hosts) != "10.0.0.1 mine\n" {
		t.Errorf("undo over somebody's work: %v", err)
	}
}

// TestEndpointsUndoAfterNothing: an apply that failed after its log line was written does not prevent the undo of the
// previous change.
func TestEndpointsUndoAfterNothing(t *testing.T) {
	tier.NeedsHost(t)
	do, hosts := endpointsOf(t, "127.0.0.1 localhost\n")
	if _, err := do(EndpointsApply, nil); err != nil {
		t.Fatal(err)
	}
	applied, bin := content(t, hosts), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mv"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("a rename that fails", func(t *testing.T) {
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		if d, err := do(EndpointsRemove, nil); err == nil || d.Applied || content(t, hosts) != applied {
			t.Fatalf("%v, applied %t", err, d.Applied)
		}
	})
	if _, err := do(EndpointsUndo, nil); err != nil || content(t, hosts) != "127.0.0.1 localhost\n" {
		t.Errorf("undo: %v\n%s", err, content(t, hosts))
	}
}

// TestEndpointsUndoAfterAnother: a later change was made, and a user restored the result of an earlier one manually.
func TestEndpointsUndoAfterAnother(t *testing.T) {
	tier.NeedsHost(t)
	do, hosts := endpointsOf(t, "127.0.0.1 localhost\n# BEGIN gpuaasctl\n10.9.9.9 node-api.test\n# END gpuaasctl\n")
	left := ""
	for _, action := range []EndpointsAction{EndpointsApply, EndpointsUndo, EndpointsRemove} {
		if d, err := do(action, nil); err != nil || !d.Applied {
			t.Fatalf("%s: %v", action, err)
		}
		if action == EndpointsUndo {
			left = content(t, hosts)
		}
	}
	if err := os.WriteFile(hosts, []byte(left), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := do(EndpointsUndo, nil); err == nil || !strings.Contains(err.Error(), "changed since") ||
		content(t, hosts) != left {
		t.Errorf("undo of an undo that is no longer the last change: %v\n%s", err, content(t, hosts))
	}
}

// TestEndpointsRefuses: a file with a manual entry that contradicts the plan, and a file that changes meanwhile, are
// not modified.
func TestEndpointsRefuses(t *testing.T) {
	tier.NeedsHost(t)
	const hand = "127.0.0.1 localhost\n10.9.9.9 node-api.test\n"
	do, hosts := endpointsOf(t, hand)
	if d, err := do(EndpointsApply, nil); err == nil ||
		!strings.Contains(err.Error(), hosts+":2 gives node-api.test the address 10.9.9.9") || d.Applied ||
		content(t, hosts) != hand {
		t.Errorf("a conflict: %v", err)
	}
	if d, err := do(EndpointsPlan, nil); err != nil || d.Resolves() {
		t.Errorf("a plan that apply would refuse reads as wanted: %v", err)
	}
	do, hosts = endpointsOf(t, "127.0.0.1 localhost\n")
	meddle := func() {
		if err := os.WriteFile(hosts, []byte("10.0.0.1 mine\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
	if d, err := do(EndpointsApply, meddle); err == nil ||
		!strings.Contains(err.Error(), "was changed after it was read") ||
		d.Applied || content(t, hosts) != "10.0.0.1 mine\n" {
		t.Errorf("a file that changed under way: %v\n%s", err, content(t, hosts))
	}
	do, hosts = endpointsOf(t, "127.0.0.1 localhost\n")
	same := func() {
		p, err := endpoints.Make("127.0.0.1 localhost\n", []endpoints.Entry{{Name: "node-api.test", Address: "10.0.0.11"}})
		if err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(hosts, []byte(p.After), 0o644); err != nil {
			t.Error(err)
		}
	}
	if d, err := do(EndpointsApply, same); err != nil || d.Applied {
		t.Errorf("somebody was faster with the same: %v, applied %t", err, d.Applied)
	}
}
