package preflight

import (
	"cmp"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// fillUndecided says of an inconclusive walk that blames no hop why it decides nothing, and who can do what about that:
// the first inconclusive finding, in chain order, that has a signal; without one, who supplies what the walk lacked.
func fillUndecided(v *diag.Verdict, hops []diag.HopResult, c *Case) {
	for _, h := range hops {
		row, ok := diag.LookupSignal(h.Signal)
		if h.Status != diag.StatusInconclusive || !ok {
			continue
		}
		r := root{hop: h, finding: h.Finding}
		v.Because, v.Owner, v.Layer = h.Because, row.Owner, h.Layer
		fillFromTables(v, r, situation(hops, r, nil, c), c)
		return
	}
	row, ok := diag.LookupLack(lackOf(hops, c))
	if !ok {
		return
	}
	v.Owner = row.Owner
	vars := placeholders(c)
	for _, step := range row.Steps {
		v.Recovery = append(v.Recovery, diag.Fill(step, vars))
	}
}

// trustCommand accepts the node's first host key, with the profile and the host of this walk. It is empty where no node
// is named.
func trustCommand(c *Case) string {
	if c.Subject.NodeID == "" {
		return ""
	}
	argv := []string{"gpuaasctl", "ssh", "trust", c.Subject.NodeID}
	if p := cmp.Or(c.expected("profile_file"), c.Plan.Profile); p != "" {
		argv = append(argv, "--profile", p)
	}
	if strings.Contains(c.Plan.Command, " --node-host ") && c.Subject.NodeHost != "" {
		argv = append(argv, "--node-host", c.Subject.NodeHost)
	}
	return pasted(diag.Command(argv...), trustLine)
}
