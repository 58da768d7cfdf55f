package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is a flag with a closed set of values: a wrong one is a usage error that names flag and values.
type choice struct {
	value   *string
	allowed []string
}

var _ pflag.Value = (*choice)(nil)

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c *choice) Type() string { return "string" }

func (c *choice) Set(v string) error {
	if !slices.Contains(c.allowed, v) {
		return fmt.Errorf("want %s", oneOf(c.allowed))
	}
	*c.value = v
	return nil
}

// oneOf lists words for people: "a, b or c".
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// choiceFlag adds a flag that takes one of allowed, with completion.
func choiceFlag(cmd *cobra.Command, into *string, name, short, preset, usage string, allowed ...string) {
	*into = preset
	cmd.Flags().VarP(&choice{into, allowed}, name, short, usage)
	complete(cmd, name, allowed...)
}

// formatFlag adds -o.
func formatFlag(cmd *cobra.Command, into *string, preset string, allowed ...string) {
	choiceFlag(cmd, into, "output", "o", preset, "`FORMAT` of the output: "+oneOf(allowed), allowed...)
}

// badFormat is for a format that the flag let through and the command cannot write.
func badFormat(got string, allowed ...string) error {
	return usagef("-o %s cannot be had here; want %s", got, oneOf(allowed))
}
