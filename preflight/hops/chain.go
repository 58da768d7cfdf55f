// Package hops has the built-in chain. A file is one hop, with what it asks and how it judges, and knows no other hop;
// shared.go has the requests that two hops send, and rows.go what a judge's table is.
//
// More than 25 files: each hop has its own.
package hops

import (
	"slices"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/check"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// BuiltIn returns the chain of a walk that brings no hops of its own.
func BuiltIn() *hop.Chain { return builtIn() }

var builtIn = sync.OnceValue(func() *hop.Chain { return WithOwn() })

// WithOwn returns the built-in chain, followed by hops that have no row in the catalogue: their ids begin with "x.".
func WithOwn(own ...hop.Hop) *hop.Chain {
	chain := hop.NewChain(append(withMeanings(newChain()), own...))
	chain.Declared = func(id diag.HopID, c *diag.Check) hop.Hop { return check.Hop(id, c, 0) }
	return chain
}

// WithChecks returns a chain that ends with the checks that a profile declares.
func WithChecks(chain *hop.Chain, p *profile.Profile) *hop.Chain {
	declared := p.DeclaredChecks()
	if len(declared) == 0 {
		return chain
	}
	list := slices.Clone(chain.List())
	for _, c := range declared {
		if hop.Position(list, c.ID) == len(list) {
			list = append(list, check.Hop(c.ID, c.Check, p.AllChecks()))
		}
	}
	with := hop.NewChain(list)
	with.Declared = chain.Declared
	return with
}

// withMeanings copies a hop's meaning from the catalogue. A hop without a catalogue row sets them itself.
func withMeanings(chain []hop.Hop) []hop.Hop {
	for i := range chain {
		if row, ok := diag.LookupHop(chain[i].ID); ok {
			chain[i].Meaning = hop.Meaning{Title: row.Title, Layer: row.Layer, Allocation: row.Allocation,
				Optional: row.Optional}
		}
	}
	return chain
}

// newChain returns the built-in hops. A new one is one file, its test, and one line here.
func newChain() []hop.Hop {
	return []hop.Hop{
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
		hostHealth(),
		networkPath(),
	}
}

// GPUsOf returns what a walk read about the node's GPUs; nil if it read nothing.
func GPUsOf(r *diag.Report) *reading.GPUAdmission {
	c := BuiltIn().CaseOf(r)
	if a := reading.AdmissionOf(c.Subject.NodeID, c.Fact(diag.HopGPUHealth, hop.StepAdmission)); a != nil {
		return a
	}
	return world.AdmissionIn(c)
}

// ReadModel returns the platform's fields of the node, as a walk last read them; nil if it did not read them.
func ReadModel(r *diag.Report) map[string]string {
	f := world.LastRead(BuiltIn().CaseOf(r))
	if f == nil || f.HTTP == nil {
		return nil
	}
	return f.HTTP.Fields
}

// OpenTerminal returns the request that opens, as a browser does, the terminal of mint, the answer to MintTerminal; the
// zero Request if the answer names none.
func OpenTerminal(e *hop.Env, mint diag.Fact) diag.Request {
	c := BuiltIn().NewCase(e.Subject, diag.Plan{}, "", []diag.Fact{mint})
	return named(askSession(e, c), diag.HopBrowserTerminalWS, hop.StepSession)
}
