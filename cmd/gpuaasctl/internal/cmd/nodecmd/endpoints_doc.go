package nodecmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
)

func endpointsPage(d *ops.Endpoints) []page.Block {
	blocks := []page.Block{page.Para{Text: fmt.Sprintf("%s of %s (%s)", d.File, d.Node, d.Host)}}
	if d.Diff != "" {
		blocks = append(blocks, page.Code(d.Diff))
	}
	var notes page.Fields
	for _, m := range d.Plan.Manual {
		word := "conflicts with the profile's " + m.Wanted
		if m.Agrees {
			word = "agrees"
		}
		notes = append(notes, page.Field{Label: "by hand",
			Text: fmt.Sprintf("%s:%d: %s %s: %s", d.File, m.Line, m.Address, m.Name, word)})
	}
	for _, name := range d.LeftToDNS {
		notes = append(notes, page.Field{Label: "left to DNS", Text: name + ": the profile has no address for it"})
	}
	blocks = append(blocks, notes, page.Para{Text: endpointsOutcome(d)})
	table := [][]string{{"NAME", "WANTED", "ON THE NODE", "BY"}}
	for _, r := range d.Names {
		is := cmp.Or(strings.Join(r.Addresses, ", "), string(r.Failure))
		table = append(table, []string{r.Name, r.Wanted, is, strings.TrimSpace(r.Source + " " + r.Line)})
	}
	if len(d.Names) > 0 {
		blocks = append(blocks, cmdutil.Table(table))
	}
	if d.Undo != "" {
		blocks = append(blocks, page.Fields{{Label: "undo", Text: d.Undo},
			{Label: "audit", Text: endpoints.LogFile + " " + d.RunID}})
	}
	return blocks
}

// endpointsOutcome sums up the document in one sentence.
func endpointsOutcome(d *ops.Endpoints) string {
	switch {
	case d.Error != "" && !d.Applied:
		return "not done, see the error"
	case d.Applied && d.Resolves():
		return "changed"
	case d.Applied:
		return "changed, and the node still gets other addresses: see where from"
	case d.Action == ops.EndpointsPlan && d.Changed && len(d.Plan.Conflicts()) > 0:
		return "apply would refuse: a manual line contradicts the plan"
	case d.Action == ops.EndpointsPlan && d.Changed:
		return "apply would change this"
	case d.Resolves():
		return "already so"
	}
	return "already so, and the node still gets other addresses: see where from"
}
