package page_test

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// A document is a list of blocks. On a pipe (Width 0) every row is one line; on a terminal, a table is fitted.
func Example() {
	blocks := []page.Block{
		page.Heading{Text: "nodes of lab"},
		page.Table{
			Columns: page.Titles("NODE", "STATE", "WHY"),
			Rows: []page.Row{
				page.Cells("compute-node-01", page.Status(diag.StatusPass).Text, ""),
				page.Cells("compute-node-02", page.Status(diag.StatusFail).Text,
					"the node does not trust the node API by its CA bundle"),
			},
		},
		page.Blank{},
		page.Fields{{Label: "owner", Text: "PKI, edge profile", Style: page.Strong}},
		page.Steps{Label: "next",
			Texts: []string{"see which link of trust is broken: `gpuaasctl diag trust compute-node-02`"}},
	}
	fmt.Printf("%s---\n%s---\n%s", page.Text(page.Layout{}, blocks...), page.Text(page.Layout{Width: 60}, blocks...),
		page.Markdown(blocks...))
	// Output:
	// nodes of lab
	// NODE             STATE   WHY
	// compute-node-01  ✔ pass  -
	// compute-node-02  ✘ fail  the node does not trust the node API by its CA bundle
	//
	// owner     PKI, edge profile
	// next      1. see which link of trust is broken:
	//              $ gpuaasctl diag trust compute-node-02
	// ---
	// nodes of lab
	// NODE             STATE   WHY
	// compute-node-01  ✔ pass  -
	// compute-node-02  ✘ fail  the node does not trust the node
	//                          API by its CA bundle
	//
	// owner     PKI, edge profile
	// next      1. see which link of trust is broken:
	//              $ gpuaasctl diag trust compute-node-02
	// ---
	// ## nodes of lab
	//
	// | NODE | STATE | WHY |
	// |---|---|---|
	// | compute-node-01 | ✔ pass | - |
	// | compute-node-02 | ✘ fail | the node does not trust the node API by its CA bundle |
	//
	// - **owner**: PKI, edge profile
	//
	// **next**
	//
	// 1. see which link of trust is broken: `gpuaasctl diag trust compute-node-02`
}
