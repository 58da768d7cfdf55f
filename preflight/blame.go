package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// root is one fault: a failing finding that no other failing finding explains, and the hops that it explains.
type root struct {
	hop      diag.HopResult
	finding  diag.Finding
	symptoms []diag.HopID
}

// decide makes the verdict from the judged hops, and the classification from all evidence. Blame is the first fault in
// chain order; the reason is the most pressing one that the evidence allows, so of several faults it may be another.
func decide(chain []Hop, hops []diag.HopResult, c *Case) (diag.Verdict, *diag.Classification) {
	v := blameFor(chain, hops, c)
	k := diag.Classify(evidenceOf(c, hops, &v))
	if unfound(hops, &v, &k) {
		v = blameFor(chain, hops, c)
		k = diag.Classify(evidenceOf(c, hops, &v))
	}
	k.Beside = beside(&v, &k)
	v.Reason, v.UserState, v.Severity = k.Reason, k.UserState, string(k.Severity)
	return v, &k
}

// blameFor is the verdict without reason and user state.
func blameFor(chain []Hop, hops []diag.HopResult, c *Case) diag.Verdict {
	v := diag.Verdict{Outcome: outcomeOf(hops, c.EndedBy)}
	for _, h := range hops {
		if h.Status == diag.StatusFail {
			v.FirstFailedHop = h.ID
			break
		}
	}
	roots := rootsOf(chain, hops)
	if len(roots) == 0 {
		fillUndecided(&v, hops, c)
		return v
	}
	blame := roots[0]
	b := toBlame(blame, c)
	v.Blame = &diag.Blame{Hop: b.Hop, Signal: b.Signal, Failure: b.Failure, Text: b.Text}
	v.Symptoms, v.Confidence, v.Proof, v.Owner = b.Symptoms, b.Confidence, b.Proof, b.Owner
	v.Layer = blame.hop.Layer
	v.RuledOut = ruledOut(chain, hops, blame, c)
	for _, r := range roots[1:] {
		v.OtherFindings = append(v.OtherFindings, toBlame(r, c))
	}
	fillFromTables(&v, blame, c)
	return v
}

// outcomeOf is fail when anything failed, and pass only when everything that was planned was measured and is green.
func outcomeOf(hops []diag.HopResult, endedBy diag.EndedBy) diag.Outcome {
	n := map[diag.Status]int{}
	for _, h := range hops {
		n[h.Status]++
	}
	switch {
	case n[diag.StatusFail] > 0:
		return diag.OutcomeFail
	case n[diag.StatusInconclusive]+n[diag.StatusNotReached] > 0, endedBy != diag.EndedCompleted, n[diag.StatusPass]+n[diag.StatusWarn] == 0:
		return diag.OutcomeInconclusive
	case n[diag.StatusWarn] > 0:
		return diag.OutcomeWarn
	}
	return diag.OutcomePass
}

// rootsOf folds failing findings under those that explain them, and returns the rest in chain order. A finding is
// explained by a failing hop in the closure of ExplainedBy (unless its own facts show the fault right here), or by an
// earlier finding with the same culprit.
func rootsOf(chain []Hop, hops []diag.HopResult) []root {
	failing := map[diag.HopID]bool{}
	for _, h := range hops {
		failing[h.ID] = h.Status == diag.StatusFail
	}
	closures := map[diag.HopID][]diag.HopID{}
	var roots []root
	folded := map[diag.HopID]bool{}
	for _, h := range hops {
		if h.Status != diag.StatusFail {
			continue
		}
		closures[h.ID] = closure(chain, h.ID)
		for _, f := range append([]diag.Finding{h.Finding}, h.Also...) {
			if f.Status != diag.StatusFail {
				continue
			}
			explained := !f.Direct && slices.ContainsFunc(closures[h.ID], func(id diag.HopID) bool { return failing[id] })
			if explained {
				folded[h.ID] = true
				continue
			}
			if i := slices.IndexFunc(roots, func(r root) bool { return f.Culprit != "" && r.finding.Culprit == f.Culprit }); i >= 0 {
				if roots[i].hop.ID != h.ID {
					roots[i].symptoms = append(roots[i].symptoms, h.ID)
				}
				continue
			}
			roots = append(roots, root{hop: h, finding: f})
		}
	}
	attach(roots, hops, folded, closures)
	return roots
}

// attach gives every folded hop to the first root that explains it.
func attach(roots []root, hops []diag.HopResult, folded map[diag.HopID]bool, closures map[diag.HopID][]diag.HopID) {
	for _, h := range hops {
		if !folded[h.ID] {
			continue
		}
		for i := range roots {
			if slices.Contains(closures[h.ID], roots[i].hop.ID) {
				roots[i].symptoms = append(roots[i].symptoms, h.ID)
				break
			}
		}
	}
	for i := range roots {
		sort.Slice(roots[i].symptoms, func(a, b int) bool {
			return slices.Index(diag.Hops[:], roots[i].symptoms[a]) < slices.Index(diag.Hops[:], roots[i].symptoms[b])
		})
		roots[i].symptoms = slices.Compact(roots[i].symptoms)
	}
}

// closure lists every hop that may explain a failure of id, directly or through others; never id itself.
func closure(chain []Hop, id diag.HopID) []diag.HopID {
	all := []diag.HopID{id}
	for i := 0; i < len(all); i++ {
		for h := range chain {
			if chain[h].ID != all[i] {
				continue
			}
			for _, e := range chain[h].ExplainedBy {
				if !slices.Contains(all, e) {
					all = append(all, e)
				}
			}
		}
	}
	return all[1:]
}

func toBlame(r root, c *Case) diag.Blame {
	f := r.finding
	b := diag.Blame{Hop: r.hop.ID, Signal: f.Signal, Failure: f.Failure, Text: f.Text, Symptoms: r.symptoms}
	if row, ok := diag.LookupSignal(f.Signal); ok {
		b.Owner = row.Owner
	}
	for _, id := range f.Evidence {
		if b.Proof = prove(c, id); b.Proof != nil {
			break
		}
	}
	switch {
	case b.Proof != nil:
		b.Confidence = diag.Proven
	case f.Failure.Silent():
		b.Confidence = diag.Possible
	default:
		b.Confidence = diag.Likely
	}
	return b
}

// fillFromTables adds what the closed tables say about the blame, with this node's values filled in.
func fillFromTables(v *diag.Verdict, r root, c *Case) {
	row, _ := diag.LookupSignal(r.finding.Signal)
	vars := placeholders(c)
	if len(r.finding.Evidence) > 0 && r.finding.Evidence[0] == factID(diag.HopNodeReadiness, stepRoot) {
		vars["full_dir"] = rootFolder
	}
	for _, step := range row.Recovery {
		v.Recovery = append(v.Recovery, diag.Fill(step, vars))
	}
	v.RepairProof = diag.Fill(row.Proof, vars)
	v.Runbook = row.Runbook
}

// placeholders are this node's values for the tables' templates.
func placeholders(c *Case) map[string]string {
	s := c.Subject
	vars := map[string]string{
		"node_id": s.NodeID, "node_host": s.NodeHost, "allocation_id": s.AllocationID,
		"profile": cmp.Or(c.expected("profile_file"), c.Plan.Profile), "preflight": pasted(c.Plan.Command, walkLine), "ssh": sshOf(c), "unit": c.expected("agent_unit"),
		"env_file": c.expected("agent_env_file"), "binary": c.expected("agent_binary"), "diag_dir": c.expected("agent_record"),
		"api_base": c.expected("api_base"), "terminal_base": c.expected("terminal_base"),
		"api_url": c.expected("node_runtime_api_url"), "terminal_url": c.expected("node_terminal_url"),
		"ssh_trust": trustCommand(c), "os_user": osUser(c), "app_unit": appUnit(c), "app_url": appField(c, "product_url"),
		"session_id":     c.Field(diag.HopTerminalTokenMint, stepMint, "token.session_id"),
		"correlation_id": s.CorrelationID,
	}
	if dir := c.expected("agent_dir"); dir != "" {
		vars["ca_bundle"], vars["cert"], vars["key"] = join(dir, "/ca-bundle.crt"), join(dir, "/cert.pem"), join(dir, "/key.pem")
	}
	for k, v := range vars {
		if v == "" {
			delete(vars, k)
		}
	}
	return vars
}

// ruledOut lists what the facts exclude as the cause: the phases that the failing probe came through, the
// counter-probes that failed just the same, and the hops that could have explained it and passed.
func ruledOut(chain []Hop, hops []diag.HopResult, r root, c *Case) []string {
	var out []string
	if len(r.finding.Evidence) > 0 {
		if f := c.facts[r.finding.Evidence[0]]; f != nil {
			out = append(out, phasesPassed(f)...)
			out = append(out, sameFailure(f, c)...)
		}
	}
	may := append(closure(chain, r.hop.ID), r.symptoms...)
	for _, s := range r.symptoms {
		may = append(may, closure(chain, s)...)
	}
	for _, h := range hops {
		if h.Status == diag.StatusPass && slices.Contains(may, h.ID) {
			out = append(out, fmt.Sprintf("%s: %s", h.ID, h.Text))
		}
	}
	return out
}

func phasesPassed(f *diag.Fact) []string {
	var out []string
	at := rung(f.Phase)
	if f.DNS != nil && at > rung("dns") && f.DNS.Source != "literal" {
		out = append(out, fmt.Sprintf("name look-up: %s is %s (%s)", f.DNS.Name, clip(f.DNS.Addresses), f.DNS.Source))
	}
	if f.TCP != nil && at > rung("tcp") {
		out = append(out, "network path: "+f.TCP.Remote+" accepts connections")
	}
	if f.TLS != nil && at > rung("tls") && f.TLS.Verified {
		out = append(out, "server certificate: verified against "+f.TLS.TrustSource)
	}
	return out
}

// sameFailure names the inputs that were changed without any change in the outcome.
func sameFailure(f *diag.Fact, c *Case) []string {
	var out []string
	for id, k := range c.facts {
		if !strings.HasPrefix(id, f.ID+"~") || k.Failure != f.Failure || k.Request.Op != f.Request.Op {
			continue
		}
		changed := diag.Changed(f.Request, k.Request)
		switch {
		case k.Vantage != f.Vantage:
			out = append(out, fmt.Sprintf("this node alone: from the %s it is %s, too", k.Vantage, k.Failure))
		case len(changed) == 1:
			out = append(out, fmt.Sprintf("%s: with %s it is %s, too", changed[0], inWords(k.Request, changed[0]), k.Failure))
		}
	}
	sort.Strings(out)
	return out
}
