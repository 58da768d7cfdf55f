package preflight

import (
	"slices"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Chain returns the hops in their order. A new hop is one file, its test, and one line in newChain.
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

// The chain is built on first use: judges look up their own steps in it, so a package-level initializer would be a
// cycle.
var (
	chainOnce sync.Once
	chain     []Hop
	bySlot    [slots][]chainStep // hash buckets, see slot
	stepCount int                // number of steps in the chain
)

// chainStep is a step and its hop, with copies of their names, so that a look-up reads no other memory.
type chainStep struct {
	id   diag.HopID
	name string
	n    int // the step's number
	hop  *Hop
	step *Step
}

// slot is the hash of a step: lengths and the last letter distinguish nearly all steps.
func slot(hop diag.HopID, step string) uint {
	if step == "" {
		return 0
	}
	return (3*uint(len(hop)) + 16*uint(len(step)) + uint(step[len(step)-1])) % slots
}

const slots = 128

// number numbers the steps of the chain, and fills bySlot.
func number(chain []Hop) {
	for i := range chain {
		for k := range chain[i].Steps {
			h, s := &chain[i], &chain[i].Steps[k]
			at := slot(h.ID, s.Name)
			bySlot[at] = append(bySlot[at], chainStep{h.ID, s.Name, stepCount, h, s})
			s.number = stepCount
			stepCount++
		}
	}
}

// declaredStep returns a step of the chain; nil if the chain does not have it.
func declaredStep(hop diag.HopID, step string) *chainStep {
	in := bySlot[slot(hop, step)]
	for i := range in {
		if s := &in[i]; s.name == step && s.id == hop {
			return s
		}
	}
	return nil
}

// withMeanings copies title, layer and Allocation from the catalogue. A hop without a catalogue row sets them itself.
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

// hopsThrough returns the ids of the chain from a to b, both included.
func hopsThrough(a, b diag.HopID) []diag.HopID {
	ids := diag.HopIDs()
	return slices.Clip(ids[slices.Index(ids, a) : slices.Index(ids, b)+1])
}

// closure lists every hop that may explain a failure of id, directly or through others; never id itself.
func closure(chain []Hop, id diag.HopID) []diag.HopID { return hopIn(chain, id).closure }

// explainers computes the closure of a hop.
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
