// Package node is what runs on a machine during a drill, inside gpuaas-fault: it makes changes, watches over them, and
// takes them back whatever dies. It needs neither the agent, nor DNS, nor a network, nor free disk to do that.
//
// One idea carries it: before a place is touched, how it looks lies in a journal on disk, and an undo is carried out
// only where the place still looks as the change made it. So an undo may be tried by any process, at any time, as often
// as they like: by the operator's tool, by the watchdog, by the reaper at boot, by the next drill.
//
//	Keeper   the rules: what is done when, and what is written before; knows neither a clock nor a disk nor a machine
//	Journal  entries on a disk, and what they add up to
//	System   the machine: one file for each kind of change (place_*.go)
//	Drill    a drill of this machine: its folder, its locks, its reaper, its watchdog
//	fingerprint*.go  what the machine looks like, to be compared with later
package node
