package chaos

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// fileParams are the parameters of file.
type fileParams struct {
	Path   string   `yaml:"path" json:"path"`
	Text   string   `yaml:"text,omitempty" json:"text,omitempty" jsonschema_description:"what is read there instead"`
	Absent bool     `yaml:"absent,omitempty" json:"absent,omitempty" jsonschema_description:"nothing is there"`
	SeenBy []string `yaml:"seenBy,omitempty,flow" json:"seenBy,omitempty" jsonschema_description:"units that see it, and are restarted with it; none: everybody, and the file is parked"`
}

// fileKind replaces a file's text, or removes the file.
func fileKind() Kind {
	return kind(Kind{
		Name: "file", Title: "replace or remove a file", Tier: step.TierBoot,
		On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "With seenBy, units are restarted with a file in /run laid over it. Without, the file itself is parked " +
			"beside its place (T3 outside of /run).",
	}, func(p *fileParams) []problem {
		return slices.Concat(absolute("path", p.Path),
			want("text", p.Absent != (p.Text != ""), "want exactly one of text and absent"),
			want("seenBy", !p.Absent || p.Text != "" || len(p.SeenBy) == 0,
				"a unit cannot be shown an absence: leave it out, and the file is parked"))
	}, func(p *fileParams, _ *Case) Questions {
		return Questions{Tools: []string{"cat", "test"}, Files: []string{p.Path}, Units: unitsOf(p.SeenBy)}
	}, func(p *fileParams, c *Case) (Made, *step.Refusal) {
		f, no := c.needFile(p.Path)
		if no != nil {
			return Made{}, no
		}
		if len(p.SeenBy) > 0 {
			return c.covered(p.SeenBy, overlay{path: p.Path, text: p.Text})
		}
		made := Made{
			Title: p.Path + " says something else", Scope: step.Scope{Files: []string{f.Path}},
			Changes: []step.Change{{File: &step.File{Path: f.Path, Text: p.Text, Absent: p.Absent}}},
		}
		if p.Absent {
			made.Title = p.Path + " is gone"
			made.Verify = []step.Check{
				{Name: p.Path + " is gone", Within: verifyWithin,
					Exec: step.Exec{Argv: []string{c.tool("test"), "-e", f.Path}, Exits: []int{1}}},
			}
		} else {
			made.Verify = []step.Check{c.seen(p.Path+" has the text", "", f.Path, firstLine(p.Text))}
		}
		return made, nil
	})
}

// covered restarts units with an overlay over one file.
func (c *Case) covered(units []string, v overlay) (Made, *step.Refusal) {
	made := Made{Title: v.path + " says something else to " + strings.Join(units, ", ")}
	for i, u := range units {
		of := *c
		if i > 0 {
			of.Step += "-" + string(rune('a'+i)) // each unit is a separate change, so each has its own source
		}
		changes, no := of.dropIn(unitOverlay{unit: unitOf(u), overlays: []overlay{v}})
		if no != nil {
			return Made{}, no
		}
		made.Changes = append(made.Changes, changes...)
		made.Scope.Units = append(made.Scope.Units, unitOf(u))
		if c.tool("cat") != "" && !v.secret {
			made.Verify = append(made.Verify, c.seen(u+" reads it", unitOf(u), v.path, firstLine(v.text)))
		}
	}
	return made, nil
}

// firstLine returns the first line of a text that is meaningful by itself.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "-----") {
			return line
		}
	}
	return strings.TrimSpace(text)
}
