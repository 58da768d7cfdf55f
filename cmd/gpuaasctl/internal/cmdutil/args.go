package cmdutil

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Args requires least to most arguments (most below 0: any number); its error names the missing one by cmd.Use.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, usage, _ := strings.Cut(cmd.Use, " ")
		how := strings.TrimSpace(cmd.CommandPath() + " " + usage)
		switch {
		case len(args) < least:
			named := strings.FieldsFunc(usage, func(r rune) bool { return strings.ContainsRune(" .[]()", r) })
			named = slices.DeleteFunc(named, func(w string) bool { return w == "--" })
			return fmt.Errorf("%s is missing: %s", strings.ReplaceAll(named[len(args)], "|", " or "), how)
		case most == 0 && len(args) > 0:
			return fmt.Errorf("%q: %s takes no argument", args[0], cmd.CommandPath())
		case most > 0 && len(args) > most:
			return fmt.Errorf("%q is one argument too many: %s", args[most], how)
		}
		return nil
	}
}

// habits are flags of other tools, and their equivalents here.
var habits = map[string]string{
	"json": "-o json", "markdown": "-o markdown", "html": "-o html", "junit": "-o junit", "wide": "-o wide",
	"format": "--output", "node": "--node-id",
	"allocation": "--allocation-id", "host": "--node-host", "user": "--node-user", "timeout": "--deadline",
	"silent": "--quiet", "context": "--profile", "verbose": "-o wide", "v": "-o wide",
}

// FlagError words a flag error in this program's style. It names the flag, and its allowed values.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		name, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Errorf("%s: %s is missing", flagName(missing.GetFlag()), name)
	case errors.As(err, &invalid):
		return invalidValue(invalid)
	}
	return err
}

// invalidValue names the flag and what it takes.
func invalidValue(err *pflag.InvalidValueError) error {
	f := err.GetFlag()
	want := err.Unwrap().Error()
	switch f.Value.Type() {
	case "duration":
		want = "want a time with its unit (30s, 2m)"
	case "int", "uint64":
		want = "want a whole number"
	case "bool":
		want = "want true or false"
	}
	meant := ""
	if c, ok := f.Value.(*choice); ok && slices.Contains(c.allowed, strings.ToLower(err.GetValue())) {
		meant = " (did you mean " + strings.ToLower(err.GetValue()) + "?)"
	}
	return fmt.Errorf("%s: %s, not %q%s", flagName(f), want, err.GetValue(), meant)
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name, dashes := err.GetSpecifiedName(), "--"
	if err.GetSpecifiedShortnames() != "" {
		dashes = "-"
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	meant := ""
	if same := habits[name]; same != "" && slices.ContainsFunc(known, func(k string) bool {
		return "--"+k == same || (k == "output" && strings.HasPrefix(same, "-o"))
	}) {
		meant = " (did you mean " + same + "?)"
	} else if dashes == "-" && strings.EqualFold(name, "v") {
		meant = " (did you mean gpuaasctl --version?)"
	} else if near := strings.TrimSpace(strictyaml.Nearest(name, known)); near != "" && dashes == "--" {
		meant = " " + strings.Replace(near, `"`, `--`, 1)
		meant = strings.Replace(meant, `"`, "", 1)
	}
	return fmt.Errorf("unknown flag: %s%s%s", dashes, name, meant)
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// unknownCommandError is about a word where a command's name belongs.
type unknownCommandError struct{ text string }

func (e *unknownCommandError) Error() string { return e.text }
