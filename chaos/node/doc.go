// Package node is the part of a drill that runs on a machine, inside gpuaas-fault: it makes changes, watches over them,
// and reverts them whatever process dies. To revert it needs neither the agent, nor DNS, nor a network, nor disk space.
//
// It is based on one idea: the state of a place is written to a journal on disk before the place is touched, and an
// undo is executed only if the place is still in the changed state. So any process may try an undo, at any time and as
// often as needed: the operator's tool, the watchdog, the reaper at boot, the next drill.
//
//	Keeper   the rules: what is done when, and what is written first; it has no clock, disk or machine of its own
//	Journal  entries on a disk, and their fold
//	System   the machine: one file for each kind of change (place_*.go)
//	Run      a drill of this machine: its folder, its locks, its reaper, its watchdog
//	fingerprint*.go  the machine's state, for comparison
package node
