package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/schema"
	policyschema "github.com/gpuaas/gpuaasctl/gpu/policy/schema"
)

func TestPublishedSchemasAreTheTypes(t *testing.T) {
	for path, tc := range map[string]struct {
		made func() ([]byte, error)
		text string
	}{
		"diag/schema/preflight-report":    {generate, schema.PreflightReport()},
		"chaos/schema/chaos-scenario":     {generateScenario, chaosschema.Scenario()},
		"chaos/schema/chaos-book":         {generateGameDay, chaosschema.GameDay()},
		"chaos/schema/drill-report":       {generateDrill, chaosschema.Report()},
		"gpu/policy/schema/gpu-policy":    {generateGPUPolicy, policyschema.Policy()},
		"gpu/policy/schema/gpu-judgement": {generateGPUJudgement, policyschema.Judgement()},
	} {
		if b, err := tc.made(); err != nil || string(b) != tc.text {
			t.Errorf("%s.schema.json is not what the types say: run `make schema` (%v)", path, err)
		}
	}
}

// strict returns a validator for the schema of what this version writes: other fields and words are mistakes.
func strict(t *testing.T, of func() (*invopop.Schema, error)) *jsonschema.Schema {
	t.Helper()
	s, err := of()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, string(s.ID), string(text))
}

// compiled returns a validator for a schema, which also checks formats.
func compiled(t *testing.T, id, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(id, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sample returns a report in which every kind of value occurs once.
func sample() *diag.Report {
	at := diag.At(time.Date(2026, 5, 25, 10, 0, 0, 123456789, time.UTC))
	yes, offset := true, int64(-12)
	fact := diag.Fact{
		ID: "node_runtime_api_reachability/tls", Vantage: "node", At: at, OffsetMS: 3, DurationMS: 12,
		Request: diag.Request{
			ID: "node_runtime_api_reachability/tls", Op: diag.OpHTTP, Target: "https://node-api.gpuaas.test",
			View: diag.ViewAgent, Token: diag.NewSecret("canary"), Header: map[string]string{"X-Correlation-Id": "c"},
			TimeoutMS: 4000, Poll: &diag.Poll{Field: "task.status", Until: []string{"completed"}, EveryMS: 100},
		},
		Failure: diag.TLSUnknownCA, Phase: "tls",
		DNS: &diag.DNSFacts{Name: "node-api.gpuaas.test", Addresses: []string{"10.231.77.11"}, Source: "dns"},
		TLS: &diag.TLSFacts{CertRequested: &yes, Chain: []diag.CertInfo{{Subject: "CN=x", NotBefore: at, NotAfter: at}}},
		HTTP: &diag.HTTPFacts{Status: 200, Fields: map[string]string{"node.status": "active"},
			Kept: diag.NewSecret("canary")},
		Clock: &diag.ClockFacts{Now: at, OffsetMS: &offset},
	}
	hop := diag.HopResult{
		ID: diag.HopNodeRuntimeAPI, Title: "node reaches the API", Layer: diag.LayerManagement, Vantage: "operator+node",
		Finding: diag.Finding{Status: diag.StatusFail, Signal: diag.SigAPITLSFailed, Failure: diag.TLSUnknownCA,
			Evidence: []string{fact.ID}},
		Also:     []diag.Finding{{Status: diag.StatusWarn, Signal: diag.SigDiskPressure}},
		BudgetMS: 5000, DurationMS: 12,
		Steps: []diag.StepResult{
			{Name: "tls", Vantage: "node", Status: diag.StatusFail, Failure: diag.TLSUnknownCA, Fact: fact.ID, DurationMS: 12},
		},
	}
	return &diag.Report{
		Head: diag.NewHead(diag.KindPreflight),
		Run: diag.Run{ID: "r", CorrelationID: "c", StartedAt: at, EndedAt: at, DurationMS: 1200,
			EndedBy: diag.EndedCompleted, ToolVersion: "dev", RulesVersion: "1"},
		Subject: diag.Subject{NodeID: "n", Expected: map[string]string{"api_base": "https://api.gpuaas.test"}},
		Plan: diag.Plan{Policy: map[string]int64{"node.task_wait_seconds": 25},
			Hops: []diag.PlannedHop{{ID: diag.HopNodeRuntimeAPI, Vantages: []string{"node"}, BudgetMS: 5000,
				Steps: []string{"tls"}}}},
		Vantages: []diag.VantageInfo{{ID: "operator", How: "in process"},
			{ID: "node", How: "ssh", Missing: "ssh_auth", ClockOffsetMS: &offset}},
		Hops: []diag.HopResult{hop}, Facts: []diag.Fact{fact},
		Verdict: diag.Verdict{
			Outcome: diag.OutcomeFail, FirstFailedHop: diag.HopNodeRuntimeAPI, Symptoms: []diag.HopID{diag.HopNodeHeartbeat},
			Blame: &diag.Blame{Hop: diag.HopNodeRuntimeAPI, Signal: diag.SigAPITLSFailed, Failure: diag.TLSUnknownCA,
				Confidence: diag.Proven},
			Reason: diag.ReasonServerTLSUntrusted, UserState: diag.UserOperator, Layer: diag.LayerManagement,
			Confidence: diag.Proven, Proof: &diag.Proof{Failing: fact.ID, Passing: fact.ID + "~active_bundle",
				Changed: "ca_inline"}, Severity: string(diag.P1),
		},
		Dashboard: diag.Dashboard{NodeAgentStatus: diag.AgentAPIUnreachable, CorrelationID: "c"},
		Redaction: diag.Redaction{Rules: []string{"secrets"}, Counts: map[string]int{"token": 1}},
	}
}

// check validates text against the schema; it returns "" if it is valid.
func check(t *testing.T, s *jsonschema.Schema, text []byte) string {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		return err.Error()
	}
	return ""
}

func TestSampleIsValidAndWrongOnesAreNot(t *testing.T) {
	s := strict(t, reportSchema)
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("canary")) {
		t.Fatal("a secret is in the report")
	}
	if why := check(t, s, text); why != "" {
		t.Fatalf("the sample is refused: %s", why)
	}
	own := strings.Replace(string(text), `"first_failed_hop":"node_runtime_api_reachability"`,
		`"first_failed_hop":"x.vpn"`, 1)
	if why := check(t, s, []byte(own)); own == string(text) || why != "" {
		t.Errorf("a hop of a profile is refused: %s", why)
	}
	refuses(t, s, string(text), 1, []wrong{
		{"no name of an own hop", `"first_failed_hop":"node_runtime_api_reachability"`, `"first_failed_hop":"x."`},
		{"unknown field", `"vantages":[`, `"vantage_points":[],"vantages":[`},
		{"unknown hop", `"first_failed_hop":"node_runtime_api_reachability"`, `"first_failed_hop":"node_api"`},
		{"unknown signal", `"signal":"node_agent_api_tls_failed"`, `"signal":"tls_failed"`},
		{"unknown status", `"status":"fail"`, `"status":"failed"`},
		{"unknown op", `"op":"http"`, `"op":"curl"`},
		{"a secret in the clear", `"token":"[redacted]"`, `"token":"abc"`},
		{"a kept secret", `"kept":"[redacted]"`, `"kept":"abc"`},
		{"another version", `"apiVersion":"gpuaasctl/v1"`, `"apiVersion":"gpuaasctl/v2"`},
		{"time with a zone", `"started_at":"2026-05-25T10:00:00.123Z"`, `"started_at":"2026-05-25T12:00:00.123+02:00"`},
		{"time without milliseconds", `"started_at":"2026-05-25T10:00:00.123Z"`, `"started_at":"2026-05-25T10:00:00Z"`},
		{"duration as text", `"duration_ms":1200`, `"duration_ms":"1.2s"`},
		{"agent status", `"node_agent_status":"api_unreachable"`, `"node_agent_status":"down"`},
		{"no verdict", `"verdict":{`, `"verdict_":{`},
		{"null facts", `"facts":[{`, `"facts":null,"facts_":[{`},
	})
}

// wrong is a mistake to insert into a document.
type wrong struct{ name, from, to string }

// refuses requires that each mistake is refused; n is how many of its places are changed, -1 all.
func refuses(t *testing.T, s *jsonschema.Schema, text string, n int, all []wrong) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			made := strings.Replace(text, c.from, c.to, n)
			if made == text {
				t.Fatalf("%s is not in the sample", c.from)
			}
			if check(t, s, []byte(made)) == "" {
				t.Error("is accepted")
			}
		})
	}
}

// Every golden report in the repository is valid.
func TestEveryGoldenReportIsValid(t *testing.T) {
	everyGolden(t, diag.KindPreflight, strict(t, reportSchema), func([]byte) {})
}

// everyGolden requires that every document of kind in the repository is valid, and calls seen with each.
func everyGolden(t *testing.T, kind string, s *jsonschema.Schema, seen func(text []byte)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || (d.IsDir() && (d.Name() == ".git" || d.Name() == "bin")) {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".json" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(`"`+kind+`"`)) || bytes.Contains(text, []byte(`"$schema"`)) {
			return err
		}
		if why := check(t, s, text); why != "" {
			t.Errorf("%s: %s", path, why)
		}
		seen(text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
