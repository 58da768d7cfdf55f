// Package remote makes the machines of a drill reachable: gpuaas-fault and plain tools, over one SSH connection that is
// kept for as long as it holds. It carries questions and answers, and judges neither. The runner and the commands that
// look after drills use it.
package remote
