package hops

import (
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// BuiltIn returns the chain of a walk that brings no hops of its own.
func BuiltIn() *hop.Hops { return builtIn() }

var builtIn = sync.OnceValue(func() *hop.Hops { return WithOwn() })

// WithOwn returns the built-in chain, followed by hops that have no row in the catalogue: their ids begin with "x.".
func WithOwn(own ...hop.Hop) *hop.Hops { return hop.NewHops(append(withMeanings(newChain()), own...)) }

// withMeanings copies title, layer and Allocation from the catalogue. A hop without a catalogue row sets them itself.
func withMeanings(chain []hop.Hop) []hop.Hop {
	for i := range chain {
		if row, ok := diag.LookupHop(chain[i].ID); ok {
			chain[i].Title, chain[i].Layer, chain[i].Allocation = row.Title, row.Layer, row.Allocation
		}
	}
	return chain
}

// newChain returns the built-in hops. A new one is one file, its test, and one line here.
func newChain() []hop.Hop {
	return []hop.Hop{
		ControlPlaneAccess(),
		allocationBinding(),
		nodeHeartbeat(),
		nodeOpsAccess(),
		NodeReadiness(),
		nodeRuntimeAPI(),
		NodeRecoveryStatus(),
		nodeTaskRoundtrip(),
		terminalTokenMint(),
		terminalPublicRoute(),
		browserTerminalWS(),
		terminalOpenTask(),
		nodeTerminalReachability(),
		gatewayNodeStream(),
		terminalStartup(),
		appRuntimeLiveness(),
		AppUserRoute(),
		gpuHealth(),
	}
}
