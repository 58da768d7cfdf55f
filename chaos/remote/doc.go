// Package remote makes the machines of a drill reachable: gpuaas-fault and the machine's own tools, over one SSH
// connection that is kept for as long as it holds. It carries questions and answers, and judges neither. The runner and
// the commands about drills use it.
package remote
