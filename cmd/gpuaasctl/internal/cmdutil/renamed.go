package cmdutil

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Renamed is an old spelling that still works. By the rule in docs/contract.md, help and completion omit it, it does
// the same as its replacement, and a note appears on a terminal only, so that no script's stderr changes.
type Renamed struct {
	Command string // the command that has it, as typed
	Old     string // a flag (--report), or a subcommand (replay)
	Now     string // its replacement: a flag of the command, or a command as typed
	Since   string // first version that has Now
}

// Renamings is every old spelling.
var Renamings = [...]Renamed{
	{"gpuaasctl preflight", "--report", "--out", "0.2"},
	{"gpuaasctl chaos run", "--report", "--out", "0.2"},
	{"gpuaasctl diag bundle", "--file", "--out", "0.2"},
	{"gpuaasctl diag trust", "--replay", "gpuaasctl diag trust REPORT", "0.2"},
	{"gpuaasctl preflight", "replay", "gpuaasctl preflight REPORT", "0.2"},
	{"gpuaasctl preflight", "schema", "gpuaasctl schema preflight-report", "0.2"},
	{"gpuaasctl chaos", "schema", "gpuaasctl schema drill", "0.2"},
}

// AddDeprecated adds the old spellings to the tree under root: it hides those that are declared, and adds the missing
// flags.
func AddDeprecated(root *cobra.Command) {
	for _, r := range Renamings {
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

// find returns the command of a spelling, and the name of its flag; nil if the tree has no such command.
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

// NoteDeprecated notes on a terminal which spelling of this command line is deprecated, and its replacement.
func (a *App) NoteDeprecated(cmd *cobra.Command) {
	if !IsTerminal(a.Stderr) {
		return
	}
	for _, r := range Renamings {
		if at, flag := r.find(cmd.Root()); at == cmd && (flag == "" || flagGiven(cmd, flag)) {
			a.Note("%s %s is now %s", r.Command, r.Old, r.Now)
		}
	}
}
