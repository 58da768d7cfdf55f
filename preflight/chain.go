package preflight

import (
	"slices"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Chain is THE ordered chain. A new hop is one file, its test, and one line here.
func Chain() []Hop {
	chainOnce.Do(func() {
		chain = withMeanings(newChain())
		for i := range chain {
			chain[i].closure = slices.Clip(explainers(chain, chain[i].ID))
		}
		number(chain)
	})
	return chain
}

// A judge asks the chain for its own step, so that it cannot be made where it is declared.
var (
	chainOnce sync.Once
	chain     []Hop
	numbered  [slots][]numberedStep
	stepCount int // how many there are
)

// numberedStep is the number of a step among all of the chain, by which a case keeps its facts.
type numberedStep struct {
	hop  diag.HopID
	step string
	n    int
}

// slot is where a step's number is kept: lengths and the last letter distinguish nearly all steps.
func slot(hop diag.HopID, step string) int {
	if step == "" {
		return 0
	}
	return (3*len(hop) + 16*len(step) + int(step[len(step)-1])) % slots
}

const slots = 128

// number numbers the steps of the chain.
func number(chain []Hop) {
	for i := range chain {
		for k := range chain[i].Steps {
			s, at := &chain[i].Steps[k], slot(chain[i].ID, chain[i].Steps[k].Name)
			s.number = stepCount
			numbered[at] = append(numbered[at], numberedStep{chain[i].ID, s.Name, stepCount})
			stepCount++
		}
	}
}

// numberOf is the number of a step, -1 for one that the chain does not have.
func numberOf(hop diag.HopID, step string) int {
	in := numbered[slot(hop, step)]
	for i := range in {
		if s := &in[i]; s.step == step && s.hop == hop {
			return s.n
		}
	}
	return -1
}

// withMeanings sets the catalogue's fields of hops. A hop without a catalogue row sets them itself.
func withMeanings(chain []Hop) []Hop {
	for i := range chain {
		if row, ok := diag.LookupHop(chain[i].ID); ok {
			chain[i].Title, chain[i].Layer, chain[i].Allocation = row.Title, row.Layer, row.Allocation
		}
	}
	return chain
}

func newChain() []Hop {
	return []Hop{
		controlPlaneAccess(),
		allocationBinding(),
		nodeHeartbeat(),
		nodeOpsAccess(),
		nodeReadiness(),
		nodeRuntimeAPI(),
		nodeRecoveryStatus(),
		nodeTaskRoundtrip(),
		terminalTokenMint(),
		terminalPublicRoute(),
		browserTerminalWS(),
		terminalOpenTask(),
		nodeTerminalReachability(),
		gatewayNodeStream(),
		terminalStartup(),
		appRuntimeLiveness(),
		appUserRoute(),
		gpuHealth(),
	}
}

// hopsThrough lists the ids of the chain from a to b, both included.
func hopsThrough(a, b diag.HopID) []diag.HopID {
	var ids []diag.HopID
	in := false
	for _, id := range diag.HopIDs() {
		in = in || id == a
		if in {
			ids = append(ids, id)
		}
		if id == b {
			break
		}
	}
	return ids
}

// closure lists every hop that may explain a failure of id, directly or through others; never id itself.
func closure(chain []Hop, id diag.HopID) []diag.HopID { return hopIn(chain, id).closure }

// explainers works the closure out.
func explainers(chain []Hop, id diag.HopID) []diag.HopID {
	all := []diag.HopID{id}
	for i := 0; i < len(all); i++ {
		for _, e := range hopIn(chain, all[i]).ExplainedBy {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all[1:]
}
