package diagcmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/ops"
)

// planted are secrets of every kind that a bundle could contain, each with surrounding text.
var planted = map[string]string{
	"grt1.eyJub2RlX2lkIjoibjEifQ.Canary7f3aSecretOfAToken9": "GPUAAS_ENROLLMENT_TOKEN=%s",
	"canary-cookie-5d2e":                                     "Cookie: sid=%s",
	"canary-query-7b1c":                                      "GET https://api.test/lab?ticket=%s&x=1",
	"Canary8c2dBearerTokenOfAnOperator":                      "Authorization: Bearer %s",
	"canary-password-1f":                                     "postgres://user:%s@db.test/x",
	"MC4CAQAwBQYDK2VwBCIEICanaryKeyMaterial0123456789abcdef": "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
}

// leaky returns sources with every secret unredacted, as an old helper would send them.
func leaky() *ops.Measured {
	var lines []diag.JournalLine
	var words []string
	now := diag.At(time.Unix(1_800_000_000, 0))
	for secret, form := range planted {
		said := fmt.Sprintf(form, secret)
		words = append(words, said)
		lines = append(lines, diag.JournalLine{At: now, Text: said},
			diag.JournalLine{At: now, Text: fmt.Sprintf("level=INFO msg=%q correlation_id=c1", said)})
	}
	// A key that was logged line by line; no single line looks like a secret.
	lines = append(lines, diag.JournalLine{At: now, Text: "-----BEGIN EC PRIVATE KEY-----"},
		diag.JournalLine{At: now, Text: "canary short line"}, diag.JournalLine{At: now, Text: "-----END EC PRIVATE KEY-----"})
	all := strings.Join(words, " ")
	ask := func(op diag.Op) diag.Request { return diag.Request{Op: op, Target: "t"} }
	journal := func() diag.Fact {
		return diag.Fact{ID: "j", Request: ask(diag.OpJournal), At: now,
			Journal: &diag.JournalFacts{Unit: "u", Lines: append([]diag.JournalLine(nil), lines...)}}
	}
	http := func(name string) diag.Fact {
		return diag.Fact{ID: name, Request: ask(diag.OpHTTP), At: now,
			HTTP: &diag.HTTPFacts{Status: 200, Fields: map[string]string{name: all, "node.now": now.Format(time.RFC3339)}}}
	}
	return &ops.Measured{
		NodeClock: diag.Fact{Request: ask(diag.OpClock), Clock: &diag.ClockFacts{Now: now, OffsetMS: new(int64)}},
		Record: diag.Fact{Request: ask(diag.OpRecord), Record: &diag.RecordFacts{
			Entries: []diag.RecordEntry{{Seq: 1, At: now, Decision: "retry", Detail: all, Facts: map[string]string{"why": all}}},
			Pinned:  []diag.RecordEntry{{Seq: 2, At: now, Decision: "stop", Detail: all}},
		}},
		Agent: journal(), Platform: journal(), Ingress: []diag.Fact{journal()}, Latest: []diag.Fact{journal(), journal()},
		Node: http("node.hostname"), Allocation: http("allocation.app_product_url"),
		Tasks:    []diag.Fact{http("task.error_code")},
		Evidence: []diag.Fact{{ID: "evidence of the node", Request: ask(diag.OpHTTP), HTTP: &diag.HTTPFacts{Status: 200}}},
		Items: []evidence.Item{{EvidenceLine: diag.EvidenceLine{At: now, Kind: "node.denied", NodeID: "n1"},
			Detail: map[string]any{"message": all, "type": all}}},
	}
}

// TestNoSecretInABundle: no file of the archive contains a secret of any source, and the manifest lists the redactions.
func TestNoSecretInABundle(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	s := ops.New(ops.Site{Tool: "test"}).Node("n1", "a1")
	packed, err := s.Gather(leaky(), began.Add(-time.Hour), began, diag.EndedCompleted).Bundle(drawFile)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := evidence.Pack(&b, packed); err != nil {
		t.Fatal(err)
	}
	m, err := evidence.Open(&b)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{"node/agent.log": true, "platform/platform.log": true, "platform/ingress.log": true,
		"node/record.json": true, "node/record.txt": true,
		"platform/node.json": true, "platform/allocation.json": true, "platform/tasks.json": true,
		"platform/evidence.ndjson": true,
		"timeline.ndjson":          true, "timeline.txt": true, "facts.ndjson": true, "README.txt": true, "bundle.log": true}
	for _, f := range m.Files {
		delete(wanted, f.Path)
		for secret := range planted {
			for _, part := range []string{secret, secret[len(secret)/2:]} {
				if bytes.Contains(f.Data, []byte(part)) {
					i := bytes.Index(f.Data, []byte(part))
					t.Errorf("%s holds %q: ...%s...", f.Path, part, f.Data[max(0, i-80):i])
				}
			}
		}
		if bytes.Contains(f.Data, []byte("canary short line")) {
			t.Errorf("%s holds a key's line", f.Path)
		}
		if strings.HasSuffix(f.Path, ".log") && f.Path != "bundle.log" && len(f.Redacted) == 0 {
			t.Errorf("the manifest lists no redactions of %s", f.Path)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("files that were looked for are missing: %v", wanted)
	}
}

// TestNotWholeWithoutTheNode: a bundle without an answer from the node is partial, whatever the platform answered.
func TestNotWholeWithoutTheNode(t *testing.T) {
	h := leaky()
	h.Record, h.Agent = diag.Fact{}, diag.Fact{}
	packed := ops.New(ops.Site{}).Node("", "").Gather(h, time.Unix(0, 0), time.Unix(1, 0), diag.EndedCompleted).Manifest
	missing := packed.Missing()
	if packed.Whole || len(missing) != 2 || missing[0].Source != "record" ||
		!strings.Contains(missing[0].Why, "no SSH host") {
		t.Errorf("whole %t, missing %+v", packed.Whole, missing)
	}
}
