package trust

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// recorded has the facts of `diag trust` from a lab that was broken manually.
type recorded struct {
	Subject diag.Subject `json:"subject"`
	Facts   []diag.Fact  `json:"facts"`
}

func read(t *testing.T, name string) recorded {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// without returns r without the facts whose ids have these prefixes.
func (r recorded) without(prefixes ...string) recorded {
	r.Facts = slices.DeleteFunc(slices.Clone(r.Facts), func(f diag.Fact) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.ID, p) })
	})
	return r
}

// expecting returns r with another pin; "" removes it.
func (r recorded) expecting(key, value string) recorded {
	e := map[string]string{}
	for k, v := range r.Subject.Expected {
		e[k] = v
	}
	e[key] = value
	r.Subject.Expected = e
	return r
}

// TestLab: each way of breaking a lab has its own first link, cause, and place for the first repair.
func TestLab(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		cause       Cause
		begins      string // where the first step of the repair is done
		last        string // and the last
	}{
		{"healthy", "", "", "", ""},
		{"ingress-overlap", "", "", "", ""}, // old and new CA side by side are not drift
		{"ingress-ca-swapped", linkIngress, CauseIngress, atControlPlane, atNode},
		{"signing-ca-lost", linkSigning, CauseSigning, atControlPlane, atNode},
		{"both-cas-replaced", linkSigning, CauseSigning, atControlPlane, atNode},
		{"node-bundle-stale", linkBundle, CauseBundle, atControlPlane, atNode},
		{"edge-certificate-new-issuer", linkBundle, CauseEdge, atControlPlane, atNode},
		{"edge-certificate-renewed", linkPinLeaf, CauseEdgePin, atProfile, atProfile},
		{"name-elsewhere", linkSameLeaf, CauseEnvironment, atProfile, atNode},
		{"public-edge", linkEndpoint, CauseEndpoint, atNode, atNode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := read(t, tc.name)
			v := explain(t, r)
			if v.First != tc.first || v.Cause != tc.cause || len(v.Others) > 0 {
				t.Errorf("first %q, cause %q, others %q: %s", v.First, v.Cause, v.Others, v.Text)
			}
			switch {
			case tc.first == "" && v.Outcome != Match:
				t.Errorf("outcome %s: %s", v.Outcome, v.Text)
			case tc.first == "":
			case len(v.Repair) == 0 || v.Repair[0].Where != tc.begins || v.Repair[len(v.Repair)-1].Where != tc.last:
				t.Errorf("repair %+v", v.Repair)
			}
		})
	}
}

// explain judges r with its facts in several orders, which must not matter, and checks what every report has.
func explain(t *testing.T, r recorded) Verdict {
	t.Helper()
	got := Explain(r.Subject, r.Facts)
	back := slices.Clone(r.Facts)
	slices.Reverse(back)
	a, _ := json.Marshal(got.Verdict)
	b, _ := json.Marshal(Explain(r.Subject, back).Verdict)
	if string(a) != string(b) {
		t.Errorf("the order of facts matters:\n%s\n%s", a, b)
	}
	for _, row := range got.Rows {
		if (row.Missing == "") == (row.Fingerprint == "" && row.Subject == "") {
			t.Errorf("row %s by %s is neither there nor missing: %+v", row.ID, row.From, row)
		}
	}
	for _, l := range got.Links {
		if (l.Status == Fail) != (l.Cause != "") || l.Text == "" || (l.Status == Pass && len(l.Evidence) == 0) {
			t.Errorf("link %s: %+v", l.ID, l)
		}
		t.Logf("%-30s %-8s %-20s %s", l.ID, l.Status, l.Cause, l.Text)
	}
	return got.Verdict
}

// TestPartial: while the node or the platform is down, the rest is still compared, nothing unmeasured counts as good,
// and what is known to be broken is still named.
func TestPartial(t *testing.T) {
	for _, tc := range []struct {
		name    string
		r       recorded
		outcome Outcome
		first   string
		passes  string // a link that still does
	}{
		{"node down", read(t, "node-down"), Unclear, "", linkIngress},
		{"platform down", read(t, "platform-down"), Unclear, "", linkNodeCA},
		{"node down while the ingress CA is another",
			read(t, "ingress-ca-swapped").without("node_", "trust/node", "trust/bundle", "trust/env", "trust/recovery"),
			Mismatch, linkIngress, linkPlatform},
		{"platform's page missing while the bundle is stale", read(t, "node-bundle-stale").without("control_plane_access"),
			Mismatch, linkBundle, linkSameLeaf},
		{"nothing at all", recorded{}, Unclear, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := explain(t, tc.r)
			if v.Outcome != tc.outcome || v.First != tc.first {
				t.Errorf("%s, first %q: %s", v.Outcome, v.First, v.Text)
			}
			links := Explain(tc.r.Subject, tc.r.Facts).Links
			if tc.passes != "" && !slices.ContainsFunc(links, func(l Link) bool {
				return l.ID == tc.passes && l.Status == Pass
			}) {
				t.Errorf("%s does not pass", tc.passes)
			}
		})
	}
	for _, f := range read(t, "healthy").Facts { // without one of the facts, the verdict must be "match" or "unknown"
		if v := Explain(read(t, "healthy").Subject, read(t, "healthy").without(f.ID).Facts).Verdict; v.Outcome == Mismatch {
			t.Errorf("without %s: %s %s", f.ID, v.First, v.Text)
		}
	}
}

// failing returns r with a failure in place of the results of these facts.
func (r recorded) failing(word diag.Failure, ids ...string) recorded {
	r.Facts = slices.Clone(r.Facts)
	for i, f := range r.Facts {
		if slices.Contains(ids, f.ID) {
			r.Facts[i] = diag.Fact{ID: f.ID, Vantage: f.Vantage, Request: f.Request, At: f.At, DurationMS: 1, Failure: word,
				Phase: "read"}
		}
	}
	return r
}

// TestCouldNotLook: a failed read of the bundle is not evidence about the bundle; a missing bundle is.
func TestCouldNotLook(t *testing.T) {
	// handshakes that also show the bundle's content
	handshakes := []string{factReach, factTaskWait, factStream, factNodeAPI, factNodeTerminal}
	blind := read(t, "healthy").failing(diag.TCPTimeout, handshakes...)
	for word, want := range map[diag.Failure]Outcome{
		diag.NotPermitted: Unclear, diag.Timeout: Unclear, diag.Unsupported: Unclear, diag.Unknown: Unclear,
		diag.FileMissing: Mismatch, diag.FileUnparseable: Mismatch,
	} {
		v := explain(t, blind.failing(word, factBundle))
		if v.Outcome != want || (want == Mismatch && v.Cause != CauseBundle) {
			t.Errorf("%s: %s, first %q, cause %q: %s", word, v.Outcome, v.First, v.Cause, v.Text)
		}
	}
	if v := explain(t, read(t, "healthy").failing(diag.Timeout, factBundle)); v.Outcome != Match {
		t.Errorf("the handshakes show what the bundle holds: %s: %s", v.Outcome, v.Text)
	}
}

// TestNoAgent: a node without any file of the agent is not measured, and not to be re-enrolled, unless the platform
// knows it; the evidence of a node that the platform knows, and of one whose certificate is there, counts.
func TestNoAgent(t *testing.T) {
	handshakes := []string{factReach, factTaskWait, factStream, factNodeAPI, factNodeTerminal}
	blind := read(t, "healthy").failing(diag.TCPTimeout, handshakes...)
	gone := []string{factIdentity, factBundle, factRecoveryBundle, factRecoveryAPI}
	for name, tc := range map[string]struct {
		missing, unasked []string
		want             Outcome
	}{
		"nothing is known":             {gone, []string{factReadModel}, Unclear},
		"the platform knows it":        {gone, nil, Mismatch},
		"its certificate is there":     {gone[1:], []string{factReadModel}, Mismatch},
		"only its certificate is gone": {gone[:1], []string{factReadModel}, Mismatch},
	} {
		v := explain(t, blind.failing(diag.FileMissing, tc.missing...).failing(diag.TCPTimeout, tc.unasked...))
		if v.Outcome != tc.want || (tc.want == Unclear) != (len(v.Repair) == 0) {
			t.Errorf("%s: %s, first %q, repair %v: %s", name, v.Outcome, v.First, v.Repair, v.Text)
		}
	}
}

// TestWhoMoved: the same two CAs differ, and other evidence shows which of them is new.
func TestWhoMoved(t *testing.T) {
	const old, other, third = "old", "other", "third"
	no, yes := false, true
	for _, tc := range []struct {
		name                                             string
		trusted                                          *bool
		signing, ingress, issuer, pinSigning, pinIngress string
		want                                             Cause
	}{
		{"all agree", &yes, old, old, old, old, old, ""},
		{"node's trust page: the ingress moved", &no, old, other, old, "", "", CauseIngress},
		{"node's trust page: the signer moved", &no, other, old, old, "", "", CauseSigning},
		{"pins over a node that has a new certificate already", &no, other, old, other, old, old, CauseSigning},
		{"pins alone: the ingress", &no, old, other, "", old, old, CauseIngress},
		{"pins alone: the signer", &no, other, old, "", old, old, CauseSigning},
		{"no other source", &no, old, other, "", "", "", CauseControl},
		{"three CAs", &no, old, other, third, "", "", CauseControl},
		{"both moved, old pins", &no, other, third, old, old, old, CauseControl},
		{"both moved together", &yes, other, other, old, old, old, CauseSigning},
		{"both moved as the pins say: the node is old", &yes, other, other, old, other, other, CauseCredential},
		{"no pins: the node is old", &yes, other, other, old, "", "", CauseCredential},
		{"only the pins are old", &yes, other, other, other, old, old, CausePins},
		{"the platform says nothing", nil, "", "", old, old, old, ""},
	} {
		s := newScene(diag.Subject{
			Expected: map[string]string{"signing_ca_fingerprint": tc.pinSigning, "ingress_ca_fingerprint": tc.pinIngress},
		}, nil)
		s.trusted, s.signing, s.ingress, s.issuer = tc.trusted, tc.signing, tc.ingress, tc.issuer
		if got := s.caCause(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestRotation: while the signing CA is rotated, an accepted node certificate of the old CA is not a mismatch. A
// rejected one is.
func TestRotation(t *testing.T) {
	for _, tc := range []struct {
		name string
		want Status
	}{{"healthy", Pass}, {"both-cas-replaced", Fail}} {
		r := read(t, tc.name)
		s := newScene(r.Subject, r.Facts)
		s.issuer = strings.Repeat("0", 64)
		if l := s.signingLink(); l.Status != tc.want {
			t.Errorf("%s: %s %s", tc.name, l.Status, l.Text)
		}
	}
}

// TestServerSources: for a refused leaf, the profile's bundle shows whether the leaf or the node's bundle changed.
func TestServerSources(t *testing.T) {
	stale, edge := read(t, "node-bundle-stale"), read(t, "edge-certificate-new-issuer")
	leafOf := func(r recorded) string { return leaf(newScene(r.Subject, r.Facts).api).Fingerprint }
	for _, tc := range []struct {
		name string
		r    recorded
		want Cause
	}{
		{"no bundle in the profile, the pinned leaf", stale.without("trust/profile_bundle", "trust/operator"), CauseBundle},
		{"the pinned leaf, which the profile's own bundle does not know",
			edge.expecting("node_api_server_fingerprint", leafOf(edge)), CauseProfileCA},
		{"no pin, and nobody's bundle knows it", edge.expecting("node_api_server_fingerprint", ""), CauseEdge},
	} {
		if v := explain(t, tc.r); v.First != linkBundle || v.Cause != tc.want {
			t.Errorf("%s: %s %s", tc.name, v.First, v.Cause)
		}
	}
}

// TestNodeCANamed: names alone prove nothing. A regenerated CA has the old one's name, so the list of the ingress shows
// no difference, but the fingerprints do.
func TestNodeCANamed(t *testing.T) {
	r := read(t, "ingress-ca-swapped")
	s := newScene(r.Subject, r.Facts)
	listed := acceptable(s.facts[factTaskWait])
	if !slices.Contains(listed, s.cert.Leaf.Issuer) {
		t.Fatalf("the recording lists %q: it cannot show this", listed)
	}
	if v := explain(t, r); v.Cause != CauseIngress {
		t.Errorf("cause %s", v.Cause)
	}
}

// TestCauses: every cause has a row, a signal of the runbook, and steps; those of the control plane come first.
func TestCauses(t *testing.T) {
	seen, known := map[Cause]bool{}, diag.MapValues(map[string]string{"node_id": "n1", "profile": "lab"})
	for _, row := range causeRows {
		if seen[row.cause] || row.moved == "" || len(row.repair) == 0 {
			t.Errorf("cause %q: %+v", row.cause, row)
		}
		seen[row.cause] = true
		if _, ok := diag.LookupSignal(row.signal); !ok {
			t.Errorf("cause %q has the signal %q", row.cause, row.signal)
		}
		if !slices.IsSortedFunc(row.repair, func(a, b repairStep) int { return order(a.where) - order(b.where) }) {
			t.Errorf("cause %q repairs a node before the control plane", row.cause)
		}
		for _, r := range row.repair {
			for _, values := range []diag.Values{known, diag.General, nil} {
				next, ok := r.Filled(values)
				if filled := next.Prose(); !ok || strings.ContainsAny(filled, "{}<>[]|") || strings.Count(filled, "`")%2 != 0 {
					t.Errorf("cause %q: %s", row.cause, filled)
				}
			}
		}
	}
	chosen := newScene(diag.Subject{EnvironmentProfile: "lab", Expected: map[string]string{"profile_file": "./lab.yaml"}},
		nil)
	if got := chosen.placeholders()("profile"); got != "./lab.yaml" {
		t.Errorf("a profile chosen by its path is %s", got)
	}
	s := newScene(diag.Subject{}, nil)
	steps := s.repair([]Cause{CauseBundle, CauseIngress})
	if len(steps) < 4 || steps[0].Where != atControlPlane || steps[len(steps)-1].Where != atNode {
		t.Errorf("steps %+v", steps)
	}
}

// TestReenrolledOnce: two faults that both need a re-enrollment get one; if it has to wait, its step says so. No other
// step is lost.
func TestReenrolledOnce(t *testing.T) {
	s := newScene(diag.Subject{NodeID: "n1", EnvironmentProfile: "lab"}, nil)
	for _, row := range causeRows {
		for _, other := range causeRows {
			var once, others []string
			for _, r := range s.repair([]Cause{row.cause, other.cause}) {
				if strings.Contains(r.Text, "node reenroll") {
					once = append(once, r.Text)
				} else {
					others = append(others, r.Text)
				}
			}
			if len(once) > 1 {
				t.Errorf("%s and %s: %q", row.cause, other.cause, once)
			}
			waits := false
			for _, r := range append(slices.Clone(row.repair), other.repair...) {
				waits = waits || r.waits
				next, _ := r.Filled(s.placeholders())
				if filled := next.Prose(); !strings.Contains(filled, "node reenroll") && !slices.Contains(others, filled) {
					t.Errorf("%s and %s: lost %s", row.cause, other.cause, filled)
				}
			}
			if waits && !strings.HasPrefix(once[0], "leave the nodes alone") {
				t.Errorf("%s and %s: %s", row.cause, other.cause, once[0])
			}
		}
	}
}
