package chaos

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// tasksParams are those of tasks.
type tasksParams struct {
	Node string   `yaml:"node" json:"node" jsonschema_description:"whom the tasks are for"`
	API  string   `yaml:"api" json:"api" jsonschema_description:"where the platform's machine reaches its own API, http://127.0.0.1:8080, or ${edge_api_url}; the operator's token is sent there"`
	TTL  Duration `yaml:"ttl" json:"ttl" jsonschema_description:"after which a task that nobody claimed has expired; whole seconds"`
}

// tasksKind queues a no-op that nobody is there to claim. There is nothing to undo about it: it expires.
func tasksKind() Kind {
	return kind(Kind{
		Name: "tasks", Title: "queue a task that expires", Tier: step.TierBoot, On: []Role{RolePlatform},
		About: "One no-op is posted by curl with the operator's token, which is in a file in /run while the drill runs. The answer is kept beside it, and is what undo takes away.",
	}, func(p *tasksParams) []problem {
		found := append(required("node", p.Node != ""), required("api", p.API != "")...)
		if p.API != "" && !ownAPI(p.API, samples()["edge_api_url"]) {
			found = append(found, problem{key: "api", text: fmt.Sprintf("%q: %s", p.API, wantAPI)})
		}
		if p.TTL <= 0 || p.TTL.Std()%1_000_000_000 != 0 {
			found = append(found, problem{key: "ttl", text: "want whole seconds"})
		}
		return found
	}, func(*tasksParams, *Case) Questions {
		return Questions{Tools: []string{"curl", "find", "rm"}, Mints: []Mint{{What: MintBearer}}}
	}, func(p *tasksParams, c *Case) (Made, *step.Refusal) {
		if no := c.needTools("curl", "find", "rm"); no != nil {
			return Made{}, no
		}
		if !ownAPI(p.API, c.Profile.APIBase) { // once more: the check of a file does not know the profile
			return Made{}, step.Refuse(step.RefusedDrill, "api %q: %s", p.API, wantAPI)
		}
		body, err := json.Marshal(map[string]any{"type": "noop", "payload": map[string]any{}, "ttl_seconds": int(p.TTL.Std().Seconds())})
		if err != nil {
			return Made{}, step.Refuse(step.RefusedDrill, "%v", err)
		}
		header, answer := c.runPath("header"), c.runPath("answer")
		tasks := c.Profile.Mapping.Path(profile.PathNodeTasks, map[string]string{"node_id": p.Node})
		if tasks == "" {
			return Made{}, step.Refuse(step.RefusedUnsupported, "this platform takes no tasks (mapping.paths.%s)", profile.PathNodeTasks)
		}
		run := &step.Run{
			Place: "tasks:" + p.Node, Tier: step.TierBoot, Injected: answer,
			State: step.Exec{Argv: []string{c.tool("find"), path.Dir(answer), "-maxdepth", "1", "-name", path.Base(answer)}},
			Do: step.Exec{Argv: []string{c.tool("curl"), "-sS", "-f", "-m", "5", "-o", answer, "-H", "@" + header,
				"-H", "Content-Type: application/json", "-d", string(body), strings.TrimSuffix(p.API, "/") + tasks}},
			Undo: step.Exec{Argv: []string{c.tool("rm"), "-f", answer}},
		}
		return Made{
			Title: fmt.Sprintf("a task for %s is queued, and expires after %s", p.Node, p.TTL),
			Changes: []step.Change{
				{File: &step.File{Path: header, Text: c.minted(Mint{What: MintBearer}).Text, Mode: 0o600, Secret: true}},
				{Run: run},
			},
		}, nil
	})
}
