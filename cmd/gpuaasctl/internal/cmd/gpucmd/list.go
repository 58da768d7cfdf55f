package gpucmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// List is the output of list -o json.
type List struct {
	diag.Head              // XIDList
	Tables    string       `json:"tables"`
	Entries   []Entry      `json:"entries"`
	Sources   []xid.Source `json:"sources"`
}

// listOptions choose the codes.
type listOptions struct {
	output, class   string
	sxids, disputed bool
}

func newList(a *cmdutil.App) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the XIDs, or the SXIDs, with class and what they condemn",
		Example: `  gpuaasctl gpu xid list --class gpu_reset
  gpuaasctl gpu xid list --disputed
  gpuaasctl gpu xid list --sxid -o json`,
		Args: cmdutil.Args(0, 0),
		RunE: cmdutil.Run(a, o, list),
	}
	cmdutil.ChoiceFlag(cmd, &o.class, "class", "", "", "only of this `CLASS`", classes()...)
	cmd.Flags().BoolVar(&o.sxids, "sxid", false, "list SXIDs, of NVSwitches")
	cmd.Flags().BoolVar(&o.disputed, "disputed", false, "only codes that a source sees otherwise than this table")
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func list(a *cmdutil.App, _ *cobra.Command, o *listOptions, _ []string) error {
	doc := List{Head: diag.NewHead("XIDList"), Tables: xid.Digest, Entries: []Entry{}, Sources: xid.Sources()}
	rows := [][]string{{"code", "title", "class", "condemns", "disputed by"}}
	for _, e := range entries(o.sxids) {
		if (o.class != "" && string(e.Class) != o.class) || (o.disputed && len(e.Disputed) == 0) {
			continue
		}
		doc.Entries = append(doc.Entries, e)
		by := strings.Trim(fmt.Sprint(e.Disputed), "[]")
		rows = append(rows, []string{strconv.Itoa(e.Code), e.Title, string(e.Class), string(e.Condemns), by})
	}
	return a.ShowPage(doc, o.output, cmdutil.Table(rows))
}

func entries(sxids bool) (all []Entry) {
	if sxids {
		for _, r := range xid.SwitchRows() {
			all = append(all, entryOfSwitch(r))
		}
		return all
	}
	for _, r := range xid.Rows() {
		all = append(all, entryOf(r))
	}
	return all
}

func classes() (all []string) {
	for _, c := range xid.Classes() {
		all = append(all, string(c.Class))
	}
	return all
}
