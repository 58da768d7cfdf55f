package chaos

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// gpuFakeFile is read by the lab nodes' fake of NVIDIA's library, see lab/nvml/fake.c.
const gpuFakeFile = "/run/gpuaas-lab/nvml"

// gpuFakeParams are the parameters of gpu-fake.
type gpuFakeParams struct {
	Lines []string `yaml:"lines" json:"lines" jsonschema:"minItems=1" jsonschema_description:"what the library answers otherwise, and which events it raises: '@0 nvmlDeviceGetTemperature 96', '@1 nvmlDeviceGetName rc=15', '@0 nvmlDeviceGetTemperature hang', '@0 event 8 119'"`
}

var gpuFakeLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^@([0-9]|1[0-5]) (event (8|0x8000) [0-9]+|(nvml[A-Za-z0-9_]+|field_[0-9]+) (hang|rc=[0-9]+|-?[0-9]+( -?(0x)?[0-9a-f]+){0,3}))$`)
})

// gpuFake makes the lab's fake of NVIDIA's library return other values. It needs that fake library: no real GPU is
// touched.
func gpuFake() Kind {
	return kind(Kind{
		Name: "gpu-fake", Title: "have the lab's fake of NVIDIA's library give other answers", Tier: step.TierBoot,
		On:    []Role{RoleNode, RolePeer},
		needs: []Need{NeedLab},
		About: "Only where the library is the fake: a GPU cannot be broken on purpose. Another text is put in the place of " +
			"the one that the library reads. An event that it raised is not taken back: what ends its effect is up to the " +
			"policy. One fault of this kind in a drill.",
	}, func(p *gpuFakeParams) []problem {
		found := required("lines", len(p.Lines) > 0)
		for i, l := range p.Lines {
			found = append(found, want(fmt.Sprintf("lines[%d]", i), gpuFakeLine().MatchString(l), fmt.Sprintf(
				"%q: want @GPU and a call with its values, rc=CODE or hang; or event and its type and data", l))...)
		}
		return found
	}, func(*gpuFakeParams, *Case) Questions {
		return Questions{Tools: []string{"cat"}, Texts: []string{gpuFakeFile}}
	}, func(p *gpuFakeParams, c *Case) (Made, *step.Refusal) {
		f, no := c.needFile(gpuFakeFile)
		if no != nil {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s has no %s: NVIDIA's library is not the lab's fake there, "+
				"and a GPU cannot be broken on purpose", c.Machine.ID, gpuFakeFile)
		}
		lines := strings.Join(p.Lines, "\n")
		return Made{
			Title:   "the library in the place of NVIDIA's says " + strings.Join(p.Lines, ", "),
			Changes: []step.Change{{File: &step.File{Path: f.Path, Text: f.Text + lines + "\n"}}},
			Scope:   step.Scope{Files: []string{f.Path}},
			Verify:  []step.Check{c.seen("its text says so", "", f.Path, lines)},
		}, c.needTools("cat")
	})
}
