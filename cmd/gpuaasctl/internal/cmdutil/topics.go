package cmdutil

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/profile"
)

// topic is a page of help that is not about a command.
type topic struct {
	name, short, intro string
	rows               func() [][2]string
}

// topics is every topic.
var topics = [...]topic{
	{"environment", "Every environment variable that is read",
		"Flags win over these variables, and these over the profile.", environment},
	{"exit-codes", "What an exit code means, the same for every command and format",
		"Residue of a drill on a machine outranks every other code.", exitCodes},
}

// topicOf returns the topic that args name; nil for none.
func topicOf(args []string) *topic {
	for i := range topics {
		if len(args) == 1 && args[0] == topics[i].name {
			return &topics[i]
		}
	}
	return nil
}

func (t *topic) write(w io.Writer, columns int) {
	h := &help{columns: columns}
	h.prose(t.short + ".\n\n" + t.intro + "\n\n")
	rows, wide := t.rows(), 0
	for _, r := range rows {
		wide = max(wide, len(r[0]))
	}
	for _, r := range rows {
		lead, at := "  "+page.Pad(r[0], wide)+"  ", wide+4
		if wide > h.columns*2/5 {
			h.b.WriteString("  " + r[0] + "\n")
			lead, at = "      ", 6
		}
		h.hang(lead, r[1], at)
	}
	_, _ = io.WriteString(w, h.b.String())
}

// environment lists the variables: those for the values of a profile, then the rest.
func environment() [][2]string {
	rows := [][2]string{
		{profile.EnvProfile, "the profile, where --profile gives none"},
		{EnvNode, "the node, where a command line names none"},
		{EnvHistory, "off: no walk is kept, and none is read; on is the default"},
	}
	flags := map[string]string{}
	for _, o := range Overrides {
		flags[o.key] = ", as --" + o.Flag
	}
	env := profile.Env()
	for _, key := range slices.Sorted(maps.Keys(env)) {
		rows = append(rows, [2]string{env[key], fmt.Sprintf("%s of the profile%s", key, flags[key])})
	}
	return append(rows, [][2]string{
		{"XDG_CONFIG_HOME", "profiles are in gpuaasctl/profiles below it (default ~/.config)"},
		{"XDG_STATE_HOME", "history and drills are in gpuaasctl below it (default ~/.local/state; for root /var/lib)"},
		{"SSH_AUTH_SOCK", "the SSH agent whose keys are offered to nodes"},
		{"TMPDIR", "where a bundle goes that cannot be written where it was wanted"},
		{"NO_COLOR", "anything: no colour. The first of these that is set decides: --color always or never, NO_COLOR, " +
			"CLICOLOR_FORCE, FORCE_COLOR, TERM, whether the stream is a terminal"},
		{"CLICOLOR_FORCE, FORCE_COLOR", "anything but 0 and false: colour even if the stream is not a terminal"},
		{"TERM", "dumb: no colour, and no live view"},
		{"COLUMNS", "how wide tables and help are, in place of the terminal's width; the live view has the terminal's"},
		{"GITHUB_ACTIONS", "true: preflight, chaos run and chaos report append a summary to GITHUB_STEP_SUMMARY and " +
			"annotate on stderr; foreign text cannot command the runner"},
		{"GITHUB_STEP_SUMMARY", "the file of that summary"},
		{"LC_ALL, LC_CTYPE, LANG", "without UTF-8 tables are drawn in ASCII"},
		{"SUDO_USER", "who asks, in audits and drills"},
	}...)
}

// exitCodes lists the exit codes of the catalogue.
func exitCodes() [][2]string {
	var rows [][2]string
	for _, r := range diag.Exits() {
		rows = append(rows, [2]string{fmt.Sprint(r.Code), strings.ReplaceAll(r.Means, "`", "")})
	}
	return rows
}
