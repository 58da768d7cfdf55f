package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// userParams are the parameters of user-missing.
type userParams struct {
	User   string `yaml:"user" json:"user"`
	SeenBy string `yaml:"seenBy,omitempty" json:"seenBy,omitempty" jsonschema_description:"the unit that does not find the user; default: the agent's"`
}

const passwdFile = "/etc/passwd"

// userMissing hides a user from one unit. The account itself is not changed.
func userMissing() Kind {
	return kind(Kind{
		Name: "user-missing", Title: "hide a user from a service", Tier: step.TierBoot, On: []Role{RoleNode, RolePeer},
		About: "Another passwd file in the mount namespace of a running unit, without the user's line. Logins and " +
			"everybody else find the user.",
	}, func(p *userParams) []problem {
		return required("user", p.User != "")
	}, func(p *userParams, c *Case) Questions {
		return Questions{Tools: []string{"getent"}, Units: []string{c.unit(p.SeenBy)}, Users: []string{p.User},
			Texts: []string{passwdFile}}
	}, func(p *userParams, c *Case) (Made, *step.Refusal) {
		if _, no := c.needUser(p.User); no != nil {
			return Made{}, no
		}
		text, found := withoutUser(c.Machine.Files[passwdFile].Text, p.User)
		if !found {
			return Made{}, step.Refuse(step.RefusedUnsupported,
				"%s is not in %s of %s: some directory knows the user, and would still", p.User, passwdFile, c.Machine.ID)
		}
		unit := c.unit(p.SeenBy)
		change, no := c.bind(unit, overlay{path: passwdFile, text: text})
		if no != nil {
			return Made{}, no
		}
		return Made{
			Title: unit + " does not find " + p.User, Changes: []step.Change{change}, Scope: step.Scope{Units: []string{unit}},
			Verify: []step.Check{{Name: p.User + " is not found", Unit: unit, Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("getent"), "passwd", p.User}, Exits: []int{2}}}},
		}, c.needTools("getent")
	})
}

func withoutUser(text, user string) (string, bool) {
	var out strings.Builder
	found := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, user+":") {
			found = true
			continue
		}
		out.WriteString(line)
	}
	return out.String(), found
}

// shellParams are the parameters of shell.
type shellParams struct {
	User   string   `yaml:"user" json:"user" jsonschema_description:"whose login shell it is"`
	How    string   `yaml:"how" json:"how" jsonschema:"enum=exits,enum=delays" jsonschema_description:"exits: at once, with code 1; delays: it says nothing for so long, then it is a shell"`
	Delay  Duration `yaml:"delay,omitempty" json:"delay,omitempty"`
	SeenBy string   `yaml:"seenBy,omitempty" json:"seenBy,omitempty" jsonschema_description:"the unit that starts it; default: the agent's"`
}

// shellKind breaks a user's login shell, or makes it slow, as one unit sees it.
func shellKind() Kind {
	return kind(Kind{
		Name: "shell", Title: "break a login shell, or make it slow", Tier: step.TierBoot, On: []Role{RoleNode, RolePeer},
		About: "A stub over the shell's program in the mount namespace of the unit that starts it. It needs /bin/sh, so it " +
			"cannot replace that one.",
	}, func(p *shellParams) []problem {
		return slices.Concat(required("user", p.User != ""), word("how", p.How, "exits", "delays"),
			want("delay", (p.How == "delays") == (p.Delay > 0), "belongs to how: delays, and only there"))
	}, func(p *shellParams, c *Case) Questions {
		q := Questions{Tools: []string{"timeout"}, Units: []string{c.unit(p.SeenBy)}, Users: []string{p.User},
			Files: []string{"/bin/sh"}}
		if c.Machine != nil { // the shell is known only once the user is
			if u, ok := c.Machine.Users[p.User]; ok && u.Shell != "" {
				q.Files = append(q.Files, u.Shell)
			}
		}
		return q
	}, makeShell)
}

func makeShell(p *shellParams, c *Case) (Made, *step.Refusal) {
	u, no := c.needUser(p.User)
	if no != nil {
		return Made{}, no
	}
	shell, no := c.needFile(u.Shell)
	if no != nil {
		return Made{}, no
	}
	if sh := c.Machine.Files["/bin/sh"]; sh.Path == shell.Path {
		return Made{}, step.Refuse(step.RefusedUnsupported, "the shell of %s on %s is /bin/sh, which the stub itself needs",
			p.User, c.Machine.ID)
	}
	stub := "#!/bin/sh\nexit 1\n"
	title := "the shell of " + p.User + " ends at once"
	exits := []int{1}
	if p.How == "delays" {
		seconds := strconv.FormatFloat(p.Delay.Std().Seconds(), 'f', -1, 64)
		stub = "#!/bin/sh\nsleep " + seconds + "\nexec /bin/sh\n"
		title = fmt.Sprintf("the shell of %s says nothing for %s", p.User, p.Delay)
		exits = []int{124}
	}
	unit := c.unit(p.SeenBy)
	change, no := c.bind(unit, overlay{path: u.Shell, text: stub})
	if no != nil {
		return Made{}, no
	}
	return Made{
		Title: title, Changes: []step.Change{change}, Scope: step.Scope{Units: []string{unit}},
		Verify: []step.Check{{Name: "the shell does not answer", Unit: unit, Within: verifyWithin,
			Exec: step.Exec{Argv: []string{c.tool("timeout"), "1", u.Shell, "-c", "true"}, Exits: exits}}},
	}, c.needTools("timeout")
}

func (p *userParams) ofAgent() bool { return p.SeenBy == "" }

func (p *shellParams) ofAgent() bool { return p.SeenBy == "" }
