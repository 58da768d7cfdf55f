// Command gpuaasctl finds the first failed hop between a control plane, a GPU node and a tenant's terminal, its cause
// and its owner.
package main

import (
	"os"
)

// version is set by the build (-X main.version).
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }
