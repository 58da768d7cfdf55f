package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Cause names the cause of a mismatch: the one thing that changed and no longer matches the others.
type Cause string

// caCause returns which of the node's certificate, the signing CA and the ingress CA changed. If the profile pins both
// CAs and exactly one pin fails, the pins decide; else the node's certificate shows the previous state.
func (s *inputs) caCause() Cause {
	pinSigning, pinIngress := s.pin("signing_ca_fingerprint"), s.pin("ingress_ca_fingerprint")
	signingHolds, ingressHolds := pinSigning == s.signing, pinIngress == s.ingress
	pinned := pinSigning != "" && pinIngress != "" && s.signing != "" && s.ingress != ""
	differ := s.trusted != nil && !*s.trusted
	switch {
	case !differ && s.issuer != "" && s.signing != "" && s.issuer != s.signing:
		if pinSigning == s.signing || pinSigning == "" {
			return CauseCredential // the control plane matches its pins: the node has a certificate of the previous CA
		}
		return CauseSigning // the signing CA changed, and the ingress CA with it
	case !differ && pinned && !signingHolds:
		return CausePins
	case !differ:
		return ""
	case pinned && signingHolds != ingressHolds && signingHolds:
		return CauseIngress
	case pinned && signingHolds != ingressHolds:
		return CauseSigning
	case s.issuer == "":
		return CauseControl
	case s.issuer == s.signing:
		return CauseIngress
	case s.issuer == s.ingress:
		return CauseSigning
	}
	return CauseControl
}

// acceptCause returns why the ingress refuses a certificate: the CAs differ, the ingress runs with another list than
// the platform's file has (it was not reloaded), the certificate itself is invalid, or the platform denies the node.
func (s *inputs) acceptCause(unlisted bool) Cause {
	if c := s.caCause(); c != "" && c != CausePins {
		return c
	}
	if s.credentialLink().Status == Fail {
		return CauseCredential
	}
	if f := s.facts[factTaskWait]; !unlisted && f != nil && f.HTTP != nil && f.HTTP.Status != 400 {
		return CauseDenied
	}
	return CauseIngress
}

// serverCause returns which of the node API's leaf, the node's bundle and the profile's bundle changed; "" if none
// did.
func (s *inputs) serverCause() Cause {
	if s.endpointLink().Status == Fail {
		return CauseEndpoint
	}
	if s.sameLeafLink().Status == Fail {
		return CauseEnvironment
	}
	if l, f := s.shown(); l != nil && invalid(l, f) != "" {
		return CauseEdge
	}
	if s.bundle.broken() {
		return CauseBundle
	}
	l, _ := s.shown()
	if l == nil {
		return ""
	}
	byNode, byProfile := verifies(s.api), verifies(s.apiOperator)
	pin := s.pin("node_api_server_fingerprint")
	says := s.field(FactTrustPage, "trust.node_api_server")
	switch {
	case says != "" && says != l.Fingerprint:
		return CauseEdge
	case byNode == nil || *byNode:
		return ""
	case s.profile.known && byProfile != nil && *byProfile:
		return CauseBundle
	case !s.profile.known && pin == l.Fingerprint:
		return CauseBundle
	case s.profile.known && pin == l.Fingerprint:
		return CauseProfileCA
	}
	return CauseEdge
}

// terminalCause is serverCause for the terminal listener: if the node API's leaf is trusted, the terminal's leaf
// changed.
func (s *inputs) terminalCause() Cause {
	if c := s.serverCause(); c != "" {
		return c
	}
	if yes := verifies(s.terminalOperator); s.profile.known && yes != nil && *yes {
		return CauseBundle
	}
	return CauseTerminal
}

// bundleCause returns which of two bundles is outdated, if the node's lacks a certificate that the profile's has.
func (s *inputs) bundleCause() Cause {
	switch c := s.serverCause(); c {
	case CauseEdge, CauseProfileCA, CauseEndpoint:
		return c
	}
	byNode, byProfile := verifies(s.api), verifies(s.apiOperator)
	if byNode != nil && *byNode && byProfile != nil && !*byProfile {
		return CauseProfileCA
	}
	return CauseBundle
}

// verifies reports whether f's chain verifies with the bundle that f used; nil if unknown.
func verifies(f *diag.Fact) *bool {
	if f == nil || !hasTLS(f) {
		return nil
	}
	return new(f.TLS.Verified || dates(f.Failure))
}

// verdict names the first link that does not match. Later links that fail for the same cause are one fault.
func (s *inputs) verdict(links []Link) Verdict {
	v := Verdict{Outcome: Match, Text: "every link that the profile asks for matches"}
	var causes []Cause
	for _, l := range links {
		switch l.Status {
		case Unknown:
			v.Unknown = append(v.Unknown, l.ID)
		case Fail:
			if v.First == "" {
				v.First, v.Text, v.Cause, v.Facts = l.ID, l.Title+": "+l.Text, l.Cause, l.Evidence
			}
			if !slices.Contains(causes, l.Cause) {
				causes = append(causes, l.Cause)
			}
		}
	}
	switch {
	case v.First != "":
		v.Outcome = Mismatch
	case len(v.Unknown) > 0:
		v.Outcome, v.Text = Unclear, "no link that could be measured fails, and some could not be measured"
		for _, id := range [...]string{factLogin, FactTrustPage} {
			if f := s.facts[id]; f != nil && !f.Passed() {
				v.Text += fmt.Sprintf("; %s: %s", id, strings.TrimPrefix(because(f), ": "))
			}
		}
		return v
	default:
		return v
	}
	row := causeRow(v.Cause)
	v.Moved, v.Signal = row.moved, row.signal
	if info, ok := diag.LookupSignal(row.signal); ok {
		v.Owner, v.Runbook, v.Reason = info.Owners.String(), info.Runbook(s.subject.Expected["runbook_base"]), info.Reason
	}
	v.Others = causes[1:]
	v.Repair = s.repair(causes)
	return v
}

// repair merges the steps of all causes in the order control plane, profile, node: a node that is repaired first is
// refused again. The node is re-enrolled only once, in the step of the first cause that needs it, or in that of a cause
// whose re-enrollment has to wait for the control plane.
func (s *inputs) repair(causes []Cause) []Repair {
	var steps []Repair
	vars, reenrolled := s.placeholders(), -1
	for _, c := range causes {
		for _, r := range causeRow(c).repair {
			next, ok := r.Filled(vars)
			if !ok {
				continue
			}
			step := Repair{r.where, next.Prose()}
			same := slices.Index(steps, step)
			if same < 0 && r.reenrolls {
				same = reenrolled
			}
			switch {
			case same < 0:
				if r.reenrolls {
					reenrolled = len(steps)
				}
				steps = append(steps, step)
			case r.waits:
				steps[same] = step
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b Repair) int { return cmp.Compare(order(a.Where), order(b.Where)) })
	return steps
}

// placeholders returns this node's values for the texts of the repair.
func (s *inputs) placeholders() diag.Values {
	e := s.subject.Expected
	return diag.MapValues(map[string]string{
		"node_id": s.subject.NodeID, "node_host": s.subject.NodeHost,
		"profile": cmp.Or(e["profile_file"], s.subject.EnvironmentProfile), "unit": e["agent_unit"],
		"env_file": e["agent_env_file"], "api_base": e["api_base"], "api_url": e["node_runtime_api_url"],
		"terminal_url": e["node_terminal_url"], "ca_bundle": s.bundle.path, "cert": certOfAgent(s.subject),
	})
}
