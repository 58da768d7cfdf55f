// Package chaos is what a drill is before anything is broken: the scenario as written, the kinds of faults,
// the facts about the machines, and the plan that follows from these three. All of it is data and pure functions on
// data.
//
//	Scenario  a YAML file, read strictly: what breaks, how that is seen, what the chain must report, how it comes back
//	Kind      one sort of fault: what it asks of a machine, and which changes it makes of the answers
//	Facts     the answers, read over existing vantages, without writing anything
//	Plan      every step on every machine, what undo restores, what is expected by when; or why it is refused
//
// A kind is to a plan what a hop is to a walk: Ask names what must be known, Make judges it, and only a vantage in
// between touches a machine. What travels to a machine is package step's; what runs there is package chaos/node.
//
// More than 25 files: each kind of fault has its own.
package chaos
