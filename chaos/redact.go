package chaos

import (
	"maps"
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Redacted is the plan without its secret texts, for everybody but the machines: keys and tokens, and what lies on a
// machine where not everybody may read it.
func (p Plan) Redacted() Plan {
	p.Targets = slices.Clone(p.Targets)
	for i := range p.Targets {
		p.Targets[i].Drill = p.Targets[i].Drill.Redacted()
	}
	if p.Facts != nil {
		f := *p.Facts
		f.Machines = slices.Clone(f.Machines)
		for i := range f.Machines {
			files := maps.Clone(f.Machines[i].Files)
			for path, file := range files {
				if file.Text != "" && file.private() {
					file.Text = step.Redacted
					files[path] = file
				}
			}
			f.Machines[i].Files = files
		}
		p.Facts = &f
	}
	return p
}
