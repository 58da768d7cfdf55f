// Command gpuaasctl finds the first failed hop between a control plane, a GPU node and a tenant's terminal, its cause
// and its owner.
package main

import (
	"os"
)

// version is set by the build (-X main.version).
var version = "dev"

// helpers is set by the build (-X main.helpers): the digests of gpuaas-agent, gpuaas-fault and gpuaas-gpu-policy, as
// owned.ParseBuild reads them.
var helpers string

func main() { os.Exit(run(os.Args[1:])) }
