package chaos

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// tasksParams are the parameters of tasks.
type tasksParams struct {
	Node string   `yaml:"node" json:"node" jsonschema_description:"whom the tasks are for"`
	API  string   `yaml:"api" json:"api" jsonschema_description:"where the platform's machine reaches its own API, http://127.0.0.1:8080, or ${edge_api_url}; the operator's token is sent there"`
	TTL  Duration `yaml:"ttl" json:"ttl" jsonschema_description:"after which an unclaimed task has expired; whole seconds"`
}

// tasksKind queues a no-op that no node claims. It expires, so there is nothing to revert.
func tasksKind() Kind {
	return kind(Kind{
		Name: "tasks", Title: "queue a task that expires", Tier: step.TierBoot, On: []Role{RolePlatform},
		needs: []Need{NeedAPI},
		About: "One no-op is posted by curl with the operator's token, which is in a file in /run while the drill runs. " +
			"The answer is kept beside it, and undo removes it.",
	}, func(p *tasksParams) []problem {
		return slices.Concat(required("node", p.Node != ""), checkAPI(p.API),
			want("ttl", p.TTL > 0 && p.TTL.Std()%time.Second == 0, "want whole seconds"))
	}, func(*tasksParams, *Case) Questions {
		return Questions{Tools: []string{"curl", "find", "rm"}, Mints: []Mint{{What: MintBearer}}}
	}, func(p *tasksParams, c *Case) (Made, *step.Refusal) {
		api, no := c.platformAPI(p.API, "5")
		if no == nil {
			no = c.needTools("find", "rm")
		}
		if no != nil {
			return Made{}, no
		}
		body := object{"type": "noop", "payload": object{}, "ttl_seconds": int(p.TTL.Std().Seconds())}
		answer := c.runPath("answer")
		tasks := c.Profile.Mapping.Path(profile.PathNodeTasks, map[string]string{"node_id": p.Node})
		if tasks == "" {
			return Made{}, step.Refuse(step.RefusedUnsupported, "this platform takes no tasks (mapping.paths.%s)",
				profile.PathNodeTasks)
		}
		run := &step.Run{
			Place: "tasks:" + p.Node, Tier: step.TierBoot, Injected: answer,
			State: step.Exec{Argv: []string{c.tool("find"), path.Dir(answer), "-maxdepth", "1", "-name", path.Base(answer)}},
			Do:    api.post(tasks, body, "-o", answer),
			Undo:  step.Exec{Argv: []string{c.tool("rm"), "-f", answer}},
		}
		return Made{
			Title:   fmt.Sprintf("a task for %s is queued, and expires after %s", p.Node, p.TTL),
			Changes: []step.Change{api.token(), {Run: run}},
		}, nil
	})
}
