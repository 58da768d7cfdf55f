package cmdutil

import "github.com/spf13/cobra"

// Run returns the RunE of a command: run does the command's work, with the options that its flags set. A test replaces
// the work of every command by App.Instead.
func Run[O any](a *App, o O,
	run func(a *App, cmd *cobra.Command, o O, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.Instead != nil {
			return a.Instead(cmd, o, args)
		}
		return run(a, cmd, o, args)
	}
}

// Formatted completes a command that has only -o: run does its work, in one of these formats, the first by default.
func Formatted(a *App, run func(*App, *cobra.Command, *OutputOptions, []string) error, cmd *cobra.Command,
	formats ...string) *cobra.Command {
	o := &OutputOptions{}
	cmd.RunE = Run(a, o, run)
	FormatFlag(cmd, &o.Output, formats[0], formats...)
	return cmd
}
