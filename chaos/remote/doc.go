// Package remote connects a drill to its machines: it runs gpuaas-fault and the machine's own tools over one
// persistent SSH connection. It transports requests and replies, and judges neither. Its callers are the runner
// and the commands about drills.
package remote
