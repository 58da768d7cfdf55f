package diagcmd

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/ops"
)

// TestClassifyARecord: a folder, and one of its files, give the same reason; only the pinned ring has the contacts.
func TestClassifyARecord(t *testing.T) {
	dir := t.TempDir()
	ring := func(e diag.RecordEntry) []byte {
		b := make([]byte, record.Slots*record.Size)
		slot := record.Encode(record.FileRecord, record.SlotOf(e.Seq), e)
		copy(b[record.SlotOf(e.Seq)*record.Size:], slot[:])
		return b
	}
	trouble := diag.RecordEntry{Seq: 1, BootID: "boot", MonoNS: 1, NodeID: "n1", Reason: diag.RecServerTLSUntrusted,
		About: "heartbeat", Decision: "retry", Failure: diag.TLSUnknownCA}
	path := filepath.Join(dir, record.FileRecord)
	if err := os.WriteFile(path, ring(trouble), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{dir, path} {
		a := &cmdutil.App{}
		doc, err := classifyFile(a, t.Context(), what)
		if err != nil {
			t.Fatal(err)
		}
		if doc.From != "record" || doc.NodeID != "n1" || doc.Classification.Reason != diag.ReasonServerTLSUntrusted ||
			doc.Kind != kindClassification {
			t.Errorf("%s: %+v", what, doc)
		}
	}

	contact := record.Encode(record.FilePinned, 0, diag.RecordEntry{
		Seq: 2, BootID: "boot", MonoNS: 2, Reason: diag.RecProcessAlive, About: "heartbeat", Decision: record.DecisionContact,
		Pin: record.PinContact,
	})
	if err := os.WriteFile(filepath.Join(dir, record.FilePinned), contact[:], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{dir, path} {
		a := &cmdutil.App{}
		doc, err := classifyFile(a, t.Context(), what)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Classification.Reason != diag.ReasonNone || len(doc.Classification.Losers) != 1 {
			t.Errorf("%s, with a contact since: %+v", what, doc.Classification)
		}
	}
}

// TestClassifyARecordAsJSON: in the formats of a bundle, of diag show and of diag decode, including those of releases
// whose documents had no head.
func TestClassifyARecordAsJSON(t *testing.T) {
	f := diag.RecordFacts{Source: "disk", Slots: 320, Valid: 1, Pinned: []diag.RecordEntry{
		{Seq: 1, BootID: "boot", MonoNS: 1, NodeID: "n1", Reason: diag.RecServerTLSUntrusted, About: "heartbeat",
			Decision: "retry", Failure: diag.TLSUnknownCA},
	}}
	var shown, plain, older bytes.Buffer
	toShown := &cmdutil.App{Stdout: &shown, Env: func(string) string { return "" }}
	if err := writeRecord(toShown, ops.NewRecord("n1", f), cmdutil.FormatJSON); err != nil {
		t.Fatal(err)
	}
	r := ops.NewRecord("n1", f)
	for to, v := range map[*bytes.Buffer]any{
		&plain: f, &older: map[string]any{"node": r.Node, "story": r.Story, "record": r.Record},
	} {
		if err := json.NewEncoder(to).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(shown.String(), ops.KindRecord) {
		t.Errorf("no head:\n%s", &shown)
	}
	for _, text := range []string{shown.String(), plain.String(), older.String()} {
		a := &cmdutil.App{Stdin: strings.NewReader(text)}
		doc, err := classifyFile(a, t.Context(), "-")
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if doc.From != "record" || doc.NodeID != "n1" || doc.Classification.Reason != diag.ReasonServerTLSUntrusted {
			t.Errorf("%+v", doc)
		}
	}
}

// TestReasonsAndWalksAgree: for each recording, if a hop failed, the reason fails; if a hop warned, it is at least a
// warning; and a walk without findings passes both, except for the named recordings.
func TestReasonsAndWalksAgree(t *testing.T) {
	// Known only to the platform, and measured by no hop: the walk passes, and the reason has this exit code.
	named := map[string]int{
		"app_recovered_after_false_unhealthy.json": cmdutil.ExitWarned,
		"app_status_probe_expires.json":            cmdutil.ExitWarned,
		"dispatched_result_lost.json":              cmdutil.ExitWarned,
	}
	files, err := filepath.Glob("../../../../../golden/[rm]*/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := (&cmdutil.App{Stderr: io.Discard}).Rejudge(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want, code := cmdutil.CodeOf(cmdutil.Judged(r, cmdutil.FailOnWarn)),
			cmdutil.CodeOf(cmdutil.JudgedReason(r.Classification, true))
		if word, ok := named[filepath.Base(file)]; ok {
			if want != cmdutil.ExitPass {
				t.Errorf("%s: the walk sees it, too, and ends with %d", file, want)
			}
			want = word
			delete(named, filepath.Base(file))
		}
		if code != want {
			t.Errorf("%s: want %d, %s of %s ends with %d", file, want, r.Classification.Reason, r.Classification.Severity, code)
		}
	}
	for file := range named {
		t.Errorf("%s is no recording", file)
	}
}

// TestUnmeasuredIsNotFine: what was not measured is unknown, in the exit code and in the text.
func TestUnmeasuredIsNotFine(t *testing.T) {
	for name, e := range map[string]classify.Evidence{
		"the operator is cut off": {
			Probes: []classify.Probed{{Hop: diag.HopControlPlaneAccess, Status: diag.StatusFail,
				Signal: diag.SigControlPlaneUnreachable, Failure: diag.TCPRefused}},
		},
		"never heard":        {Node: &classify.NodeEvidence{NeverHeard: true}},
		"heard, and no more": {Node: &classify.NodeEvidence{Posture: "serving"}},
		"a record of zeros":  {Record: []*diag.RecordEntry{{}, {}, {}}},
	} {
		c := classify.Classify(e)
		if code := cmdutil.CodeOf(cmdutil.JudgedReason(&c, false)); code != cmdutil.ExitInconclusive {
			t.Errorf("%s: exit %d", name, code)
		}
		var out bytes.Buffer
		a := &cmdutil.App{Stdout: &out, Env: func(string) string { return "" }}
		if err := printClassified(a, &classified{Classification: &c},
			&classifyOptions{output: cmdutil.FormatTable}); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"normal", "nobody", "temporary trouble", "not affected"} {
			if strings.Contains(out.String(), wrong) {
				t.Errorf("%s: says %q:\n%s", name, wrong, out.String())
			}
		}
		if !strings.Contains(out.String(), "unknown") || c.UserState != diag.UserUnknown {
			t.Errorf("%s: user state %s\n%s", name, c.UserState, out.String())
		}
	}
}
