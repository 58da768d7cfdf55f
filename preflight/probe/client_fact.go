package probe

import (
	"encoding/json"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// factOf returns the fact of a line whose head is o, and false if the line has none. What the node refused, what is
// over the limits of a line, and what has an impossible number is a fact that nothing was measured, with the reason.
func factOf(line []byte, o *outLine, over error) (diag.Fact, bool) {
	why := o.Error
	switch {
	case over != nil:
		why = "the node's answer has " + over.Error()
	case why == "":
		var f diag.Fact
		if json.Unmarshal(line, &f) != nil {
			return f, false
		}
		err := bounded.Numbers(&f)
		if err == nil {
			return f, true
		}
		why = "the node's answer has an impossible number: " + err.Error()
	}
	return diag.Fact{ID: o.ID, Vantage: VantageNode, At: diag.At(time.Now()), DurationMS: 1, Failure: diag.Unsupported,
		Detail: why}, true
}
