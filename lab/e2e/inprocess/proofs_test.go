//go:build linux

package inprocess

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// proofs are the hops that each proof of repair walks, by the template of its command. Signals of hop 18 are left
// out: it is not built, so none of them is ever printed.
func proofs(t *testing.T) map[string][]diag.HopID {
	t.Helper()
	out := map[string][]diag.HopID{}
	for _, row := range diag.Signals() {
		if len(row.Proof.Hops) == 0 {
			t.Fatalf("%s: no proof walks any part of the chain; how is it proven here?", row.Signal)
		}
		if !slices.Contains(row.Proof.Hops, diag.HopGPUHealth) {
			out[row.Proof.Command()] = row.Proof.Hops
		}
	}
	return out
}

// remember writes the record of a node that had a failure a while ago, during this boot, and is healthy since.
func remember(t *testing.T, dir string) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	at := diag.At(time.Now().Add(-time.Hour))
	wrote := func(seq uint64, reason diag.RecordReason, about, decision string) diag.RecordEntry {
		return diag.RecordEntry{Seq: seq, BootID: strings.TrimSpace(string(boot)), MonoNS: int64(seq), At: at, NodeID: nodeID,
			Reason: reason, About: about, Decision: decision}
	}
	ring := make([]byte, record.Slots*record.Size)
	for _, e := range []diag.RecordEntry{
		wrote(1, diag.RecAPIUnreachable, "heartbeat", "retry"), wrote(2, diag.RecServerTLSUntrusted, "task_wait", "retry"),
		wrote(3, diag.RecTerminalStreamFailed, "task", "report"),
		wrote(4, diag.RecTaskResultPostFailed, "task_result", "retry"),
	} {
		slot := record.Encode(record.FileRecord, record.SlotOf(e.Seq), e)
		copy(ring[record.SlotOf(e.Seq)*record.Size:], slot[:])
	}
	contact := wrote(4, diag.RecProcessAlive, "heartbeat", record.DecisionContact)
	contact.Pin, contact.MonoNS = record.PinContact, 5
	pinned := record.Encode(record.FilePinned, 0, contact)
	for name, data := range map[string][]byte{record.FileRecord: ring, record.FilePinned: pinned[:]} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryProofOfRepairPassesOnAHealthyNode: the proof of repair that a report prints, run as printed on a
// healthy node whose record contains old failures, passes without a reason.
func TestEveryProofOfRepairPassesOnAHealthyNode(t *testing.T) {
	t.Parallel()
	w := start(t, options{profile: func(p *profile.Profile) { remember(t, p.Agent.Record) }})
	all := proofs(t)
	if len(all) < 10 {
		t.Fatalf("only %d proofs", len(all))
	}
	for proof, only := range all {
		j := w.prepare(t)
		if !strings.Contains(proof, "--allocation-id") {
			j.env.Subject = hop.NewSubject(j.env.Profile, nodeID, "", "", "")
		}
		j.plan = hops.BuiltIn().NewPlan(j.env.Profile, j.env.Subject,
			hop.Options{Session: true, Token: true, SSH: true, Only: only})
		ctx, cancel := context.WithTimeout(context.Background(), walkLimit)
		r := j.run(ctx, t)
		cancel()
		k := r.Classification
		if r.Verdict.Outcome != diag.OutcomePass || k.Reason != diag.ReasonNone || k.NeedsSomebody() {
			t.Errorf("%s: %s, reason %s because %q\n%s", proof, r.Verdict.Outcome, k.Reason, k.Because, describe(r))
		}
		if slices.Contains(only, diag.HopNodeRecoveryStatus) &&
			!slices.ContainsFunc(k.Losers, func(l diag.Candidate) bool { return l.Reason == diag.ReasonTaskResultPostFailed }) {
			t.Errorf("%s: the record was not read: %+v", proof, k.Losers)
		}
	}
}
