package chaos

import (
	"maps"
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// gone stands for a text that is shown to nobody.
const gone = diag.Redacted

// Redacted is the plan without its secret texts, for everybody but the machines: keys and tokens, and what lies on a
// machine where not everybody may read it.
func (p Plan) Redacted() Plan {
	p.Targets = slices.Clone(p.Targets)
	for i := range p.Targets {
		d := &p.Targets[i].Drill
		d.Steps = slices.Clone(d.Steps)
		for j := range d.Steps {
			d.Steps[j].Changes = slices.Clone(d.Steps[j].Changes)
			for k, c := range d.Steps[j].Changes {
				d.Steps[j].Changes[k] = redacted(c)
			}
		}
	}
	if p.Facts != nil {
		f := *p.Facts
		f.Machines = slices.Clone(f.Machines)
		for i := range f.Machines {
			files := maps.Clone(f.Machines[i].Files)
			for path, file := range files {
				if file.Text != "" && file.private() {
					file.Text = gone
					files[path] = file
				}
			}
			f.Machines[i].Files = files
		}
		p.Facts = &f
	}
	return p
}

func redacted(c step.Change) step.Change {
	if c.File != nil && c.File.Secret {
		f := *c.File
		f.Text, c.File = gone, &f
	}
	if c.Mount != nil && c.Mount.Secret {
		m := *c.Mount
		m.Text, c.Mount = gone, &m
	}
	return c
}
