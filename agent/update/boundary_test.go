package update

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

var testNow = time.Date(2026, 5, 18, 12, 0, 0, 0, time.UTC)

// signer is a signing key of the control plane.
type signer struct {
	id  string
	key ed25519.PrivateKey
}

func newSigner(id string) signer {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, id)
	return signer{id, ed25519.NewKeyFromSeed(seed)}
}

func (s signer) text() string {
	return s.id + ":" + base64.StdEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
}

func keys(signers ...signer) wire.Verifiers {
	v := wire.Verifiers{}
	for _, s := range signers {
		v[s.id] = s.key.Public().(ed25519.PublicKey)
	}
	return v
}

func (s signer) task(id string, payload any) wire.Task {
	text, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	t := wire.Task{ID: id, NodeID: "n1", Type: wire.TaskSelfUpdate, Payload: text, CorrelationID: "corr-" + id,
		QueuedAt: testNow, ExpiresAt: testNow.Add(time.Hour)}
	t.Sign(s.id, s.key)
	return t
}

var (
	old, next  = newSigner("old"), newSigner("new")
	packageSHA = strings.Repeat("a1", 32)
	targetSHA  = strings.Repeat("b2", 32)
	thirdSHA   = strings.Repeat("c3", 32)
	target     = wire.SelfUpdatePayload{Version: "v2", SHA256: targetSHA}
	here       = Node{ID: "n1", Profile: "lab", Keys: keys(old)}
)

func installed() Journal {
	j, _ := Launch(New("j"), wire.Build{Version: "v1", SHA256: packageSHA}, host(keys(old)), testNow)
	return j
}

func host(v wire.Verifiers) Host {
	return Host{Boot: "boot-1", Keys: v, Material: v.Version(), Check: func(string) error { return nil }}
}

func token(node, profile string, expires time.Time) string {
	text, err := wire.Token(wire.TokenClaims{NodeID: node, Profile: profile, ExpiresAt: expires}, "s3cret")
	if err != nil {
		panic(err)
	}
	return text
}

// TestBoundary has a case for every row of the boundary table: its trigger, and whether a self-update may handle
// it, or who owns it.
func TestBoundary(t *testing.T) {
	rows := boundaries[:]
	if len(rows) != 9 {
		t.Fatalf("%d rows, the table has 9", len(rows))
	}
	cases := []struct {
		name    string
		payload map[string]any
		reason  diag.RecordReason
		path    Path
		owner   string
	}{
		{"another build", map[string]any{"version": "v2", "sha256": targetSHA, "soak_seconds": 5}, "", PathSelfUpdate,
			"release owner"},
		{"verifier keys", map[string]any{"version": "v1", "sha256": packageSHA,
			"task_signing_pubkeys": old.text() + "," + next.text()}, "", PathSelfUpdate, "control plane"},
		{"recovery token", map[string]any{"version": "v1", "sha256": packageSHA,
			"recovery_token": token("n1", "lab", testNow.Add(time.Hour))}, "", PathSelfUpdate, "IAM and PKI"},
		{"expired certificate", map[string]any{"version": "v2", "sha256": targetSHA, "certificate": "PEM"},
			diag.RecCertExpired, PathEnrollment, "API"},
		{"endpoints, trust, unit", map[string]any{"version": "v2", "sha256": targetSHA, "api_url": "https://other"},
			diag.RecEndpointProfileDrift, PathRebootstrap, "operator"},
		{"signing CA against ingress CA", map[string]any{"version": "v2", "sha256": targetSHA, "ingress_ca": "PEM"},
			diag.RecIdentityRejected, PathControlPlane, "control plane"},
		{"certificate lost, no token", map[string]any{"version": "v2", "sha256": targetSHA, "bundle": map[string]any{}},
			diag.RecRecoveryTokenMissing, PathBundle, "operator"},
		{"cloned identity", map[string]any{"version": "v2", "sha256": targetSHA, "sudoers": "ALL"}, diag.RecClonedIdentity,
			PathReimage, "security"},
		{"GPU, kernel, runtime", map[string]any{"version": "v2", "sha256": targetSHA, "driver": "999"}, "", PathProvider,
			"provider"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if row := rows[i]; row.Path != c.path || !strings.Contains(row.Owner, c.owner) || row.Agent == "" || row.Back == "" {
				t.Errorf("row %+v", row)
			}
			if c.reason != "" {
				if row, ok := BoundaryOf(c.reason); !ok || row.Path != c.path {
					t.Errorf("%s goes to %q", c.reason, row.Path)
				}
			}
			_, refusal := installed().Accept(old.task("t", c.payload), here, testNow)
			if c.path == PathSelfUpdate {
				if refusal != nil {
					t.Errorf("refused: %v", refusal)
				}
				return
			}
			if refusal == nil || refusal.Code != CodeBoundary || !strings.Contains(refusal.Why, string(c.path)) ||
				!strings.Contains(refusal.Why, c.owner) {
				t.Errorf("refusal %+v", refusal)
			}
		})
	}
	for _, row := range rows {
		for _, f := range row.Fields {
			_, refusal := installed().
				Accept(old.task("t", map[string]any{"version": "v2", "sha256": targetSHA, f: json.RawMessage("null")}), here,
					testNow)
			if row.Path != PathSelfUpdate && (refusal == nil || refusal.Code != CodeBoundary) {
				t.Errorf("field %s of %q: %+v", f, row.Trigger, refusal)
			}
		}
	}
}

// TestAcceptRefuses has valid self-update tasks that cannot be executed.
func TestAcceptRefuses(t *testing.T) {
	skipped := installed()
	skipped.Skip = []Skipped{{Build: wire.Build{SHA256: targetSHA}, Why: "crashed"}}
	a, _ := installed().Accept(old.task("t1", target), here, testNow)
	busy := installed().Begin(a, testNow)
	over := busy.Fail("no package", testNow)
	later := busy.Fail("no package", testNow).clone()
	later.Rollout.Task.QueuedAt = testNow.Add(time.Hour)
	with := func(change func(*wire.SelfUpdatePayload)) wire.SelfUpdatePayload { p := target; change(&p); return p }
	for name, c := range map[string]struct {
		j       Journal
		payload any
		id      string
		code    string
	}{
		"no digest":    {installed(), wire.SelfUpdatePayload{Version: "v2"}, "t", CodeInvalid},
		"short digest": {installed(), with(func(p *wire.SelfUpdatePayload) { p.SHA256 = "b2" }), "t", CodeInvalid},
		"upper-case digest": {installed(), with(func(p *wire.SelfUpdatePayload) { p.SHA256 = strings.ToUpper(targetSHA) }),
			"t", CodeInvalid},
		"no version":    {installed(), with(func(p *wire.SelfUpdatePayload) { p.Version = "" }), "t", CodeInvalid},
		"negative soak": {installed(), with(func(p *wire.SelfUpdatePayload) { p.SoakSeconds = -1 }), "t", CodeInvalid},
		"not an object": {installed(), "v2", "t", CodeInvalid},
		"wrong type":    {installed(), map[string]any{"version": 2, "sha256": targetSHA}, "t", CodeInvalid},
		"unknown field": {installed(), map[string]any{"version": "v2", "sha256": targetSHA, "force": true}, "t",
			CodeBoundary},
		"case of a field": {installed(), map[string]any{"version": "v2", "SHA256": targetSHA}, "t", CodeBoundary},
		"no verifier overlap": {installed(), with(func(p *wire.SelfUpdatePayload) { p.Verifiers = next.text() }), "t",
			CodeOverlap},
		"verifier line break": {installed(),
			with(func(p *wire.SelfUpdatePayload) { p.Verifiers = old.text() + ",\nGPUAAS_API_URL:x" }), "t", CodeInvalid},
		"opaque token": {installed(), with(func(p *wire.SelfUpdatePayload) { p.RecoveryToken = "abc" }), "t",
			CodeToken},
		"another node's token": {installed(),
			with(func(p *wire.SelfUpdatePayload) { p.RecoveryToken = token("n2", "lab", testNow.Add(time.Hour)) }), "t",
			CodeToken},
		"another profile": {installed(),
			with(func(p *wire.SelfUpdatePayload) { p.RecoveryToken = token("n1", "prod", testNow.Add(time.Hour)) }), "t",
			CodeToken},
		"expired token": {installed(),
			with(func(p *wire.SelfUpdatePayload) { p.RecoveryToken = token("n1", "lab", testNow) }), "t", CodeToken},
		"skipped":             {skipped, target, "t", CodeSkipped},
		"busy":                {busy, target, "t2", CodeBusy},
		"over":                {over, target, "t1", CodeOver},
		"older than the last": {later, target, "t0", CodeOver},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := c.j.Accept(old.task(c.id, c.payload), here, testNow)
			if refusal == nil || refusal.Code != c.code {
				t.Fatalf("refusal %+v, want %s", refusal, c.code)
			}
			if strings.Contains(refusal.Why, "s3cret") {
				t.Error("a refusal holds a token")
			}
		})
	}
	if _, refusal := busy.Accept(old.task("t1", target), here, testNow); refusal != nil {
		t.Errorf("the same task again: %+v", refusal)
	}
}
