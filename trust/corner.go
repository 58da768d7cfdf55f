package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Corner names what moved: the one thing that no longer fits to its neighbours.
type Corner string

// The closed list of corners.
const (
	CornerEndpoint    Corner = "agent_endpoint"               // the agent uses another environment's URL
	CornerEnvironment Corner = "name_leads_elsewhere"         // one name, two listeners
	CornerEdge        Corner = "node_api_certificate"         // what the listener shows was changed, or ran out
	CornerEdgePin     Corner = "node_api_certificate_renewed" // it was renewed, and only the pin is of before
	CornerProfileCA   Corner = "profile_bundle"               // the operator's trust.node_ca is of before
	CornerBundle      Corner = "node_bundle"                  // the node's own bundle is stale, missing or broken
	CornerRecovery    Corner = "recovery_bundle"              // the way back is closed
	CornerCredential  Corner = "node_certificate"             // the node's certificate: dates, key, binding, or of an earlier CA
	CornerSigning     Corner = "signing_ca"                   // the platform signs with another CA than before
	CornerIngress     Corner = "ingress_ca"                   // the ingress takes another CA's certificates
	CornerControl     Corner = "control_plane_cas"            // signing and ingress CA differ, and nothing says which one moved
	CornerDenied      Corner = "node_identity_denied"         // certificates match; the platform says no to this node
	CornerTerminal    Corner = "terminal_ca"                  // the terminal listener takes other certificates than the ingress
	CornerPins        Corner = "profile_pins"                 // all agree with each other, and not with what the profile pins
)

// caCorner says who moved among the node's certificate, the signing CA and the ingress CA. Pins, where the profile has
// both and exactly one does not hold, decide; else the node's certificate is the witness of what was.
func (s *scene) caCorner() Corner {
	pinSigning, pinIngress := s.pin("signing_ca_fingerprint"), s.pin("ingress_ca_fingerprint")
	signingHolds, ingressHolds := pinSigning == s.signing, pinIngress == s.ingress
	pinned := pinSigning != "" && pinIngress != "" && s.signing != "" && s.ingress != ""
	differ := s.trusted != nil && !*s.trusted
	switch {
	case !differ && s.issuer != "" && s.signing != "" && s.issuer != s.signing:
		if pinSigning == s.signing || pinSigning == "" {
			return CornerCredential // the control plane is as it was written down: the node is of before
		}
		return CornerSigning // moved, and its ingress with it
	case !differ && pinned && !signingHolds:
		return CornerPins
	case !differ:
		return ""
	case pinned && signingHolds != ingressHolds && signingHolds:
		return CornerIngress
	case pinned && signingHolds != ingressHolds:
		return CornerSigning
	case s.issuer == "":
		return CornerControl
	case s.issuer == s.signing:
		return CornerIngress
	case s.issuer == s.ingress:
		return CornerSigning
	}
	return CornerControl
}

// acceptCorner says why the ingress refuses a certificate: the CAs differ, the ingress runs with another list than the
// platform's file says (it was not reloaded), the certificate is at fault, or the platform denies the node.
func (s *scene) acceptCorner(unlisted bool) Corner {
	if c := s.caCorner(); c != "" && c != CornerPins {
		return c
	}
	if s.credentialLink().Status == Fail {
		return CornerCredential
	}
	if f := s.facts[factTaskWait]; !unlisted && f != nil && f.HTTP != nil && f.HTTP.Status != 400 {
		return CornerDenied
	}
	return CornerIngress
}

// serverCorner says who moved among the node API's leaf, the node's bundle and the profile's; "" when none did.
func (s *scene) serverCorner() Corner {
	if s.endpointLink().Status == Fail {
		return CornerEndpoint
	}
	if s.sameLeafLink().Status == Fail {
		return CornerEnvironment
	}
	if l, f := s.shown(); l != nil && invalid(l, f) != "" {
		return CornerEdge
	}
	if s.bundle.broken() {
		return CornerBundle
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
		return CornerEdge
	case byNode == nil || *byNode:
		return ""
	case s.profile.known && byProfile != nil && *byProfile:
		return CornerBundle
	case !s.profile.known && pin == l.Fingerprint:
		return CornerBundle
	case s.profile.known && pin == l.Fingerprint:
		return CornerProfileCA
	}
	return CornerEdge
}

// terminalCorner is the same for the terminal listener's leaf: when the node API's is trusted, this one moved.
func (s *scene) terminalCorner() Corner {
	if c := s.serverCorner(); c != "" {
		return c
	}
	if yes := verifies(s.terminalOperator); s.profile.known && yes != nil && *yes {
		return CornerBundle
	}
	return CornerTerminal
}

// bundleCorner says which of two bundles is of before, when the node's lacks a certificate of the profile's.
func (s *scene) bundleCorner() Corner {
	switch c := s.serverCorner(); c {
	case CornerEdge, CornerProfileCA, CornerEndpoint:
		return c
	}
	byNode, byProfile := verifies(s.api), verifies(s.apiOperator)
	if byNode != nil && *byNode && byProfile != nil && !*byProfile {
		return CornerProfileCA
	}
	return CornerBundle
}

// verifies reports whether f's chain holds by the bundle that it was judged by; nil when nobody knows.
func verifies(f *diag.Fact) *bool {
	if f == nil || !hasTLS(f) {
		return nil
	}
	yes := f.TLS.Verified || dates(f.Failure)
	return &yes
}

// verdict names the first link that does not match. Links behind it that fail by the same corner are one fault.
func (s *scene) verdict(links []Link) Verdict {
	v := Verdict{Outcome: Match, Text: "every link that the profile asks for matches"}
	var corners []Corner
	for _, l := range links {
		switch l.Status {
		case Unknown:
			v.Unknown = append(v.Unknown, l.ID)
		case Fail:
			if v.First == "" {
				v.First, v.Text, v.Corner, v.Facts = l.ID, l.Title+": "+l.Text, l.Corner, l.Evidence
			}
			if !slices.Contains(corners, l.Corner) {
				corners = append(corners, l.Corner)
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
	row := cornerRow(v.Corner)
	v.Moved, v.Signal = row.moved, row.signal
	if info, ok := diag.LookupSignal(row.signal); ok {
		v.Owner, v.Runbook, v.Reason = info.Owner, info.Runbook, info.Reason
	}
	v.Others = corners[1:]
	v.Repair = s.repair(corners)
	return v
}

// repair joins what each corner takes, the control plane before the profile before the node: a node that is repaired
// first is refused again. A node is re-enrolled once, in the words of the first corner that takes it, or of the one that
// says to wait.
func (s *scene) repair(corners []Corner) []Repair {
	var steps []Repair
	vars := s.placeholders()
	for _, c := range corners {
		for _, r := range cornerRow(c).repair {
			waits, reenrolls := r.Text == notAlone, strings.HasSuffix(r.Text, reenroll)
			r.Text = diag.Fill(r.Text, vars)
			same := slices.IndexFunc(steps, func(have Repair) bool {
				return have == r || reenrolls && strings.HasSuffix(have.Text, diag.Fill(reenroll, vars))
			})
			switch {
			case same < 0:
				steps = append(steps, r)
			case waits:
				steps[same] = r
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b Repair) int { return cmp.Compare(order(a.Where), order(b.Where)) })
	return steps
}

// placeholders are this node's values for the repair texts.
func (s *scene) placeholders() map[string]string {
	e := s.subject.Expected
	vars := map[string]string{
		"node_id": s.subject.NodeID, "node_host": s.subject.NodeHost, "profile": cmp.Or(e["profile_file"], s.subject.EnvironmentProfile),
		"ssh": e["ssh"], "unit": e["agent_unit"], "env_file": e["agent_env_file"], "api_base": e["api_base"],
		"api_url": e["node_runtime_api_url"], "terminal_url": e["node_terminal_url"],
		"ca_bundle": s.bundle.path, "cert": agentFile(s.subject, "cert.pem"),
	}
	for k, v := range vars {
		if v == "" {
			delete(vars, k)
		}
	}
	return vars
}
