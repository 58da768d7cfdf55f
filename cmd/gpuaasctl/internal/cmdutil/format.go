package cmdutil

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/diag/render"
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
		return fmt.Errorf("want %s", OneOf(c.allowed))
	}
	*c.value = v
	return nil
}

// OneOf lists words for people: "a, b or c".
func OneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// ChoiceFlag adds a flag that takes one of allowed, with completion.
func ChoiceFlag(cmd *cobra.Command, into *string, name, short, preset, usage string, allowed ...string) {
	*into = preset
	cmd.Flags().VarP(&choice{into, allowed}, name, short, usage)
	CompleteFunc(cmd, name, func() []string { return allowed })
}

// OutputOptions are the options of a command that has only -o.
type OutputOptions struct{ Output string }

// FormatFlag adds -o.
func FormatFlag(cmd *cobra.Command, into *string, preset string, allowed ...string) {
	ChoiceFlag(cmd, into, "output", "o", preset, "`FORMAT` of the output: "+OneOf(allowed), allowed...)
}

// OutFlag adds -O, which names a file to write to.
func OutFlag(cmd *cobra.Command, into *string, usage string) {
	cmd.Flags().StringVarP(into, "out", "O", "", usage)
}

// PageFlag adds -o for a document whose text is a page, see ShowPage.
func PageFlag(cmd *cobra.Command, into *string, more ...string) {
	FormatFlag(cmd, into, FormatTable, PageFormats(more...)...)
}

// PageFormats returns the formats of a page, the default first.
func PageFormats(more ...string) []string {
	return slices.Concat([]string{FormatTable}, more, []string{FormatJSON, FormatMarkdown})
}

// BadFormat is for a format that the flag allowed but the command cannot write.
func BadFormat(got string, allowed ...string) error {
	return Usagef("-o %s is not supported here; want %s", got, OneOf(allowed))
}

// DefaultDeadline bounds a whole walk: long enough for every hop's budget on a slow path, short enough for an operator
// who waits.
const DefaultDeadline = 60 * time.Second

// Formats of a report.
const (
	FormatTable    = "table"
	FormatWide     = "wide"
	FormatFull     = "full"
	FormatShort    = "short"
	FormatJSON     = "json"
	FormatJUnit    = "junit"
	FormatNDJSON   = "ndjson"
	FormatMarkdown = "markdown"
	FormatHTML     = "html"
)

// Formats lists them as the renderer does, the default first.
var Formats = formats()

func formats() (names []string) {
	for _, f := range render.Formats {
		names = append(names, string(f))
	}
	return names
}

// IsPage reports whether a format is a page for people, before which a terminal shows a live view.
func IsPage(format string) bool {
	return format == FormatTable || format == FormatWide || format == FormatFull
}

// Values of --fail-on.
const (
	FailOnWarn       = render.FailOnWarn
	FailOnRegression = render.FailOnRegression
)

// OutputFlags declares -o and --fail-on.
func OutputFlags(cmd *cobra.Command, output, fail *string) {
	FormatFlag(cmd, output, FormatTable, Formats...)
	ChoiceFlag(cmd, fail, "fail-on", "", "", "exit 4 or 6 on `WHAT`: "+OneOf([]string{FailOnWarn, FailOnRegression}),
		FailOnWarn, FailOnRegression)
	Group(cmd.Flags(), HeadOutput, "output", "fail-on")
}
