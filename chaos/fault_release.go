package chaos

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// releaseParams are the parameters of release.
type releaseParams struct {
	Allocation string   `yaml:"allocation" json:"allocation" jsonschema_description:"which allocation: its tenant has it again afterwards"`
	API        string   `yaml:"api" json:"api" jsonschema_description:"where the platform's machine reaches its own API, http://127.0.0.1:8080, or ${edge_api_url}; the operator's token is sent there"`
	For        Duration `yaml:"for" json:"for" jsonschema_description:"after which the platform ends the release by itself; whole seconds, at most 1h"`
}

// releasedWord is the platform's output during a temporary release.
const releasedWord = `{"release":"for_a_while"}`

// releaseKind releases an allocation temporarily. The platform's state of it is the same during the node's
// cleanup, so that undo can find the release from the start. The release also expires, in case no undo is
// possible.
func releaseKind() Kind {
	return kind(Kind{
		Name: "release", Title: "release an allocation for a while", Tier: step.TierBoot, On: []Role{RolePlatform},
		needs: []Need{NeedAPI},
		About: "The release is posted by curl with the operator's token, which is in a file in /run while the drill runs. " +
			"The place must be said to be cleaned up right after it. The release is for a while: undo withdraws it, and after " +
			"a reboot it ends when its time is over. What the node's clean-up stops is another fault's to start again " +
			"(service-exec, slow-stop).",
	}, func(p *releaseParams) []problem {
		return slices.Concat(required("allocation", p.Allocation != ""), checkAPI(p.API), wholeSeconds("for", p.For))
	}, func(*releaseParams, *Case) Questions {
		return Questions{Tools: []string{"curl"}, Mints: []Mint{{What: MintBearer}}}
	}, makeRelease)
}

func makeRelease(p *releaseParams, c *Case) (Made, *step.Refusal) {
	api, no := c.platformAPI(p.API, "12") // the API call that ends a release waits for the node
	if no != nil {
		return Made{}, no
	}
	ids := map[string]string{"allocation_id": p.Allocation, "node_id": c.Values["node_id"]}
	at, read := c.Profile.Mapping.Path(profile.PathRelease, ids), c.Profile.Mapping.Path(profile.PathAllocation, ids)
	if at == "" || read == "" {
		return Made{}, step.Refuse(step.RefusedUnsupported,
			"this platform releases no allocation for a while (mapping.paths.%s)", profile.PathRelease)
	}
	body := object{"reason": "drill " + c.Run, "by": "gpuaasctl chaos", "for_seconds": int(p.For.Std().Seconds())}
	run := &step.Run{
		Place: "release:" + p.Allocation, Tier: step.TierBoot, Late: true, Injected: releasedWord, State: api.ask(at),
		Do: api.post(at, body), Undo: api.ask(at, "-X", "DELETE"),
	}
	return Made{
		Title:   fmt.Sprintf("allocation %s is released, and active again after %s", p.Allocation, p.For),
		Changes: []step.Change{api.token(), {Run: run}},
		Verify: []step.Check{{
			Name: "its place is not free while the node cleans up", Within: verifyWithin, Exec: api.ask(read),
			Has: `"occupancy":"cleanup"`,
		}},
	}, nil
}
