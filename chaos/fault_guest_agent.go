package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// guestAgentParams are those of guest-agent.
type guestAgentParams struct {
	Node   string   `yaml:"node" json:"node" jsonschema_description:"whose machine it is"`
	API    string   `yaml:"api" json:"api" jsonschema_description:"where the platform's machine reaches its own API: http://127.0.0.1:8080"`
	Status string   `yaml:"status" json:"status" jsonschema:"enum=stopped,enum=down,enum=unreachable" jsonschema_description:"what the provider says"`
	For    Duration `yaml:"for" json:"for" jsonschema_description:"after which the platform forgets it by itself; whole seconds, at most 1h"`
}

// guestAgent lets the platform hear from a node's provider that the machine's guest agent is gone. The word holds for a
// while, so that it ends by itself where nothing is left that could withdraw it; undo withdraws it.
func guestAgent() Kind {
	return kind(Kind{
		Name: "guest-agent", Title: "let the provider say that a guest agent is gone", Tier: step.TierBoot, On: []Role{RolePlatform},
		About: "The provider's word is posted by curl with the operator's token, which is in a file in /run while the drill runs. It holds for a while: undo withdraws it, and after a reboot it ends when its time is over.",
	}, func(p *guestAgentParams) []problem {
		found := append(required("node", p.Node != ""), required("api", strings.HasPrefix(p.API, "http"))...)
		found = append(found, word("status", p.Status, "stopped", "down", "unreachable")...)
		if p.For <= 0 || p.For.Std() > time.Hour || p.For.Std()%time.Second != 0 {
			found = append(found, problem{key: "for", text: "want whole seconds, at most 1h"})
		}
		return found
	}, func(*guestAgentParams, *Case) Questions {
		return Questions{Tools: []string{"curl"}, Mints: []Mint{{What: MintBearer}}}
	}, makeGuestAgent)
}

func makeGuestAgent(p *guestAgentParams, c *Case) (Made, *step.Refusal) {
	if no := c.needTools("curl"); no != nil {
		return Made{}, no
	}
	at := c.Profile.Mapping.Path(profile.PathNodeProvider, map[string]string{"node_id": p.Node})
	if at == "" {
		return Made{}, step.Refuse(step.RefusedUnsupported, "this platform takes no word of a provider (mapping.paths.%s)", profile.PathNodeProvider)
	}
	body, err := json.Marshal(map[string]any{
		"guest_agent": map[string]any{"status": p.Status, "for_seconds": int(p.For.Std().Seconds())}, "reason": "drill " + c.Run, "by": "gpuaasctl chaos",
	})
	if err != nil {
		return Made{}, step.Refuse(step.RefusedDrill, "%v", err)
	}
	said, err := json.Marshal(map[string]any{"guest_agent": map[string]string{"status": p.Status}})
	if err != nil {
		return Made{}, step.Refuse(step.RefusedDrill, "%v", err)
	}
	header := c.runPath("header")
	ask := func(more ...string) step.Exec {
		argv := append([]string{c.tool("curl"), "-sS", "-f", "-m", "5", "-H", "@" + header}, more...)
		return step.Exec{Argv: append(argv, strings.TrimSuffix(p.API, "/")+at)}
	}
	run := &step.Run{
		Place: "guest-agent:" + p.Node, Tier: step.TierBoot, Injected: string(said), State: ask(),
		Do: ask("-H", "Content-Type: application/json", "-d", string(body)), Undo: ask("-X", "DELETE"),
	}
	return Made{
		Title: fmt.Sprintf("the provider says of the guest agent of %s: %s", p.Node, p.Status),
		Changes: []step.Change{
			{File: &step.File{Path: header, Text: c.minted(Mint{What: MintBearer}).Text, Mode: 0o600, Secret: true}},
			{Run: run},
		},
	}, nil
}
