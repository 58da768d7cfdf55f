// Package chaos plans a drill before anything is broken: the scenario as written, the kinds of faults, the facts about
// the machines, and the plan that follows from these three. All of it is data and pure functions on data.
//
//	Scenario  a YAML file, read strictly: what breaks, how that is proved, what the chain must report, how it recovers
//	Kind      one type of fault: which facts it needs about a machine, and which changes it derives from them
//	Facts     the answers, read over existing vantages, without writing anything
//	Plan      every step on every machine, what undo restores, what is expected by when; or why it is refused
//
// A kind is to a plan what a hop is to a walk: Ask returns the questions, Make judges the answers, and only a vantage
// in between connects to a machine. Package step defines what is sent to a machine; package chaos/node runs there.
//
// More than 25 files: each kind of fault has its own.
package chaos
