//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/lab/hosttools"
	"github.com/gpuaas/gpuaasctl/profile"
)

// oracle starts the bash helper of the benchmark on the same node, and returns a function that waits for its
// statuses by hop. The helper uses curl, openssl and ssh, and shares no code with the tool. It returns nil if this
// host lacks one of its programs, and a skipped subtest names that program, since the run then has no independent
// check of the tool.
func oracle(t *testing.T, l *lab.Lab, machine string) func() map[diag.HopID]string {
	t.Helper()
	if missing := lackedByOracle(); len(missing) > 0 {
		t.Run("oracle", func(t *testing.T) { t.Skipf("skipped: the second opinion needs %s", strings.Join(missing, ", ")) })
		return nil
	}
	p, _, err := profile.Load(l.ProfilePath(), profile.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{filepath.Join("..", "..", "tools", "bench", "helper.sh"), "--controlmaster"}
	for flag, v := range map[string]string{
		"api-base": p.APIBase, "terminal-base": p.TerminalBase, "node-id": machine, "node-host": p.Nodes[machine].Host,
		"node-user": p.SSH.User, "allocation-id": lab.Machine{Name: machine}.Allocation(), "token-file": p.Auth.TokenFile,
		"ca": p.Trust.OperatorCA, "identity": p.SSH.Identity, "known-hosts": p.SSH.KnownHosts,
		"api-resolve-address": p.APIResolveAddress, "terminal-resolve-address": p.TerminalResolveAddress,
		"app-resolve-address": p.AppResolveAddress,
		"stale-after":         strconv.FormatInt(p.PolicyValue("node.heartbeat_stale_after_seconds"), 10),
		"stream-timeout":      strconv.FormatInt(p.PolicyValue("terminal.node_stream_timeout_seconds"), 10),
	} {
		argv = append(argv, "--"+flag, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() map[diag.HopID]string {
		defer cancel()
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 3) {
			t.Errorf("the bash helper: %v\n%s", err, errs.Bytes())
		}
		statuses := map[diag.HopID]string{}
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			var line struct {
				Hop    diag.HopID `json:"hop"`
				Status string     `json:"status"`
				Detail string     `json:"detail"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Errorf("the bash helper wrote %q: %v", lines.Text(), err)
			}
			statuses[line.Hop] = line.Status
		}
		for _, id := range diag.HopIDs() {
			// the helper knows neither the GPUs nor what only some walks have
			row, _ := diag.LookupHop(id)
			if statuses[id] == "" && id != diag.HopGPUHealth && !row.Optional {
				t.Errorf("the bash helper says nothing of %s", id)
			}
		}
		return statuses
	}
}

// lackedByOracle names the programs of the bash helper that this host does not have; make test-lab installs them.
func lackedByOracle() []string {
	var names []string
	for _, t := range hosttools.Missing(hosttools.Oracle, os.Getenv("PATH")) {
		names = append(names, t.Program)
	}
	return names
}

// agree compares the hops that both could decide. They probe at different moments, and a failing machine changes:
// both repeat the hops on which they differ, and must agree then.
func agree(t *testing.T, l *lab.Lab, machine string, r *diag.Report, statuses map[diag.HopID]string) {
	t.Helper()
	first := dissent(t, r, statuses)
	if len(first) == 0 {
		return
	}
	second := oracle(t, l, machine)
	again, _, _ := walk(t, machine)
	for id, words := range dissent(t, again, second()) {
		if first[id] != "" {
			t.Errorf("%s, twice: first %s, then %s", id, first[id], words)
		}
	}
}

// dissent returns the hops on which tool and helper differ, with both results. It leaves out the heartbeat, which
// may become stale between their probes.
func dissent(t *testing.T, r *diag.Report, statuses map[diag.HopID]string) map[diag.HopID]string {
	t.Helper()
	compared, differ := 0, map[diag.HopID]string{}
	for _, h := range r.Hops {
		theirs, ours := statuses[h.ID], h.Status
		if ours == diag.StatusWarn {
			ours = diag.StatusPass
		}
		switch {
		case h.ID == diag.HopNodeHeartbeat, theirs != "pass" && theirs != "fail":
			continue
		// it checks the user and the shell's file, but runs no shell
		case h.ID == diag.HopTerminalStartup && theirs == "pass":
			continue
		case h.Signal == diag.SigStreamCut && theirs == "pass": // it checks that a stream begins, and does not follow it
			continue
		case ours != diag.StatusPass && ours != diag.StatusFail:
			continue
		}
		compared++
		if string(ours) != theirs {
			differ[h.ID] = fmt.Sprintf("we say %s (%s), the bash helper says %s", h.Status, h.Text, theirs)
		}
	}
	if compared < 3 {
		t.Errorf("only %d hops could be compared with the bash helper", compared)
	}
	return differ
}
