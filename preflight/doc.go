// Package preflight has the tests of its floors as a whole: facts go in, a verdict comes out. The floors walk the hop
// chain from the control plane to a tenant's shell, and decide which hop failed first, which one is to blame, and why.
// Each knows only those above it in this list:
//
//	hop      the types: hop, step, plan, case
//	reading  what one fact, or its repeats, show
//	world    what facts together show about a party: agent, gateway, session, identity, platform
//	hops     the built-in chain: what each hop asks, and how it judges
//	verdict  from judged hops to one blame, its proof, its reason and its steps
//	walk     running a plan: requests, repeats, counter-probes, a provisional blame
//	compare  two reports: a diff, another environment, a watch
//
// A hop is made of pure functions: each step asks (requests out) and the hop judges (facts in, findings out). The only
// code that touches a network or a host is a Vantage. So a walk is "send, collect, judge", a replay is "judge again",
// and no test of a judgement needs a network. Callers are ops and its callers.
package preflight
