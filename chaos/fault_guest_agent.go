package chaos

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// guestAgentParams are the parameters of guest-agent.
type guestAgentParams struct {
	Node   string   `yaml:"node" json:"node" jsonschema_description:"whose machine it is"`
	API    string   `yaml:"api" json:"api" jsonschema_description:"where the platform's machine reaches its own API, http://127.0.0.1:8080, or ${edge_api_url}; the operator's token is sent there"`
	Status string   `yaml:"status" json:"status" jsonschema:"enum=stopped,enum=down,enum=unreachable" jsonschema_description:"what the provider says"`
	For    Duration `yaml:"for" json:"for" jsonschema_description:"after which the platform forgets it by itself; whole seconds, at most 1h"`
}

// guestAgent makes a node's provider report to the platform that the machine's guest agent is gone. Undo withdraws
// the report. It also expires, in case no undo is possible.
func guestAgent() Kind {
	return kind(Kind{
		Name: "guest-agent", Title: "make the provider report a guest agent as gone", Tier: step.TierBoot,
		On:    []Role{RolePlatform},
		needs: []Need{NeedAPI},
		About: "The provider's word is posted by curl with the operator's token, which is in a file in /run while the " +
			"drill runs. It holds for a while: undo withdraws it, and after a reboot it ends when its time is over.",
	}, func(p *guestAgentParams) []problem {
		return slices.Concat(required("node", p.Node != ""), checkAPI(p.API),
			word("status", p.Status, "stopped", "down", "unreachable"), wholeSeconds("for", p.For))
	}, func(*guestAgentParams, *Case) Questions {
		return Questions{Tools: []string{"curl"}, Mints: []Mint{{What: MintBearer}}}
	}, makeGuestAgent)
}

func makeGuestAgent(p *guestAgentParams, c *Case) (Made, *step.Refusal) {
	api, no := c.platformAPI(p.API, "5")
	if no != nil {
		return Made{}, no
	}
	at := c.Profile.Mapping.Path(profile.PathNodeProvider, map[string]string{"node_id": p.Node})
	if at == "" {
		return Made{}, step.Refuse(step.RefusedUnsupported, "this platform accepts no provider status (mapping.paths.%s)",
			profile.PathNodeProvider)
	}
	body := object{
		"guest_agent": object{"status": p.Status, "for_seconds": int(p.For.Std().Seconds())},
		"reason":      "drill " + c.Run, "by": "gpuaasctl chaos",
	}
	said := object{"guest_agent": object{"status": p.Status}}
	run := &step.Run{
		Place: "guest-agent:" + p.Node, Tier: step.TierBoot, Late: true, Injected: said.String(), State: api.ask(at),
		Do: api.post(at, body), Undo: api.ask(at, "-X", "DELETE"),
	}
	return Made{
		Title:   fmt.Sprintf("the provider says of the guest agent of %s: %s", p.Node, p.Status),
		Changes: []step.Change{api.token(), {Run: run}},
	}, nil
}
