package durabletest

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Killer ends a process before a change of its disk, which may be the second half of a write. Kill is its hook.
type Killer struct {
	Changes int // so far, in this process and earlier ones
	At      int // the change that kills, from 1; 0: none
}

// Killed is the value of the panic at the change at which the process dies.
type Killed struct{ Change string }

// NewDir returns an empty folder in memory, and a Killer for it.
func NewDir() (durable.Dir, *Killer) {
	d, k := New(false), &Killer{}
	d.Fault = k.Kill
	return durable.Dir{FS: d, Root: "/state"}, k
}

// Kill is a durable.Hook.
func (k *Killer) Kill(op, path string) error {
	if op == durable.OpOpen { // nothing changes
		return nil
	}
	k.Changes++
	if k.Changes == k.At {
		panic(Killed{fmt.Sprintf("change %d, %s %s", k.Changes, op, path)})
	}
	return nil
}
