package cmdutil

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Renamed is an old spelling that goes on working. By the rule in docs/contract.md, help and completion omit it, it
// does the same as its replacement, and a note appears on a terminal only, so that no script's stderr changes.
type Renamed struct {
	Command string // that has it, as it is typed
	Old     string // a flag (--report), or a command below it (replay)
	Now     string // what does the same: a flag of the command, or how it is typed now
	Since   string // first version that has Now
}

// renamings is every old spelling.
var renamings = [...]Renamed{
	{"gpuaasctl preflight", "--report", "--out", "0.2"},
	{"gpuaasctl chaos run", "--report", "--out", "0.2"},
	{"gpuaasctl diag bundle", "--file", "--out", "0.2"},
	{"gpuaasctl diag trust", "--replay", "gpuaasctl diag trust REPORT", "0.2"},
	{"gpuaasctl preflight", "replay", "gpuaasctl preflight REPORT", "0.2"},
	{"gpuaasctl preflight", "schema", "gpuaasctl schema preflight-report", "0.2"},
	{"gpuaasctl chaos", "schema", "gpuaasctl schema drill", "0.2"},
}

// Renamings returns every old spelling.
func Renamings() []Renamed { return slices.Clone(renamings[:]) }

// KeepOld gives the tree under root its old spellings: it hides those that are declared, and adds the flags that are
// not.
func KeepOld(root *cobra.Command) {
	for _, r := range renamings {
		cmd, old := r.find(root)
		switch {
		case cmd == nil:
		case old == "":
			cmd.Hidden = true
		case cmd.Flags().Lookup(old) != nil:
			cmd.Flags().Lookup(old).Hidden = true
		default:
			same := *cmd.Flags().Lookup(strings.TrimPrefix(r.Now, "--"))
			same.Name, same.Shorthand, same.Hidden = old, "", true
			cmd.Flags().AddFlag(&same)
		}
	}
}

// find is the command that a spelling is about, and the name of its flag; nil where the tree has no such command.
func (r Renamed) find(root *cobra.Command) (cmd *cobra.Command, flag string) {
	path := strings.Fields(r.Command)[1:]
	flag, isFlag := strings.CutPrefix(r.Old, "--")
	if !isFlag {
		path, flag = append(path, r.Old), ""
	}
	cmd = root
	for _, name := range path {
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return nil, ""
		}
		cmd = cmd.Commands()[i]
	}
	return cmd, flag
}

// NoteOld notes on a terminal which spelling of this command line is deprecated, and its replacement.
func (a *App) NoteOld(cmd *cobra.Command) {
	if !IsTerminal(a.Stderr) {
		return
	}
	for _, r := range renamings {
		if at, flag := r.find(cmd.Root()); at == cmd && (flag == "" || flagGiven(cmd, flag)) {
			a.Note("%s %s is now %s", r.Command, r.Old, r.Now)
		}
	}
}
