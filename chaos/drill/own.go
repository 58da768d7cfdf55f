package drill

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// agentSays returns, by task, the correlation id under which the node's agent recorded it.
func agentSays(r *diag.Report) map[string]string {
	said := map[string]string{}
	for i := range r.Facts {
		rec := r.Facts[i].Record
		if rec == nil {
			continue
		}
		for _, e := range rec.Entries {
			if e.TaskID != "" {
				said[e.TaskID] = e.CorrelationID
			}
		}
	}
	return said
}

// tasks returns the ids of the tasks that the platform created for the walk.
func (s WalkView) tasks() []string {
	var all []string
	for _, name := range []string{"task.id", "session.task_id"} {
		if id := s.ReadModel[name]; id != "" {
			all = append(all, id)
		}
	}
	return all
}

// owned drops agent records of tasks that do not belong to these walks: the record is older than the run.
func (s *WalkView) owned(walks []WalkView) {
	said := s.AgentSays
	s.AgentSays = nil
	for _, w := range append(walks[:len(walks):len(walks)], *s) {
		for _, task := range w.tasks() {
			id, is := said[task]
			if !is {
				continue
			}
			if s.AgentSays == nil {
				s.AgentSays = map[string]string{}
			}
			s.AgentSays[task] = id
		}
	}
}

// estranged describes a task that the agent recorded under another id than the walk's; "" if there is none. The
// agent records only failures, often after the walk: then a later walk reads the entry.
func (s *Story) estranged() string {
	for _, w := range s.Walks {
		for _, task := range w.tasks() {
			for _, later := range s.Walks {
				if id, said := later.AgentSays[task]; said && id != w.CorrelationID {
					return fmt.Sprintf("the agent wrote of %s of walk %d under the id %q, and the walk's is %s", task, w.N, id,
						w.CorrelationID)
				}
			}
		}
	}
	return ""
}
